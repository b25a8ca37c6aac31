// One update op per parameter: state before, gradient, factor -> state after; for a sparse table one of the
// rows that were read. With a trust ratio the norms of all matrices come first, so that they can be summed
// over devices together.
#include <utility>

#include "ir/derived_name.h"
#include "ir/ops/optimizers.h"
#include "ir/parameter_kinds.h"
#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

// The numbers of optimizers that a job sets; numbers of other names keep their row's value.
constexpr std::pair<std::string_view, double TrainOptions::*> job_numbers[] = {
    {"momentum", &TrainOptions::momentum},
    {"beta1", &TrainOptions::beta1},
    {"beta2", &TrainOptions::beta2},
    {"eps", &TrainOptions::eps},
    {"trust_coefficient", &TrainOptions::trust_coefficient}};

const OptimizerRow& row_for(const TrainOptions& options, bool is_vector) {
  const OptimizerRow& row = row_of(options.optimizer);
  return row.has_trust() && is_vector ? *find_optimizer(row.of_vectors) : row;
}

// Vectors do not decay, as in training recipes.
Attrs attrs_of(const TrainOptions& options, const OptimizerRow& row, bool is_vector) {
  Attrs attrs = {{"weight_decay", is_vector ? 0.0 : options.weight_decay}};
  for (const auto& [name, number] : job_numbers)
    if (has_number(row, name)) attrs[std::string(name)] = options.*number;
  return attrs;
}

DType moment_type(const TrainOptions& options, DType weight) {
  const DType whole = wide(weight);
  return whole == DType::float32 && options.moments == Moments::bf16 ? DType::bfloat16 : whole;
}

// A parameter's update in the making.
struct Pending {
  const OptimizerRow& row;
  Op like;                           // the parameter's, in the update phase
  Attrs attrs;                       // of the norms and, with lr, of the update
  std::vector<TensorId> operands;    // w, g, the moments; then the norms, or the indices of rows
  TensorId scale = -1;               // of the gradient; -1: none
  std::string type = row.name;       // of the update
  std::vector<Update> moments = {};  // that are updated before, by ops of their own
};

// Adds the moments, and the norms of a row with a trust ratio.
Pending prepare(const Step& step, Rewriter& rewrite, const Gradient& gradient, Op like, bool is_vector) {
  const TensorId weight = like.outputs[0];
  const TensorType type = rewrite.graph().tensor(weight).type;
  const OptimizerRow& row = row_for(step.options, is_vector);
  like.phase = Phase::update;
  Pending one{row, like, attrs_of(step.options, row, is_vector), {weight, gradient.gradient}, step.scale};
  if (row.factored) {
    Direction made = factored_direction(step, rewrite, gradient.gradient, like, is_vector);
    one.operands[1] = made.direction, one.scale = made.scale, one.moments = std::move(made.moments);
  }
  for (int i = 0; i < row.moments; ++i) {  // each has the parameter's shape
    const std::string end = i == 0 ? ".m" : ".v";
    one.operands.push_back(rewrite.add_source("parameter", like.name + end,
                                              {type.shape, moment_type(step.options, type.dtype)},
                                              Role::optimizer, {}, like));
    if (!like.replica_of.empty()) rewrite.new_ops().back().replica_of = like.replica_of + end;
  }
  if (gradient.indices >= 0) {
    one.type = rows_op(row);
    one.attrs["rows"] = type.shape[0];
    one.operands.push_back(gradient.indices);
  }
  if (!row.has_trust()) return one;
  std::vector<TensorId> measured = one.operands;
  measured.resize(static_cast<size_t>(2 + row.measured_moments));
  if (step.scale >= 0) measured.push_back(step.scale);
  one.operands.push_back(
      rewrite.add({norms_op(row), measured, one.attrs, like.name + ".norms", {}}, like)[0]);
  return one;
}

void update(const Step& step, Rewriter& rewrite, Pending one) {
  Graph& graph = rewrite.graph();
  std::vector<TensorId> state = one.operands;
  state.erase(state.begin() + 1);  // the gradient
  state.resize(static_cast<size_t>(1 + one.row.moments));
  std::vector<std::string> names;
  for (const TensorId t : state) names.push_back(derived_name(graph.tensor(t).name, Derived::next));
  one.attrs["lr"] = step.options.learning_rate;
  if (one.scale >= 0) one.operands.push_back(one.scale);
  if (step.finite >= 0) one.operands.push_back(step.finite);
  const auto next =
      rewrite.add({one.type, one.operands, one.attrs, one.like.name + ".update", names}, one.like);
  for (size_t i = 0; i < state.size(); ++i) {
    graph.tensor(next[i]).role = graph.tensor(state[i]).role;
    graph.updates.push_back({state[i], next[i]});
  }
  graph.updates.insert(graph.updates.end(), one.moments.begin(), one.moments.end());  // behind their weight's
}

}  // namespace

bool chooses_moments(const TrainOptions& options) {
  return row_of(options.optimizer).moments > 0 && options.precision != Precision::fp64;
}

void set_optimizer(TrainOptions& options, Optimizer optimizer) {
  options.optimizer = optimizer;
  const OptimizerRow& row = row_of(optimizer);
  for (const auto& [name, number] : job_numbers)
    for (int n = 0; n < row.numbers; ++n)
      if (row.number[n].name == name) options.*number = row.number[n].value;
}

void optimize(Step& step) {
  const std::vector<bool> vectors = vector_parameters(step.graph);
  std::vector<Op> states;
  for (const Gradient& gradient : step.gradients) states.push_back(state_op(step.graph, gradient.parameter));
  Rewriter rewrite(step.graph);
  for (Op& op : rewrite.old_ops()) rewrite.keep(std::move(op));
  std::vector<Pending> measured;
  for (size_t i = 0; i < states.size(); ++i) {
    const bool is_vector = at(vectors, states[i].outputs[0]);
    Pending one = prepare(step, rewrite, step.gradients[i], std::move(states[i]), is_vector);
    if (one.row.has_trust())
      measured.push_back(std::move(one));
    else
      update(step, rewrite, std::move(one));
  }
  for (Pending& one : measured) update(step, rewrite, std::move(one));
  step.finish(rewrite);
}

}  // namespace boxcar::ir
