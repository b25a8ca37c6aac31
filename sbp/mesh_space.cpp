#include "sbp/mesh_space.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::sbp {
namespace {

std::vector<int64_t> split(const std::vector<int64_t>& extents, int64_t parts) {
  std::vector<int64_t> result;
  for (const int64_t extent : extents)
    for (int64_t k = 0; k < parts; ++k) result.push_back(part_range(extent, parts, k).size());
  return result;
}

}  // namespace

State state_of(const Shape& shape, const Shape& mesh, const NdSbp& layout) {
  State state{layout, std::vector<Dims>(shape.size())};
  for (size_t d = 0; d < mesh.size(); ++d)
    if (mesh[d] == 1) state.entry[d] = Sbp::B();
  const auto order = split_order(layout);
  for (size_t axis = 0; axis < order.size(); ++axis)
    for (const size_t d : order[axis])
      if (mesh[d] > 1) state.order[axis].push_back(static_cast<int>(d));
  for (Sbp& sbp : state.entry) sbp.inner = 0;
  return state;
}

NdSbp layout_of(const State& state) {
  NdSbp layout = state.entry;
  for (const Dims& order : state.order) {
    int8_t inner = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      if (k > 0 && order[k] < order[k - 1]) ++inner;
      at(layout, order[k]).inner = inner;
    }
  }
  return layout;
}

std::vector<int64_t> Space::part_sizes(int axis, const Dims& order, const Dims& dims) const {
  const auto from = std::find(order.begin(), order.end(), dims.front());
  std::vector<int64_t> outer{at(shape, axis)};
  for (auto d = order.begin(); d != from; ++d) outer = split(outer, extent(*d));
  std::vector<int64_t> sizes(static_cast<size_t>(size(dims)));
  for (const int64_t extent_here : outer) {
    std::vector<int64_t> parts{extent_here};
    for (const int d : dims) parts = split(parts, extent(d));
    for (size_t k = 0; k < sizes.size(); ++k) sizes[k] += parts[k];
  }
  return sizes;
}

int64_t Space::staying(int axis, const Dims& order, int axis2, const Dims& order2, const Dims& dims) const {
  const int64_t n = at(shape, axis), n2 = at(shape, axis2);
  if (n == 0 || n2 == 0) return 0;
  const int64_t rest = elements() / n / n2;
  if (n % size(order) == 0 && n2 % size(order2) == 0) return rest * n * n2 / size(dims);
  const auto a = part_sizes(axis, order, dims), b = part_sizes(axis2, order2, dims);
  return rest * std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0});
}

}  // namespace boxcar::sbp
