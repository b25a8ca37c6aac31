#include "planner/lowering/states.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::OpId;
using ir::TensorId;

bool is_kept_whole(const ir::Graph& graph, const std::vector<OpId>& readers, const sbp::NdSbp& stored,
                   const std::optional<sbp::NdSbp>& used, Sharding sharding) {
  if (!used || *used == stored || sharding.gathers_in_each_pass()) return false;
  return any_of(readers, [&](OpId reader) { return at(graph.ops, reader).phase != ir::Phase::update; });
}

std::vector<char> made_of_states(const ir::Graph& graph, const std::vector<OpSite>& sites) {
  std::vector<char> from_states(graph.tensors.size());
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const ir::Op& op = graph.ops[o];
    const bool copies = sites[o].run == Run::update && !op.inputs.empty() &&
                        !any_of(op.inputs, [&](TensorId t) { return !at(from_states, t); });
    const bool are = copies || op.is(ir::OpKind::parameter);
    for (TensorId t : op.outputs) at(from_states, t) = static_cast<char>(are);
  }
  return from_states;
}

namespace {

class Sharder {
 public:
  Sharder(const Stage& stage, StageTasks& tasks) : stage_(stage), tasks_(tasks), states_(tasks.states) {}

  void run() {
    states_.updated_state.assign(stage_.in.graph.tensors.size(), -1);
    for (const ir::Update& update : stage_.in.graph.updates)
      at(states_.updated_state, update.next) = update.state;
    if (stage_.in.sharding.gathers_in_each_pass()) find_groups();
    for (const OpId o : stage_.ops) {
      if (stage_.op(o).is(ir::OpKind::parameter))
        declare_state(stage_.op(o).outputs[0]);
      else if (!stage_.op(o).outputs.empty() && at(stage_.in.from_states, stage_.op(o).outputs[0]))
        declare_copies(o);
    }
    tasks_.declared = static_cast<int>(tasks_.values.size());
  }

 private:
  // A layer gathers all its parameters at once.
  void find_groups() {
    for (const OpId o : stage_.ops) {
      const ir::Op& op = stage_.op(o);
      if (op.phase == ir::Phase::update) continue;
      for (TensorId t : op.inputs) {
        if (const auto& used = stage_.used(t); !used || *used == stage_.stored(t)) continue;
        std::vector<TensorId>& group = states_.groups[{stage_.phase(o), op.layer}];
        if (std::find(group.begin(), group.end(), t) == group.end()) group.push_back(t);
      }
    }
  }

  ValueId declare(TensorId t, const sbp::NdSbp& layout, const char* suffix) {
    tasks_.values.push_back({t, layout, -1, -1, suffix});
    return static_cast<ValueId>(tasks_.values.size()) - 1;
  }

  void declare_state(TensorId t) {
    const ValueId kept = declare(t, stage_.stored(t), "");
    const auto& used = stage_.used(t);
    if (!is_kept_whole(stage_.in.graph, stage_.readers(t), stage_.stored(t), used, stage_.in.sharding))
      return;
    states_.gathers.push_back({t, stage_.stored(t), *used, kept, declare(t, *used, ".whole")});
  }

  // Ops that read only states belong to the end of a step. Their outputs exist from the start.
  void declare_copies(OpId o) {
    states_.copies[stage_.op(o).inputs[0]].push_back(o);
    for (size_t i = 0; i < stage_.op(o).outputs.size(); ++i) {
      const TensorId t = stage_.op(o).outputs[i];
      const sbp::NdSbp& made = stage_.layout(o).outputs[i];
      const bool kept = made == stage_.stored(t);
      const ValueId shard = declare(t, made, kept ? "" : ".shard");
      if (!kept)
        states_.gathers.push_back({t, made, stage_.stored(t), shard, declare(t, stage_.stored(t), "")});
    }
  }

  const Stage& stage_;
  StageTasks& tasks_;
  States& states_;
};

}  // namespace

void shard_states(const Stage& stage, StageTasks& tasks) { Sharder(stage, tasks).run(); }

void check_states(const Stage& stage, const StageTasks& tasks) {
  std::vector<bool> kept(stage.in.graph.tensors.size());
  for (const Value& value : tasks.values)
    if (value.layout == stage.stored(value.t)) at(kept, value.t) = true;
  for (const OpId o : stage.ops)
    for (TensorId t : stage.op(o).outputs)
      if (at(stage.in.from_states, t) && !at(kept, t))
        throw Error::fault(stage.name,
                           fmt::format("state {} is not declared as it is kept", stage.tensor(t).name));
  for (const Boxed& gather : tasks.states.gathers) {
    const Value &from = at(tasks.values, gather.source), &to = at(tasks.values, gather.result);
    if (from.t != gather.t || to.t != gather.t || from.layout != gather.from || to.layout != gather.to)
      throw Error::fault(
          stage.name, fmt::format("{} is not gathered between its own values", stage.tensor(gather.t).name));
  }
}

}  // namespace boxcar::planner
