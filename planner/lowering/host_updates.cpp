#include "planner/lowering/host_updates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/ops/updates.h"
#include "planner/lowering/values.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

namespace {

class HostUpdater {
 public:
  HostUpdater(const Stage& stage, StageTasks& tasks) : stage_(stage), tasks_(tasks) {}

  void run() {
    find_readers();
    std::vector<bool> moves(tasks_.updates.size());
    for (size_t u = 0; u < moves.size(); ++u) moves[u] = is_update(tasks_.updates[u]) && may_move(u);
    for (size_t u = 0; u < moves.size(); ++u)
      if (moves[u])
        for (ValueId v : states_of(tasks_.updates[u])) at(tasks_.values, v).on_host = true;
    for (Value& value : tasks_.values)
      if (value.over >= 0 && at(tasks_.values, value_root(tasks_, value.over)).on_host) value.on_host = true;
    for (Task& task : std::exchange(tasks_.updates, {})) move(std::move(task));
  }

 private:
  // The optimizer's ops, if they need only gradients, and no norms or directions that the device makes; and
  // kernels that read on the host anyway.
  bool is_update(const Task& task) const {
    if (task.kind != TaskKind::kernel && task.kind != TaskKind::update_all) return false;
    if (reads_on_host(tasks_, task)) return true;
    const ir::Op& op = stage_.op(task.ops[0]);
    const auto updates = ir::updates_of(op.type, op.attrs);
    return updates && !updates->has_norms && stage_.tensor(op.inputs[1]).role == ir::Role::gradient;
  }

  bool is_cast(const Task& task) const {
    return task.kind == TaskKind::kernel && stage_.op(task.ops[0]).is(ir::OpKind::cast);
  }

  // Declared values that an update reads: w, and moments.
  std::vector<ValueId> states_of(const Task& task) const {
    std::vector<ValueId> states;
    for (ValueId v : task.reads)
      if (const ValueId state = value_root(tasks_, v); state < tasks_.declared) states.push_back(state);
    return states;
  }

  void find_readers() {
    const auto note = [&](const Task& task, size_t place) {
      each_read(task, [&](ValueId v) { readers_[value_root(tasks_, v)].insert(place); });
    };
    for (const auto* part : {&tasks_.passes, &tasks_.reductions})
      for (const Task& task : *part) note(task, elsewhere);
    for (size_t u = 0; u < tasks_.updates.size(); ++u) note(tasks_.updates[u], u);
  }

  // Whether nothing but the update itself, casts and other hosts read its states.
  bool may_move(size_t u) const {
    for (ValueId state : states_of(tasks_.updates[u]))
      for (size_t reader : readers_.at(state)) {
        if (reader == u) continue;
        if (reader == elsewhere) return false;
        const Task& task = tasks_.updates[reader];
        if (!is_cast(task) && task.kind != TaskKind::exchange) return false;
      }
    return true;
  }

  bool on_host(ValueId v) const { return at(tasks_.values, v).on_host; }

  // Whether it overwrites a state that stays on the device, since passes read it.
  bool updates_on_device(const Task& task) const {
    return std::any_of(task.writes.begin(), task.writes.end(),
                       [&](ValueId v) { return at(tasks_.values, v).over >= 0 && !on_host(v); });
  }

  void move(Task task) {
    const bool kernel = task.kind == TaskKind::kernel || task.kind == TaskKind::update_all;
    if (!kernel || !reads_on_host(tasks_, task)) {
      tasks_.updates.push_back(std::move(task));
      return;
    }
    Task out = copy_task(task, "offload"), in = copy_task(task, "fetch");
    if (updates_on_device(task)) {
      for (ValueId& v : task.reads)
        if (on_host(v)) in.reads.push_back(v), in.writes.push_back(v = copy_of(v, false));
      tasks_.updates.push_back(std::move(in));
      tasks_.updates.push_back(std::move(task));
      return;
    }
    for (ValueId& v : task.reads) {
      if (on_host(v)) continue;
      const auto [copied, made] = copied_.try_emplace(v, -1);
      if (made) {
        copied->second = copy_of(v, true);
        out.reads.push_back(v), out.writes.push_back(copied->second);
      }
      v = copied->second;
    }
    for (ValueId& v : task.writes) {
      if (on_host(v)) continue;
      const ValueId made = copy_of(v, true);
      in.reads.push_back(made), in.writes.push_back(v);
      v = made;
    }
    if (!out.reads.empty()) tasks_.updates.push_back(std::move(out));
    tasks_.updates.push_back(std::move(task));
    if (!in.reads.empty()) tasks_.updates.push_back(std::move(in));
  }

  ValueId copy_of(ValueId v, bool to_host) {
    Value copy = at(tasks_.values, v);
    copy.over = -1, copy.on_host = to_host, copy.suffix += to_host ? ".host" : ".fetched";
    tasks_.values.push_back(std::move(copy));
    return static_cast<ValueId>(tasks_.values.size()) - 1;
  }

  Task copy_task(const Task& of, const char* verb) const {
    Task task{TaskKind::copy, of.phase};
    const ir::Op& op = stage_.op(of.ops[0]);
    task.label.name = fmt::format("{}.{}", of.ops.size() == 1 ? op.name : op.type + "_all", verb);
    task.label.layer = of.ops.size() == 1 ? stage_.layer(of.ops[0]) : -1;
    return task;
  }

  static constexpr size_t elsewhere = static_cast<size_t>(-1);

  const Stage& stage_;
  StageTasks& tasks_;
  std::map<ValueId, std::set<size_t>> readers_;  // by value that has a register: tasks of the update
  std::map<ValueId, ValueId> copied_;
};

}  // namespace

void update_on_host(const Stage& stage, StageTasks& tasks) {
  const Hints& h = stage.in.hints;
  if (h.offload_optimizer || (h.servers > 0 && h.servers_update)) HostUpdater(stage, tasks).run();
}

void check_host_updates(const Stage& stage, const StageTasks& tasks) {
  for (const auto* part : tasks.parts())
    for (const Task& task : *part) {
      if (task.kind == TaskKind::copy || task.kind == TaskKind::keep) continue;
      std::optional<bool> host;
      const auto same = [&](ValueId v) {
        const bool there = at(tasks.values, v).on_host;
        if (host.value_or(there) != there)
          throw Error::fault(fmt::format("{}: {}", stage.name, stage.tensor(at(tasks.values, v).t).name),
                             "is on the host, and other operands of its task are not");
        host = there;
      };
      each_read(task, same);
      each_write(task, same);
    }
}

}  // namespace boxcar::planner
