// Ops that move elements of any type: copies with strides.
#include <cstring>
#include <numeric>

#include "backends/cpu/kernels.h"
#include "backends/cpu/reference.h"
#include "backends/cpu/strided_copy.h"
#include "sbp/at.h"

namespace boxcar::backends::cpu {
namespace {

// Copies from input 0 to output 0, from the element `first` on.
std::unique_ptr<Kernel> copies(const Call& call, const std::vector<int64_t>& from_steps, int64_t first = 0) {
  const ir::TensorType& y = call.outputs[0];
  const int64_t size = ir::size_of(y.dtype);
  if (y.elements() == 0) return kernel([](const Operands&) {});
  return kernel(
      [skipped = first * size, copy = StridedCopy({y.shape, {from_steps, strides(y.shape)}}, size)](
          const Operands& operands) { copy.run(operands.in<std::byte>(0) + skipped, operands.outputs[0]); });
}

std::unique_ptr<Kernel> make_reshape(const Call& call) {
  return kernel([bytes = static_cast<size_t>(call.outputs[0].bytes())](const Operands& operands) {
    if (bytes > 0) std::memcpy(operands.outputs[0], operands.inputs[0], bytes);
  });
}

std::unique_ptr<Kernel> make_transpose(const Call& call) {
  const std::vector<int64_t> own = strides(call.inputs[0].shape), &perm = ir::attr_ints(call.attrs, "perm");
  std::vector<int64_t> steps;
  for (const int64_t axis : perm) steps.push_back(at(own, axis));
  if (perm.empty()) steps.assign(own.rbegin(), own.rend());
  return copies(call, steps);
}

std::unique_ptr<Kernel> make_broadcast_to(const Call& call) {
  return copies(call, stretched_steps(call.inputs[0].shape, call.outputs[0].shape));
}

std::unique_ptr<Kernel> make_slice(const Call& call) {
  const std::vector<int64_t> own = strides(call.inputs[0].shape),
                             &starts = ir::attr_ints(call.attrs, "starts");
  return copies(call, own, std::inner_product(own.begin(), own.end(), starts.begin(), int64_t{0}));
}

// Zeros, with dy in its place.
std::unique_ptr<Kernel> make_slice_grad(const Call& call) {
  const ir::Shape &from = call.inputs[0].shape, &to = call.outputs[0].shape;
  const std::vector<int64_t> from_steps = strides(from), to_steps = strides(to);
  const std::vector<int64_t>& starts = ir::attr_ints(call.attrs, "starts");
  Axes inside{{}, {from_steps, to_steps}};
  int64_t from_first = 0, to_first = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t begin = std::max<int64_t>(0, -starts[i]), end = std::min(from[i], to[i] - starts[i]);
    inside.extents.push_back(std::max<int64_t>(0, end - begin));
    from_first += begin * from_steps[i];
    to_first += (begin + starts[i]) * to_steps[i];
  }
  const int64_t size = ir::size_of(call.outputs[0].dtype);
  const bool any = ir::TensorType{inside.extents, call.outputs[0].dtype}.elements() > 0;
  return kernel([=, bytes = static_cast<size_t>(call.outputs[0].bytes()),
                 copy = StridedCopy(inside, size)](const Operands& operands) {
    if (bytes > 0) std::memset(operands.outputs[0], 0, bytes);
    if (any)
      copy.run(operands.in<std::byte>(0) + from_first * size, operands.out<std::byte>(0) + to_first * size);
  });
}

std::unique_ptr<Kernel> make_concat(const Call& call) {
  const int64_t axis = ir::attr_int(call.attrs, "axis"), size = ir::size_of(call.outputs[0].dtype);
  const Around whole = around(call.outputs[0].shape, axis);
  std::vector<int64_t> pieces;  // bytes of each input beside each other
  for (const ir::TensorType& input : call.inputs)
    pieces.push_back(around(input.shape, axis).extent * whole.inner * size);
  return kernel([pieces, outer = whole.outer](const Operands& operands) {
    std::byte* to = operands.out<std::byte>(0);
    for (int64_t row = 0; row < outer; ++row) {
      for (size_t i = 0; i < pieces.size(); ++i) {
        if (pieces[i] == 0) continue;
        std::memcpy(to, operands.in<std::byte>(i) + row * pieces[i], static_cast<size_t>(pieces[i]));
        to += pieces[i];
      }
    }
  });
}

}  // namespace

void add_shape_kernels(Factories& table) {
  table.insert({{"reshape", make_reshape},
                {"transpose", make_transpose},
                {"broadcast_to", make_broadcast_to},
                {"slice", make_slice},
                {"slice_grad", make_slice_grad},
                {"concat", make_concat}});
}

}  // namespace boxcar::backends::cpu
