// Everything in float64, to check lowering and kernels to the last digits.
#include <string>
#include <utility>

#include "ir/passes/pass.h"
#include "ir/rewrite.h"

namespace boxcar::ir {

// Results follow from their widened operands; results of ops that set their own type are cast.
void double_precision(Step& step) {
  if (step.options.precision != Precision::fp64) return;
  const std::string wide = to_text(DType::float64);
  for (Tensor& tensor : step.graph.tensors)
    if (is_float(tensor.type.dtype)) tensor.type.dtype = DType::float64;
  for (Op& op : step.graph.ops)
    if (op.is(OpKind::cast) && is_float(parse_dtype(attr_text(op.attrs, "to")))) op.attrs["to"] = wide;
  Rewriter rewrite(step.graph);
  for (Op& op : rewrite.old_ops()) {
    const Op like = op;
    rewrite.keep(std::move(op));
    if (like.type != "one_hot") continue;
    const TensorId narrow = like.outputs[0];
    rewrite.graph().tensor(narrow).type.dtype = DType::float32;
    rewrite.replace(narrow, rewrite.add({"cast", {narrow}, {{"to", wide}}, like.name + ".wide"}, like)[0]);
  }
  step.finish(rewrite);
}

}  // namespace boxcar::ir
