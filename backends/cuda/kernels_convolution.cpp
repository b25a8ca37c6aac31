// Convolutions by cuDNN. Operands of different types are widened first.
#include "backends/cuda/kernel_table.h"
#include "ir/images.h"

namespace boxcar::backends::cuda {
namespace {

std::array<int64_t, 4> extents(const ir::Shape& s) { return {s[0], s[1], s[2], s[3]}; }

// A convolution's operands and result by role.
struct Operands {
  const ir::TensorType *x, *weight, *y;
};
Operands operands_of(const Call& call) {
  if (call.op == "conv2d") return {&call.inputs[0], &call.inputs[1], &call.outputs[0]};
  if (call.op == "conv2d_input_grad") return {&call.outputs[0], &call.inputs[1], &call.inputs[0]};
  return {&call.inputs[1], &call.outputs[0], &call.inputs[0]};
}

std::unique_ptr<Kernel> make_convolution(const Call& call, const Place& place) {
  const Operands of = operands_of(call);
  ConvolutionShape shape;
  shape.kind = call.op == "conv2d"              ? ConvolutionKind::forward
               : call.op == "conv2d_input_grad" ? ConvolutionKind::input_grad
                                                : ConvolutionKind::weight_grad;
  const ir::ImageAxes axes = ir::image_axes(call.attrs);
  shape.x = extents(axes.channels_first(of.x->shape)), shape.y = extents(axes.channels_first(of.y->shape));
  shape.weight = extents(of.weight->shape);
  shape.channels_last = axes.channel == 3;
  shape.stride = ir::attr_int(call.attrs, "stride");
  shape.padding = ir::attr_int(call.attrs, "padding");
  if (of.x->elements() == 0 || of.weight->elements() == 0 || of.y->elements() == 0)
    return kernel(call, place, 0,
                  [bytes = call.outputs[0].bytes()](const Act& act) { zero(act, act.out(0), bytes); });
  const bool direct = of.x->dtype == of.weight->dtype && of.x->dtype == of.y->dtype;
  const bool wide = any_float64(call);
  const ir::DType middle = wide ? ir::DType::float64 : ir::DType::float32;
  shape.type = static_cast<Type>(direct ? of.x->dtype : middle);
  const std::shared_ptr<DnnPlan> convolution = place.libraries.dnn().convolution(shape);
  place.libraries.takes(direct ? "cuDNN" : "cuDNN, after kernels that widen",
                        direct ? "" : "its operands are of several types (one --precision for all)");
  const Widened widened(direct ? ir::Types{} : ir::Types{call.inputs[0], call.inputs[1], call.outputs[0]},
                        middle, convolution->workspace());
  return kernel(call, place, widened.end(), [=, kind = shape.kind](const Act& act) {
    const auto run = [&](const void* first, const void* second, void* result) {
      switch (kind) {
        case ConvolutionKind::forward:
          return convolution->run({{first, second, result}}, act.scratch, act.stream);
        case ConvolutionKind::input_grad:
          return convolution->run({{result, second, first}}, act.scratch, act.stream);
        default:
          return convolution->run({{second, result, first}}, act.scratch, act.stream);
      }
    };
    if (direct) return run(act.inputs[0], act.inputs[1], act.outputs[0]);
    const Array first = widened.in(act, 0), second = widened.in(act, 1), result = widened.place(act, 2);
    run(first.data, second.data, result.data);
    widened.out(act, 2);
  });
}

}  // namespace

void add_convolution_kernels(Factories& table) {
  for (const char* op : {"conv2d", "conv2d_input_grad", "conv2d_weight_grad"}) table[op] = make_convolution;
}

}  // namespace boxcar::backends::cuda
