// Reductions over axes and over whole tensors.
#include <algorithm>

#include "backends/cuda/kernel_table.h"
#include "ir/ops/classes.h"
#include "sbp/at.h"

namespace boxcar::backends::cuda {
namespace {

std::unique_ptr<Kernel> reduction(const Call& call, const Place& place, Reduce shape, bool wide) {
  if (shape.keep_dims > max_dims || shape.reduce_dims > max_dims) return nullptr;
  return kernel(call, place, scratch_of(shape), [shape, wide](const Act& act) {
    Reduce reduce = shape;
    reduce.in = act.in(0), reduce.out = act.out(0);
    launch_reduce(reduce, act.scratch, wide, act.stream);
  });
}

// The input's axes, those named (all if none is) reduced.
template <Combine combine>
std::unique_ptr<Kernel> make_axes(const Call& call, const Place& place) {
  const ir::Shape& shape = call.inputs[0].shape;
  if (shape.size() > max_dims) return nullptr;
  const std::vector<int64_t>& axes = ir::attr_ints(call.attrs, "axes");
  const auto rank = static_cast<int64_t>(shape.size());
  ir::Shape kept = shape;
  for (int64_t a = 0; a < rank; ++a) {
    const bool named =
        std::count(axes.begin(), axes.end(), a) + std::count(axes.begin(), axes.end(), a - rank) > 0;
    if (axes.empty() || named) at(kept, a) = -1;
  }
  Reduce reduce = reduce_to(call.inputs[0], {kept, call.outputs[0].dtype});
  reduce.combine = combine;
  // With padding, the last axis is reduced alone, and its rows stay as far apart.
  if (call.op == "reduce_max" && ir::attr_int(call.attrs, "classes") != 0)
    reduce.reduced = reduce.reduce_extent[0] = ir::classes_here(call.attrs, shape.back());
  if (call.op == "reduce_mean") {
    int64_t count = ir::attr_int(call.attrs, "count");
    if (count == 0) count = reduce.reduced;
    reduce.factor = 1 / static_cast<double>(count);
  }
  return reduction(call, place, reduce, any_wide(call));
}

template <Combine combine>
std::unique_ptr<Kernel> make_whole(const Call& call, const Place& place) {
  Reduce reduce = reduce_to({{call.inputs[0].elements()}, call.inputs[0].dtype}, {{}, call.outputs[0].dtype});
  reduce.combine = combine;
  return reduction(call, place, reduce, any_float64(call));
}

}  // namespace

void add_reduce_kernels(Factories& table) {
  table.insert({{"reduce_sum", make_axes<Combine::sum>},
                {"reduce_mean", make_axes<Combine::sum>},
                {"reduce_max", make_axes<Combine::max>},
                {"reduce_min", make_axes<Combine::min>},
                {"square_sum", make_whole<Combine::square_sum>},
                {"all_finite", make_whole<Combine::all_finite>}});
}

}  // namespace boxcar::backends::cuda
