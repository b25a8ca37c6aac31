// One update op per parameter: state before, gradient, factor -> state after.
#include <utility>

#include "ir/passes/pass.h"

namespace boxcar::ir {
namespace {

struct Rule {
  const char* op;
  std::vector<const char*> moments;  // further state, one tensor of the parameter's shape each
};

Rule rule_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return {"sgd", {}};
    case Optimizer::momentum:
      return {"momentum", {"m"}};
    case Optimizer::adam:
      return {"adam", {"m", "v"}};
  }
  return {};
}

void update(Step& step, Rewriter& rewrite, const Gradient& gradient, Op like) {
  Graph& graph = rewrite.graph();
  const Rule rule = rule_of(step.options.optimizer);
  like.phase = Phase::update;
  const TensorId weight = like.outputs[0];
  std::vector<TensorId> state = {weight};
  std::vector<TensorId> operands = {weight, gradient.gradient};
  std::vector<std::string> names = {like.name + ".next"};
  for (const char* moment : rule.moments) {
    const std::string name = like.name + "." + moment;
    state.push_back(rewrite.add_source("parameter", name, {graph.tensor(weight).type.shape, DType::float32},
                                       Role::optimizer, {}, like));
    operands.push_back(state.back());
    names.push_back(name + ".next");
  }
  if (step.scale >= 0) operands.push_back(step.scale);
  if (step.finite >= 0) operands.push_back(step.finite);
  const Attrs attrs = {{"lr", step.options.learning_rate}};
  const auto next = rewrite.add({rule.op, operands, attrs, like.name + ".update", names}, like);
  for (size_t i = 0; i < state.size(); ++i) {
    graph.tensor(next[i]).role = graph.tensor(state[i]).role;
    graph.updates.push_back({state[i], next[i]});
  }
}

}  // namespace

void optimize(Step& step) {
  std::vector<Op> states;
  for (const Gradient& gradient : step.gradients) states.push_back(state_op(step.graph, gradient.parameter));
  Rewriter rewrite(step.graph);
  for (Op& op : rewrite.old_ops()) rewrite.keep(std::move(op));
  for (size_t i = 0; i < states.size(); ++i) update(step, rewrite, step.gradients[i], std::move(states[i]));
  step.finish(rewrite);
}

}  // namespace boxcar::ir
