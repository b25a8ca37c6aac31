#include "planner/lowering/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ir/op.h"
#include "ir/ops/updates.h"
#include "planner/lowering/buckets.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::OpId;
using ir::TensorId;

namespace {

class Orderer {
 public:
  Orderer(const Stage& stage, StageTasks& tasks) : stage_(stage), tasks_(tasks), states_(tasks.states) {}

  void run() {
    order_passes();
    order_updates();
    for (const OpId o : stage_.ops)
      if (const ir::Op& op = stage_.op(o); op.is(ir::OpKind::parameter)) keep(op.outputs[0]);
    if (!states_.gathers.empty()) {
      Task gathers{TaskKind::box, stage_.phases.update()};
      gathers.buckets = buckets_of(stage_, states_.gathers, true);
      gathers.label.name = "parameters";
      tasks_.updates.push_back(std::move(gathers));
    }
  }

 private:
  bool is_alias(OpId o) const { return stage_.op(o).is(ir::OpKind::alias); }

  void order_passes() {
    std::vector<OpId> ops;
    for (const OpId o : stage_.ops)
      if (stage_.site(o).run != Run::update && !is_source(stage_.op(o))) ops.push_back(o);
    if (stage_.phases.split)  // the graph does not separate the parts of a backward pass
      std::stable_sort(ops.begin(), ops.end(), [&](OpId a, OpId b) {
        return std::max(stage_.site(a).run, Run::backward) < std::max(stage_.site(b).run, Run::backward);
      });
    for (size_t i = 0; i < ops.size(); ++i) {
      if (stage_.in.hints.overlap_tp && !is_alias(ops[i])) ask_ahead(ops, i);
      add(tasks_.passes, is_alias(ops[i]) ? TaskKind::alias : TaskKind::kernel, ops[i]);
    }
  }

  void ask_ahead(const std::vector<OpId>& ops, size_t at) {
    const auto next = std::find_if_not(ops.begin() + static_cast<std::ptrdiff_t>(at) + 1, ops.end(),
                                       [&](OpId o) { return is_alias(o); });
    const int phase = stage_.phase(ops[at]);
    if (next == ops.end() || stage_.phase(*next) != phase) return;
    if (!any_of(stage_.op(*next).inputs, [&](TensorId t) { return stage_.kept_from_forward(t, phase); }))
      return;
    Task ahead{TaskKind::ahead, phase};
    ahead.ops = {*next, ops[at]};
    tasks_.passes.push_back(std::move(ahead));
  }

  void order_updates() {
    // By rule, by the type of copies with norms, and by whether servers hold the state.
    std::map<std::string, std::vector<OpId>> together;
    for (const OpId o : stage_.ops) {
      const ir::Op& op = stage_.op(o);
      if (stage_.site(o).run != Run::update || is_source(op) || at(stage_.in.from_states, op.outputs[0]))
        continue;
      const auto update = ir::updates_of(op.type, op.attrs);
      // A direction (ir/passes/factored.cpp) is used at once, so that only one of them is in memory.
      const bool of_gradient = update && stage_.tensor(op.inputs[1]).role == ir::Role::gradient;
      if (of_gradient && stage_.in.hints.fused_optimizer) {
        together[op.type + ir::to_text(op.attrs) + (update->has_norms ? copied_as(o) : "") + holder_of(o)]
            .push_back(o);
        continue;
      }
      if (update && update->has_norms) {
        update_together({o});
        continue;
      }
      add(tasks_.updates, stage_.site(o).joint ? TaskKind::joint : TaskKind::kernel, o);
      if (!stage_.site(o).joint) after_update(op);
    }
    for (const auto& [rule, ops] : together) update_together(ops);
  }

  // Adds ops that depend on the states that `op` updates, except those already `made` with them.
  void after_update(const ir::Op& op, const std::vector<OpId>& made = {}) {
    for (TensorId t : op.outputs)
      if (const TensorId state = at(states_.updated_state, t); state >= 0) {
        written_[state] = true;
        copy(state, made);
      }
  }

  void copy(TensorId state, const std::vector<OpId>& made) {
    for (OpId o : states_.copies[state]) {
      if (std::find(made.begin(), made.end(), o) == made.end()) add(tasks_.updates, TaskKind::kernel, o);
      for (TensorId t : stage_.op(o).outputs) copy(t, {});
    }
  }

  // Adds one kernel for all these updates, which also writes the casts of weights.
  void update_together(const std::vector<OpId>& ops) {
    Task task{TaskKind::update_all, stage_.phases.update()};
    task.ops = ops;
    for (size_t n = 0; n < ops.size(); ++n) {
      const OpId cast = cast_of(updated_by(ops[n]));
      if (is_read_from_copy(ops[n]))
        task.copies.push_back(copy_of(updated_by(ops[n])));
      else if (cast >= 0 && (task.casts.empty() || stage_.op(cast).attrs == stage_.op(task.casts[0]).attrs))
        task.casts.push_back(cast);
      else
        continue;
      task.update_of_copy.push_back(static_cast<int64_t>(n));
    }
    const std::vector<OpId> casts = task.casts;
    tasks_.updates.push_back(std::move(task));
    for (OpId o : ops) after_update(stage_.op(o), casts);
  }

  TensorId updated_by(OpId update) const { return at(states_.updated_state, stage_.op(update).outputs[0]); }

  // A weight whose norm is needed is read before its update, so nothing may read it afterwards in the same
  // step. If something else than the update's own cast would, the update writes a copy, which is read
  // instead.
  bool is_read_from_copy(OpId update) {
    const ir::Op& op = stage_.op(update);
    if (!ir::updates_of(op.type, op.attrs)->has_norms) return false;
    const TensorId state = updated_by(update);
    const OpId written = cast_of(state);
    return any_of(states_.copies[state], [&](OpId o) { return o != written; }) ||
           any_of(states_.gathers, [&](const Boxed& gather) { return gather.t == state; });
  }

  // The type of the copy that it writes besides the state.
  std::string copied_as(OpId update) {
    const OpId cast = cast_of(updated_by(update));
    if (is_read_from_copy(update)) return ir::to_text(stage_.tensor(updated_by(update)).type.dtype);
    return cast < 0 ? "" : ir::to_text(stage_.tensor(stage_.op(cast).outputs[0]).type.dtype);
  }

  // "servers" if these hold shares of the state that it updates.
  std::string holder_of(OpId update) const {
    const int replica = stage_.in.mesh.dim(MeshDim::replica);
    const bool served =
        stage_.in.hints.servers > 0 && at(stage_.stored(updated_by(update)), replica).is_split();
    return served ? "servers" : "";
  }

  ValueId copy_of(TensorId state) {
    const auto copy = static_cast<ValueId>(tasks_.values.size());
    tasks_.values.push_back({state, stage_.stored(state), -1, -1, ".new"});
    for (Boxed& gather : states_.gathers)
      if (gather.t == state) gather.source = copy;
    return copy;
  }

  // The cast that reads a state in its stored layout, if there is one.
  OpId cast_of(TensorId state) {
    for (OpId o : states_.copies[state])
      if (stage_.op(o).is(ir::OpKind::cast) && stage_.layout(o).inputs[0] == stage_.stored(state)) return o;
    return -1;
  }

  void keep(TensorId state) {
    if (written_[state]) return;
    Task task{TaskKind::keep, stage_.phases.update()};
    task.t = state;
    tasks_.updates.push_back(std::move(task));
    copy(state, {});
  }

  void add(std::vector<Task>& part, TaskKind kind, OpId o) const {
    Task task{kind, stage_.phase(o)};
    task.ops = {o};
    part.push_back(std::move(task));
  }

  const Stage& stage_;
  StageTasks& tasks_;
  States& states_;
  std::map<TensorId, bool> written_;  // by state
};

}  // namespace

void order_ops(const Stage& stage, StageTasks& tasks) { Orderer(stage, tasks).run(); }

void check_order(const Stage& stage, const StageTasks& tasks) {
  std::vector<bool> done(stage.in.graph.ops.size());
  const auto check_operands = [&](OpId o) {
    for (TensorId t : stage.op(o).inputs) {
      const OpId producer = stage.tensor(t).producer;
      const bool made_here = stage.here(producer) && !is_source(stage.op(producer));
      if (made_here && !at(stage.in.from_states, t) && !at(done, producer))
        throw Error::fault(stage.op(o).name, fmt::format("stands before {} is made", stage.tensor(t).name));
    }
  };
  const auto note = [&](OpId o) {
    if (at(done, o)) throw Error::fault(stage.op(o).name, "stands in two tasks");
    at(done, o) = true;
  };
  for (const auto* part : tasks.parts())
    for (const Task& task : *part) {
      if (task.kind == TaskKind::ahead) continue;
      for (OpId o : task.ops) check_operands(o);
      for (OpId o : task.ops) note(o);
      for (OpId o : task.casts) note(o);
    }
  for (const OpId o : stage.ops)
    if (!is_source(stage.op(o)) && !at(done, o))
      throw Error::fault(stage.op(o).name, fmt::format("stands in no task of {}", stage.name));
}

}  // namespace boxcar::planner
