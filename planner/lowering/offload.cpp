#include "planner/lowering/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/lowering/values.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

namespace {

// A group of a pass.
struct Group {
  int layer = -1;
  int first = 0, last = 0;                         // tasks, as indices in StageTasks::passes
  int first_kernel = -1, last_kernel = -1;         // -1: it has none
  std::vector<ValueId> leaves = {}, fetches = {};  // that go to the host after it; that come back for it
};

class Offloader {
 public:
  Offloader(const Stage& stage, StageTasks& tasks) : stage_(stage), tasks_(tasks) {}

  void run() {
    for (const auto* part : tasks_.parts())
      for (const Task& task : *part) next_id_ = std::max(next_id_, task.id + 1);
    find_groups();
    find_uses();
    for (ValueId v = tasks_.declared, end = static_cast<ValueId>(tasks_.values.size()); v < end; ++v)
      if (moves(v)) move(v);
    insert_copies();
  }

 private:
  struct Use {
    int maker = -1;                    // task
    std::map<int, int> first_readers;  // by phase: the first task that reads it or another view of it
    bool once_per_step = false;        // tasks outside the passes read it
  };

  const Task& task(int t) const { return at(tasks_.passes, t); }
  Group& group(int t) { return at(groups_.at(task(t).phase), at(group_of_, t)); }

  // A task without ops belongs to the next task of its pass that has some, or else to the one before.
  void find_groups() {
    const auto count = static_cast<int>(tasks_.passes.size());
    std::vector<const Task*> with_ops(tasks_.passes.size());
    std::map<int, const Task*> next;
    for (int t = count; t-- > 0;) {
      if (!task(t).ops.empty()) next[task(t).phase] = &task(t);
      at(with_ops, t) = next[task(t).phase];
    }
    group_of_.resize(tasks_.passes.size());
    for (int t = 0; t < count; ++t) {
      std::vector<Group>& groups = groups_[task(t).phase];
      const Task* owner = at(with_ops, t);
      const int layer = owner            ? stage_.op(owner->ops.back()).layer
                        : groups.empty() ? -1
                                         : groups.back().layer;
      if (groups.empty() || groups.back().layer != layer) groups.push_back({layer, t});
      Group& own = groups.back();
      at(group_of_, t) = static_cast<int>(groups.size()) - 1;
      own.last = t;
      if (task(t).kind != TaskKind::kernel) continue;
      if (own.first_kernel < 0) own.first_kernel = t;
      own.last_kernel = t;
    }
  }

  void find_uses() {
    uses_.resize(tasks_.values.size());
    for (int t = 0; t < static_cast<int>(tasks_.passes.size()); ++t) {
      each_read(task(t), [&](ValueId v) {
        at(uses_, value_root(tasks_, v)).first_readers.try_emplace(task(t).phase, t);
      });
      each_write(task(t), [&](ValueId v) {
        if (at(uses_, v).maker < 0) at(uses_, v).maker = t;
      });
    }
    for (const auto* part : {&tasks_.reductions, &tasks_.updates})
      for (const Task& late : *part)
        each_read(late, [&](ValueId v) { at(uses_, value_root(tasks_, v)).once_per_step = true; });
  }

  // The next group with kernels in the same pass; null if there is none.
  Group* after(int t) {
    std::vector<Group>& groups = groups_.at(task(t).phase);
    for (auto g = static_cast<size_t>(at(group_of_, t)) + 1; g < groups.size(); ++g)
      if (groups[g].last_kernel >= 0) return &groups[g];
    return nullptr;
  }
  Group* before(int t) {
    std::vector<Group>& groups = groups_.at(task(t).phase);
    for (auto g = static_cast<size_t>(at(group_of_, t)); g-- > 0;)
      if (groups[g].first_kernel >= 0) return &groups[g];
    return nullptr;
  }

  bool moves(ValueId v) {
    const Value& value = at(tasks_.values, v);
    const Use& use = at(uses_, v);
    if (value.over >= 0 || use.maker < 0 || use.once_per_step) return false;
    if (stage_.tensor(value.t).role != ir::Role::activation || at(stage_.in.from_states, value.t))
      return false;
    if (!stage_.phases.is_forward(task(use.maker).phase) || !after(use.maker)) return false;
    bool read_later = false;
    for (const auto& [phase, reader] : use.first_readers) {
      if (stage_.phases.is_forward(phase)) continue;
      if (!before(reader)) return false;
      read_later = true;
    }
    return read_later;
  }

  void move(ValueId v) {
    group(at(uses_, v).maker).leaves.push_back(v);
    on_host_[v] = copy_of(v, true);
    for (const auto& [phase, reader] : at(uses_, v).first_readers)
      if (!stage_.phases.is_forward(phase)) {
        group(reader).fetches.push_back(v);
        fetched_[{phase, v}] = copy_of(v, false);
      }
  }

  ValueId copy_of(ValueId v, bool on_host) {
    Value copy = at(tasks_.values, v);
    copy.on_host = on_host;
    copy.suffix = on_host ? ".host" : ".fetched";
    tasks_.values.push_back(std::move(copy));
    return static_cast<ValueId>(tasks_.values.size()) - 1;
  }

  TaskId id_of(Task& task) {
    if (task.id < 0) task.id = next_id_++;
    return task.id;
  }

  Task copy_task(const Group& group, int phase, const char* verb) const {
    Task task{TaskKind::copy, phase};
    task.label.name = fmt::format("{}.{}", group.layer < 0 ? "embedding" : ir::layer_name(group.layer), verb);
    task.label.layer = group.layer < stage_.in.graph.layers ? group.layer : -1;
    return task;
  }

  void insert_copies() {
    std::map<int, Task> behind, ahead;  // by the task that they follow, or precede
    for (auto& [phase, groups] : groups_)
      for (const Group& group : groups) {
        if (!group.leaves.empty()) {
          Task out = copy_task(group, phase, "offload");
          for (ValueId v : group.leaves) out.reads.push_back(v), out.writes.push_back(on_host_.at(v));
          at(tasks_.passes, after(group.last)->last_kernel).after.push_back(id_of(out));
          behind[group.last] = std::move(out);
        }
        if (!group.fetches.empty()) {
          Task in = copy_task(group, phase, "fetch");
          for (ValueId v : group.fetches)
            in.reads.push_back(on_host_.at(v)), in.writes.push_back(fetched_.at({phase, v}));
          in.after.push_back(id_of(at(tasks_.passes, before(group.first)->first_kernel)));
          ahead[group.first] = std::move(in);
        }
      }
    std::vector<Task> old = std::exchange(tasks_.passes, {});
    for (int t = 0; t < static_cast<int>(old.size()); ++t) {
      if (const auto copy = ahead.find(t); copy != ahead.end())
        tasks_.passes.push_back(std::move(copy->second));
      read_fetched(at(old, t));
      tasks_.passes.push_back(std::move(at(old, t)));
      if (const auto copy = behind.find(t); copy != behind.end())
        tasks_.passes.push_back(std::move(copy->second));
    }
  }

  // Lets a task read what was fetched. A view of a value is made again, over the fetched one.
  void read_fetched(Task& task) {
    if (stage_.phases.is_forward(task.phase)) return;
    each_read(task, [&](ValueId& v) {
      const auto fetched = fetched_.find({task.phase, value_root(tasks_, v)});
      if (fetched == fetched_.end()) return;
      if (value_root(tasks_, v) == v) {
        v = fetched->second;
        return;
      }
      const auto [view, made] = views_.try_emplace({task.phase, v}, -1);
      if (made) {
        Value copy = at(tasks_.values, v);
        copy.over = fetched->second;
        tasks_.values.push_back(std::move(copy));
        view->second = static_cast<ValueId>(tasks_.values.size()) - 1;
        Task alias{TaskKind::alias, task.phase};
        alias.ops = {stage_.tensor(at(tasks_.values, v).t).producer};
        alias.reads = {fetched->second}, alias.writes = {view->second};
        tasks_.passes.push_back(std::move(alias));
      }
      v = view->second;
    });
    if (task.kind == TaskKind::alias) at(tasks_.values, task.writes[0]).over = task.reads[0];
  }

  const Stage& stage_;
  StageTasks& tasks_;
  std::vector<int> group_of_;                 // by task, of its phase
  std::map<int, std::vector<Group>> groups_;  // by phase
  std::vector<Use> uses_;                     // by value
  std::map<ValueId, ValueId> on_host_;
  std::map<std::pair<int, ValueId>, ValueId> fetched_, views_;  // by phase and value
  TaskId next_id_ = 0;
};

}  // namespace

void offload(const Stage& stage, StageTasks& tasks) {
  if (stage.in.hints.offload_activations) Offloader(stage, tasks).run();
}

void check_offload(const Stage& stage, const StageTasks& tasks) {
  const auto fail = [&](ValueId v, const char* what) {
    throw Error::fault(fmt::format("{}: {}", stage.name, stage.tensor(at(tasks.values, v).t).name), what);
  };
  std::set<ValueId> there;  // on the host
  for (const auto* part : tasks.parts())
    for (const Task& task : *part) {
      const bool copies = task.kind == TaskKind::copy;
      each_read(task, [&](ValueId v) {
        if (!at(tasks.values, v).on_host) return;
        if (!copies) fail(v, "is read on the host, by a task that is no copy");
        if (!there.contains(v)) fail(v, "is fetched before it is on the host");
      });
      each_write(task, [&](ValueId v) {
        if (!at(tasks.values, v).on_host) return;
        if (!copies) fail(v, "is made on the host, by a task that is no copy");
        there.insert(v);
      });
    }
}

}  // namespace boxcar::planner
