// The global norm of all gradients: squares per gradient, one sum per layer, one over all layers, one factor.
#include <fmt/format.h>

#include <map>

#include "ir/passes/pass.h"
#include "ir/passes/step_tensors.h"
#include "sbp/at.h"

namespace boxcar::ir {

void clip(Step& step) {
  const TrainOptions& options = step.options;
  const bool scaled = scales_loss(options);
  if (step.gradients.empty() || (options.clip_norm == 0 && !scaled)) return;
  std::vector<Op> states;
  for (const Gradient& gradient : step.gradients) states.push_back(state_op(step.graph, gradient.parameter));
  Op last = at(step.graph.ops, step.graph.tensor(step.loss).producer);
  last.phase = Phase::update;

  Rewriter rewrite(step.graph);
  for (Op& op : rewrite.old_ops()) rewrite.keep(std::move(op));
  std::map<int, std::vector<TensorId>> squares;  // by layer
  std::map<int, Op> likes;
  for (size_t i = 0; i < states.size(); ++i) {
    Op like = states[i];
    like.phase = Phase::update;
    squares[like.layer].push_back(
        rewrite.add({"square_sum", {step.gradients[i].gradient}, {}, like.name + ".norm2", {}}, like)[0]);
    likes[like.layer] = like;
  }
  std::vector<TensorId> layers;
  for (const auto& [layer, parts] : squares) {
    const int blocks = rewrite.graph().layers;
    const std::string prefix = layer < 0 ? "embedding" : layer == blocks ? "head" : layer_name(layer);
    layers.push_back(rewrite.add({"sum", parts, {}, prefix + ".grad_norm2", {}}, likes[layer])[0]);
  }
  const TensorId norm2 = rewrite.add({"sum", layers, {}, "grad_norm2", {}}, last)[0];
  const Attrs attrs = {{"max_norm", options.clip_norm}, {"loss_scale", scaled ? options.loss_scale : 1.0}};
  step.scale = rewrite.add({"clip_scale", {norm2}, attrs, "grad_scale", {}}, last)[0];
  if (scaled) step.finite = rewrite.add({"all_finite", {norm2}, {}, finite_name, {}}, last)[0];
  step.finish(rewrite);
}

}  // namespace boxcar::ir
