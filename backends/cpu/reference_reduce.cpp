#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/reference.h"
#include "ir/ops/classes.h"

namespace boxcar::backends::cpu {
namespace {

// By dimension of x: how far a step along it moves in the result; 0 where it is reduced.
std::vector<int64_t> result_steps(const ir::Shape& x, const ir::Attrs& attrs) {
  const std::vector<int64_t>& axes = ir::attr_ints(attrs, "axes");
  ir::Shape kept = x;
  auto rank = static_cast<int64_t>(x.size());
  for (int64_t axis = 0; axis < rank; ++axis) {
    bool named =
        std::count(axes.begin(), axes.end(), axis) + std::count(axes.begin(), axes.end(), axis - rank) > 0;
    if (axes.empty() || named) kept[static_cast<size_t>(axis)] = 0;
  }
  ir::Shape extents = kept;
  for (int64_t& extent : extents) extent = std::max<int64_t>(extent, 1);  // a reduced or an empty one
  std::vector<int64_t> steps = strides(extents);
  for (size_t i = 0; i < kept.size(); ++i) steps[i] = kept[i] == 0 ? 0 : steps[i];
  return steps;
}

// Reduces only the elements of the last axis before `last`.
template <class Combine>
void reduce(const Tensors& in, Tensors& out, const ir::Attrs& attrs, double start, Combine combine,
            int64_t last = std::numeric_limits<int64_t>::max()) {
  std::fill(out[0].data.begin(), out[0].data.end(), start);
  std::vector<int64_t> steps = result_steps(in[0].type.shape, attrs);
  for_each(in[0].type.shape, [&](const std::vector<int64_t>& index, int64_t flat) {
    if (!index.empty() && index.back() >= last) return;
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * steps[i];
    double& result = out[0].data[static_cast<size_t>(at)];
    result = combine(result, in[0].data[static_cast<size_t>(flat)]);
  });
}

void sum(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  reduce(in, out, attrs, 0, [](double a, double b) { return a + b; });
}

void mean(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  sum(in, out, attrs);
  int64_t count = ir::attr_int(attrs, "count");
  if (count == 0 && !out[0].data.empty()) count = in[0].type.elements() / out[0].type.elements();
  for (double& x : out[0].data) x = x / static_cast<double>(count);
}

void max(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const ir::Shape& shape = in[0].type.shape;
  reduce(
      in, out, attrs, -INFINITY, [](double a, double b) { return std::max(a, b); },
      shape.empty() ? 1 : ir::classes_here(attrs, shape.back()));
}

void min(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  reduce(in, out, attrs, INFINITY, [](double a, double b) { return std::min(a, b); });
}

}  // namespace

void add_reduce_kernels(KernelTable& table) {
  table.insert({{"reduce_sum", sum}, {"reduce_mean", mean}, {"reduce_max", max}, {"reduce_min", min}});
}

}  // namespace boxcar::backends::cpu
