#include "sbp/grid.h"

#include <algorithm>

namespace boxcar::sbp {

Grid::Grid(const Layout& a, const Layout& b) : cuts_(a.shape.size()) {
  for (size_t axis = 0; axis < cuts_.size(); ++axis) cuts_[axis] = {0, a.shape[axis]};
  for (const Layout* layout : {&a, &b})
    for (size_t i = 0; i < layout->placement.devices.size(); ++i) {
      const auto block =
          local_ranges(layout->shape, layout->sbp, layout->placement.mesh, static_cast<int64_t>(i));
      for (size_t axis = 0; axis < cuts_.size(); ++axis)
        if (cuts_[axis].back() != block[axis].begin) cuts_[axis].push_back(block[axis].begin);
    }
  for (auto& cuts : cuts_) {
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  }
}

void Grid::refine(int64_t parts) {
  if (cuts_.empty()) return;
  auto& longest = *std::max_element(cuts_.begin(), cuts_.end(),
                                    [](const auto& a, const auto& b) { return a.back() < b.back(); });
  std::vector<int64_t> finer;
  for (size_t k = 0; k + 1 < longest.size(); ++k)
    for (int64_t part = 0; part < parts; ++part) {
      const Range range = part_range(longest[k + 1] - longest[k], parts, part);
      if (range.size() > 0) finer.push_back(longest[k] + range.begin);
    }
  finer.push_back(longest.back());
  longest = std::move(finer);
}

int64_t Grid::count() const {
  int64_t product = 1;
  for (const auto& cuts : cuts_) product *= static_cast<int64_t>(cuts.size()) - 1;
  return product;
}

Grid::Cells Grid::all() const {
  Cells result;
  for (const auto& cuts : cuts_) result.push_back({0, static_cast<int64_t>(cuts.size()) - 1});
  return result;
}

Grid::Cells Grid::cells(const std::vector<Range>& block) const {
  Cells result(block.size());
  for (size_t axis = 0; axis < block.size(); ++axis) {
    const auto& cuts = cuts_[axis];
    const auto find = [&](int64_t cut) {
      return std::lower_bound(cuts.begin(), cuts.end(), cut) - cuts.begin();
    };
    result[axis] = {find(block[axis].begin), find(block[axis].end)};
  }
  return result;
}

std::vector<Range> Grid::block(const Indices& cell) const {
  std::vector<Range> result(cell.size());
  for (size_t axis = 0; axis < cell.size(); ++axis) {
    const auto k = static_cast<size_t>(cell[axis]);
    result[axis] = {cuts_[axis][k], cuts_[axis][k + 1]};
  }
  return result;
}

int64_t Grid::volume(const Indices& cell) const {
  int64_t product = 1;
  for (size_t axis = 0; axis < cell.size(); ++axis) {
    const auto k = static_cast<size_t>(cell[axis]);
    product *= cuts_[axis][k + 1] - cuts_[axis][k];
  }
  return product;
}

}  // namespace boxcar::sbp
