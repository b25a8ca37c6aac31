// One update op per parameter: state before, gradient, factor -> state after.
#include <utility>

#include "ir/ops/optimizers.h"
#include "ir/passes/pass.h"

namespace boxcar::ir {
namespace {

// The numbers of optimizers that a job sets; numbers of other names keep their row's value.
constexpr std::pair<std::string_view, double TrainOptions::*> job_numbers[] = {
    {"momentum", &TrainOptions::momentum},
    {"beta1", &TrainOptions::beta1},
    {"beta2", &TrainOptions::beta2},
    {"eps", &TrainOptions::eps}};

// Only matrices decay, as in training recipes.
double weight_decay(const TrainOptions& options, const Shape& weight) {
  return weight.size() > 1 ? options.weight_decay : 0;
}

Attrs attrs_of(const TrainOptions& options, const Shape& weight) {
  Attrs attrs = {{"lr", options.learning_rate}, {"weight_decay", weight_decay(options, weight)}};
  for (const auto& [name, number] : job_numbers)
    if (has_number(row_of(options.optimizer), name)) attrs[std::string(name)] = options.*number;
  return attrs;
}

void update(Step& step, Rewriter& rewrite, const Gradient& gradient, Op like) {
  Graph& graph = rewrite.graph();
  const OptimizerRow& row = row_of(step.options.optimizer);
  like.phase = Phase::update;
  const TensorId weight = like.outputs[0];
  const TensorType type = graph.tensor(weight).type;
  const DType dtype = wide(type.dtype);
  std::vector<TensorId> state = {weight};
  std::vector<TensorId> operands = {weight, gradient.gradient};
  std::vector<std::string> names = {like.name + ".next"};
  for (int i = 0; i < row.moments; ++i) {  // of the parameter's shape each
    const std::string name = like.name + (i == 0 ? ".m" : ".v");
    state.push_back(rewrite.add_source("parameter", name, {type.shape, dtype}, Role::optimizer, {}, like));
    operands.push_back(state.back());
    names.push_back(name + ".next");
  }
  if (step.scale >= 0) operands.push_back(step.scale);
  if (step.finite >= 0) operands.push_back(step.finite);
  const auto next = rewrite.add(
      {row.name, operands, attrs_of(step.options, type.shape), like.name + ".update", names}, like);
  for (size_t i = 0; i < state.size(); ++i) {
    graph.tensor(next[i]).role = graph.tensor(state[i]).role;
    graph.updates.push_back({state[i], next[i]});
  }
}

}  // namespace

void set_optimizer(TrainOptions& options, Optimizer optimizer) {
  options.optimizer = optimizer;
  const OptimizerRow& row = row_of(optimizer);
  for (const auto& [name, number] : job_numbers)
    for (int n = 0; n < row.numbers; ++n)
      if (row.number[n].name == name) options.*number = row.number[n].value;
}

void optimize(Step& step) {
  std::vector<Op> states;
  for (const Gradient& gradient : step.gradients) states.push_back(state_op(step.graph, gradient.parameter));
  Rewriter rewrite(step.graph);
  for (Op& op : rewrite.old_ops()) rewrite.keep(std::move(op));
  for (size_t i = 0; i < states.size(); ++i) update(step, rewrite, step.gradients[i], std::move(states[i]));
  step.finish(rewrite);
}

}  // namespace boxcar::ir
