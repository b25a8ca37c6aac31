#include "sbp/transfer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace boxcar::sbp {
namespace {

// Half-open ranges of cells, per axis.
using Cells = std::vector<Range>;

// The devices that hold the same block of a layout: as different partials, as copies, or as one partial
// value.
struct Block {
  Cells cells;
  std::vector<int> devices;  // in mesh order
  std::vector<int> labels;   // of each device: which of the partials, 0 where there are none
  std::vector<int> copies;   // of each device: which set of partials
};

// The tensor cut along every border of either layout. A cell is an index per axis, its number row-major.
class Grid {
 public:
  Grid(const Layout& from, const Layout& to) : cuts_(from.shape.size()) {
    for (const Layout* layout : {&from, &to})
      for (size_t i = 0; i < layout->placement.devices.size(); ++i) add(*layout, static_cast<int64_t>(i));
    for (size_t axis = 0; axis < cuts_.size(); ++axis) {
      cuts_[axis].push_back(0);
      cuts_[axis].push_back(from.shape[axis]);
      std::sort(cuts_[axis].begin(), cuts_[axis].end());
      cuts_[axis].erase(std::unique(cuts_[axis].begin(), cuts_[axis].end()), cuts_[axis].end());
    }
  }

  // Cuts the axis of the most indices further, so that each cell is up to `parts` cells, for roots to share.
  void refine(int64_t parts) {
    if (cuts_.empty() || parts < 2) return;
    auto longest = std::max_element(cuts_.begin(), cuts_.end(),
                                    [](const auto& a, const auto& b) { return a.back() < b.back(); });
    std::vector<int64_t> finer;
    for (size_t k = 0; k + 1 < longest->size(); ++k)
      for (int64_t part = 0; part < parts; ++part) {
        const Range range = part_range((*longest)[k + 1] - (*longest)[k], parts, part);
        if (range.size() > 0) finer.push_back((*longest)[k] + range.begin);
      }
    finer.push_back(longest->back());
    *longest = std::move(finer);
  }

  int64_t count() const {
    int64_t product = 1;
    for (const auto& cuts : cuts_) product *= static_cast<int64_t>(cuts.size()) - 1;
    return product;
  }

  Cells cells(const std::vector<Range>& ranges) const {
    Cells result;
    for (size_t axis = 0; axis < ranges.size(); ++axis)
      result.push_back({find(axis, ranges[axis].begin), find(axis, ranges[axis].end)});
    return result;
  }

  // Calls visit(number, indices) for every cell.
  void each(const Cells& cells,
            const std::function<void(int64_t, const std::vector<int64_t>&)>& visit) const {
    std::vector<int64_t> at;
    for (const Range range : cells) {
      if (range.size() <= 0) return;
      at.push_back(range.begin);
    }
    while (true) {
      int64_t number = 0;
      for (size_t axis = 0; axis < at.size(); ++axis)
        number = number * (static_cast<int64_t>(cuts_[axis].size()) - 1) + at[axis];
      visit(number, at);
      size_t axis = at.size();
      while (axis > 0 && ++at[axis - 1] == cells[axis - 1].end) {
        at[axis - 1] = cells[axis - 1].begin;
        --axis;
      }
      if (axis == 0) return;
    }
  }

  std::vector<Range> ranges(const std::vector<int64_t>& at) const {
    std::vector<Range> result;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const auto k = static_cast<size_t>(at[axis]);
      result.push_back({cuts_[axis][k], cuts_[axis][k + 1]});
    }
    return result;
  }
  int64_t volume(const std::vector<int64_t>& at) const {
    int64_t product = 1;
    for (const Range range : ranges(at)) product *= range.size();
    return product;
  }

 private:
  void add(const Layout& layout, int64_t index) {
    const auto ranges = local_ranges(layout.shape, layout.sbp, layout.placement.mesh, index);
    for (size_t axis = 0; axis < ranges.size(); ++axis)
      if (cuts_[axis].empty() || cuts_[axis].back() != ranges[axis].begin)
        cuts_[axis].push_back(ranges[axis].begin);
  }
  int64_t find(size_t axis, int64_t border) const {
    return std::lower_bound(cuts_[axis].begin(), cuts_[axis].end(), border) - cuts_[axis].begin();
  }

  std::vector<std::vector<int64_t>> cuts_;
};

// What index `index` of a mesh counts along the dimensions that `wanted` takes, row-major.
template <typename Predicate>
int64_t coordinate(const Layout& layout, int64_t index, Predicate wanted) {
  int64_t result = 0, below = static_cast<int64_t>(layout.placement.devices.size());
  for (size_t d = 0; d < layout.sbp.size(); ++d) {
    const int64_t extent = layout.placement.mesh[d];
    below /= extent;
    if (wanted(layout.sbp[d])) result = result * extent + index / below % extent;
  }
  return result;
}

// The devices of `layout` by coordinates along the dimensions that `wanted` takes.
template <typename Predicate>
std::vector<Block> blocks(const Layout& layout, const Grid& grid, Predicate wanted) {
  std::vector<Block> result;
  for (size_t i = 0; i < layout.placement.devices.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const auto block = static_cast<size_t>(coordinate(layout, index, wanted));
    if (block >= result.size()) result.resize(block + 1);
    if (result[block].devices.empty())
      result[block].cells = grid.cells(local_ranges(layout.shape, layout.sbp, layout.placement.mesh, index));
    result[block].devices.push_back(layout.placement.devices[i]);
    result[block].labels.push_back(
        static_cast<int>(coordinate(layout, index, [](Sbp sbp) { return sbp.is_partial(); })));
    result[block].copies.push_back(
        static_cast<int>(coordinate(layout, index, [](Sbp sbp) { return sbp.is_broadcast(); })));
  }
  return result;
}

const Sbp* partial_of(const Layout& layout) {
  for (size_t d = 0; d < layout.sbp.size(); ++d)
    if (layout.sbp[d].is_partial() && layout.placement.mesh[d] > 1) return &layout.sbp[d];
  return nullptr;
}

class Transfer {
 public:
  Transfer(const Layout& from, const Layout& to) : from_(from), to_(to), grid_(from, to), partials_(1) {
    for (size_t d = 0; d < from.sbp.size(); ++d)
      if (from.sbp[d].is_partial()) partials_ *= from.placement.mesh[d];
    lay();
  }

  // Elements moved if every block of the result gets each partial, and if a root per cell reduces them first.
  int64_t direct_elements() const { return direct_; }
  int64_t rooted_elements() const { return rooted_; }
  bool direct() const { return partials_ == 1 || (mergeable() && direct_ <= rooted_); }

  std::vector<Step> steps() {
    if (direct()) return {gather_partials()};
    grid_.refine(partials_);
    lay();
    std::vector<Step> result(2);
    reduce_at_roots(result[0], result[1]);
    return result;
  }

 private:
  bool mergeable() const {
    const Sbp *f = partial_of(from_), *t = partial_of(to_);
    return !t || !f || std::all_of(to_.sbp.begin(), to_.sbp.end(), [&](Sbp sbp) {
      return !sbp.is_partial() || sbp.reduction == f->reduction;
    });
  }

  // Which devices hold and need each cell.
  void lay() {
    sources_ = blocks(from_, grid_, [](Sbp sbp) { return sbp.is_split(); });
    targets_ = blocks(to_, grid_, [](Sbp sbp) { return !sbp.is_partial(); });
    source_of_.assign(static_cast<size_t>(grid_.count()), -1);
    held_.clear();
    for (size_t s = 0; s < sources_.size(); ++s) {
      grid_.each(sources_[s].cells, [&](int64_t cell, const auto&) {
        source_of_[static_cast<size_t>(cell)] = static_cast<int>(s);
      });
      for (size_t k = 0; k < sources_[s].devices.size(); ++k)
        held_[sources_[s].devices[k]] = {static_cast<int>(s), sources_[s].copies[k], sources_[s].labels[k]};
    }
    count();
  }

  void count() {
    direct_ = rooted_ = 0;
    std::vector<int> needed(source_of_.size()), met(source_of_.size());
    for (const Block& target : targets_)
      grid_.each(target.cells, [&](int64_t cell, const auto& at) {
        const int there = match(target, source_of_[static_cast<size_t>(cell)], 0).count;
        direct_ += grid_.volume(at) * (partials_ - there);
        ++needed[static_cast<size_t>(cell)];
        met[static_cast<size_t>(cell)] |= there > 0;
      });
    Cells all;
    for (const int64_t extent : from_.shape) all.push_back({0, extent});
    grid_.each(grid_.cells(all), [&](int64_t cell, const auto& at) {
      const auto c = static_cast<size_t>(cell);
      rooted_ += grid_.volume(at) * (partials_ - 1 + needed[c] - met[c]);
    });
  }

  // The partials of one copy: the devices of `target` that hold them, -1 where none does.
  struct Match {
    int copy = 0, count = 0;
    std::vector<int> holders;
  };

  // Partials of different copies do not mix: the copy of which `target` holds the most, else the one whose
  // `turn` it is.
  Match match(const Block& target, int source, int64_t turn) const {
    const Block& block = sources_[static_cast<size_t>(source)];
    const auto copies = static_cast<int64_t>(block.devices.size()) / partials_;
    Match best{static_cast<int>(turn % copies), 0, std::vector<int>(static_cast<size_t>(partials_), -1)};
    std::map<int, Match> by_copy;
    for (const int device : target.devices) {
      const auto held = held_.find(device);
      if (held == held_.end() || held->second.block != source) continue;
      Match& match = by_copy[held->second.copy];
      if (match.holders.empty())
        match = {held->second.copy, 0, std::vector<int>(static_cast<size_t>(partials_), -1)};
      match.holders[static_cast<size_t>(held->second.label)] = device;
      if (++match.count > best.count) best = match;
    }
    return best;
  }

  int source_device(int source, int copy, int label) const {
    const Block& block = sources_[static_cast<size_t>(source)];
    for (size_t k = 0; k < block.devices.size(); ++k)
      if (block.labels[k] == label && block.copies[k] == copy) return block.devices[k];
    return -1;
  }

  Step gather_partials() const {
    Step step;
    step.collective = Collective::transfer;
    const Sbp *f = partial_of(from_), *t = partial_of(to_);
    step.reduction = f ? f->reduction : t ? t->reduction : Reduction::sum;
    for (size_t o = 0; o < targets_.size(); ++o) {
      const Block& target = targets_[o];
      grid_.each(target.cells, [&](int64_t cell, const auto& at) {
        const int source = source_of_[static_cast<size_t>(cell)];
        const Match here = match(target, source, static_cast<int64_t>(o));
        for (int label = 0; label < partials_; ++label) {
          const auto l = static_cast<size_t>(label);
          const int own = here.holders[l];
          const int device = own >= 0 ? own : target.devices[l % target.devices.size()];
          const int sender = own >= 0 ? own : source_device(source, here.copy, label);
          step.slices.push_back({sender, device, grid_.ranges(at), partials_ > 1});
        }
      });
    }
    step.elements_moved = direct_;
    step.latency_steps = 1;
    step.result = to_;
    return step;
  }

  // The first step brings the partials of each cell to its root, the second the sums from there to all that
  // need them.
  void reduce_at_roots(Step& reduce, Step& spread) const {
    std::vector<std::vector<int>> hits(source_of_.size());  // needed where a partial is
    for (const Block& target : targets_)
      grid_.each(target.cells, [&](int64_t cell, const auto&) {
        for (const int device : target.devices) {
          const auto held = held_.find(device);
          if (held != held_.end() && held->second.block == source_of_[static_cast<size_t>(cell)])
            hits[static_cast<size_t>(cell)].push_back(device);
        }
      });
    reduce.collective = spread.collective = Collective::transfer;
    reduce.reduction = partial_of(from_)->reduction;
    const Sbp* t = partial_of(to_);
    spread.reduction = t ? t->reduction : Reduction::sum;

    Cells all;
    for (const int64_t extent : from_.shape) all.push_back({0, extent});
    std::vector<int> root(source_of_.size());
    grid_.each(grid_.cells(all), [&](int64_t cell, const auto& at) {
      const auto c = static_cast<size_t>(cell);
      const auto& choice = hits[c].empty() ? sources_[static_cast<size_t>(source_of_[c])].devices : hits[c];
      root[c] = choice[c % choice.size()];
      const Held& own = held_.at(root[c]);
      for (int label = 0; label < partials_; ++label)
        reduce.slices.push_back({source_device(own.block, own.copy, label), root[c], grid_.ranges(at), true});
      reduce.elements_moved += grid_.volume(at) * (partials_ - 1);
    });
    for (const Block& target : targets_)
      grid_.each(target.cells, [&](int64_t cell, const auto& at) {
        const int from = root[static_cast<size_t>(cell)];
        const bool own =
            std::find(target.devices.begin(), target.devices.end(), from) != target.devices.end();
        spread.slices.push_back({from, own ? from : target.devices.front(), grid_.ranges(at), false});
        if (!own) spread.elements_moved += grid_.volume(at);
      });
    reduce.latency_steps = spread.latency_steps = 1;
    reduce.result = {from_.shape, {}, {{}, root}};
    auto& devices = reduce.result.placement.devices;
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    spread.result = to_;
  }

  struct Held {
    int block, copy, label;
  };

  const Layout &from_, &to_;
  Grid grid_;
  int64_t partials_;
  std::vector<Block> sources_, targets_;
  std::vector<int> source_of_;  // by cell
  std::map<int, Held> held_;    // by device
  int64_t direct_ = 0, rooted_ = 0;
};

}  // namespace

std::vector<Step> transfer(const Layout& from, const Layout& to) { return Transfer(from, to).steps(); }

int64_t transfer_elements(const Layout& from, const Layout& to) {
  const Transfer transfer(from, to);
  return transfer.direct() ? transfer.direct_elements() : transfer.rooted_elements();
}

}  // namespace boxcar::sbp
