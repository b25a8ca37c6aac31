// Everything in float64, to judge lowering and kernels to the last digits.
#include "ir/passes/pass.h"

namespace boxcar::ir {

// Results follow from their operands, all of which are widened; verify() checks that they do.
void double_precision(Step& step) {
  if (step.options.precision != Precision::fp64) return;
  const std::string wide = to_text(DType::float64);
  for (Tensor& tensor : step.graph.tensors)
    if (is_float(tensor.type.dtype)) tensor.type.dtype = DType::float64;
  for (Op& op : step.graph.ops)
    if (op.is(OpKind::cast) && is_float(parse_dtype(attr_text(op.attrs, "to")))) op.attrs["to"] = wide;
}

}  // namespace boxcar::ir
