#include "planner/lowering/servers.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "planner/lowering/values.h"
#include "planner/pins.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::TensorId;
using sbp::NdSbp;
using sbp::Sbp;

namespace {

class Servers {
 public:
  Servers(const Stage& stage, StageTasks& tasks)
      : stage_(stage),
        tasks_(tasks),
        replica_(static_cast<size_t>(stage.in.mesh.dim(MeshDim::replica))),
        dp_(stage.in.mesh.dim(MeshDim::dp)) {}

  void run() {
    const bool update = stage_.in.hints.servers_update;
    const auto shares = [&](const Boxed& boxed) { return share_of_sum(boxed)[replica_].is_split(); };
    for (Task& task : std::exchange(tasks_.reductions, {}))
      split(tasks_.reductions, std::move(task), shares, &Servers::push);
    if (!update) {
      for (const auto& [bucket, like] : pushed_) pull(tasks_.reductions, like, bucket);
      return;
    }
    find_updated();
    const auto updates = [&](const Boxed& boxed) {
      return boxed.from[replica_].is_split() && updated_.contains(state_of(boxed.t));
    };
    for (Task& task : std::exchange(tasks_.updates, {}))
      split(tasks_.updates, std::move(task), updates, &Servers::pull);
  }

 private:
  using Take = void (Servers::*)(std::vector<Task>&, const Task&, const Bucket&);

  // The layout in which servers hold a sum of gradients; one that is not split along "replica" if they do
  // not.
  NdSbp share_of_sum(const Boxed& boxed) const {
    if (boxed.from[replica_] != Sbp::P() || stage_.in.hints.servers_update) return boxed.to;
    return served(stage_.tensor(boxed.t).type.shape, boxed.to, stage_.in.mesh);
  }

  // The state of which a tensor is a copy.
  TensorId state_of(TensorId t) const {
    while (!stage_.op(stage_.tensor(t).producer).inputs.empty())
      t = stage_.op(stage_.tensor(t).producer).inputs[0];
    return t;
  }

  // States that are updated by gradients that servers hold.
  void find_updated() {
    for (const Task& task : tasks_.updates)
      if (reads_on_host(tasks_, task))
        for (ValueId v : task.reads) updated_.insert(at(tasks_.values, v).t);
  }

  // Takes what goes over servers out of a box.
  template <typename Goes>
  void split(std::vector<Task>& out, Task task, const Goes& goes, Take take) {
    if (task.kind != TaskKind::box) {
      out.push_back(std::move(task));
      return;
    }
    std::vector<Bucket> over;
    for (Bucket& bucket : std::exchange(task.buckets, {})) {
      Bucket beside;
      over.emplace_back();
      for (Boxed& boxed : bucket) (goes(boxed) ? over.back() : beside).push_back(boxed);
      if (!beside.empty()) task.buckets.push_back(std::move(beside));
      if (over.back().empty()) over.pop_back();
    }
    const Task like = task;
    if (!task.buckets.empty()) out.push_back(std::move(task));
    for (const Bucket& bucket : over) (this->*take)(out, like, bucket);
  }

  // From sums over devices to the servers' shares of them.
  void push(std::vector<Task>& out, const Task& like, const Bucket& bucket) {
    Bucket inside, sums, whole;
    Task copy = task_like(like, TaskKind::copy);
    copy.label.name += ".offload";
    for (const Boxed& boxed : bucket) {
      const NdSbp share = share_of_sum(boxed);
      NdSbp part = boxed.from;
      if (dp_ >= 0) at(part, dp_) = at(share, dp_);
      const ValueId on_device = part == boxed.from ? boxed.source : add({boxed.t, part});
      if (on_device != boxed.source) inside.push_back({boxed.t, boxed.from, part, boxed.source, on_device});
      copy.reads.push_back(on_device);
      copy.writes.push_back(add({boxed.t, part, -1, -1, ".host", true}));
      ValueId sum = boxed.result;
      if (share != boxed.to)
        sum = add({boxed.t, share, -1, -1, ".sum", true});
      else
        at(tasks_.values, sum).on_host = true;
      sums.push_back({boxed.t, part, share, copy.writes.back(), sum});
      whole.push_back({boxed.t, share, boxed.to, sum, boxed.result});
    }
    if (!inside.empty()) out.push_back(box_like(like, TaskKind::box, std::move(inside)));
    out.push_back(std::move(copy));
    out.push_back(box_like(like, TaskKind::exchange, std::move(sums)));
    pushed_.emplace_back(std::move(whole), like);
  }

  // From the servers' shares to all devices.
  void pull(std::vector<Task>& out, const Task& like, const Bucket& bucket) {
    Bucket parts, whole;
    Task copy = task_like(like, TaskKind::copy);
    copy.label.name += ".fetch";
    for (const Boxed& boxed : bucket) {
      at(tasks_.values, boxed.source).on_host = true;
      NdSbp part = boxed.from;
      part[replica_] = Sbp::B();
      part = sbp::canonical(std::move(part));
      copy.reads.push_back(add({boxed.t, part, -1, -1, ".pulled", true}));
      parts.push_back({boxed.t, boxed.from, part, boxed.source, copy.reads.back()});
      copy.writes.push_back(part == boxed.to ? boxed.result : add({boxed.t, part, -1, -1, ".part"}));
      if (part != boxed.to) whole.push_back({boxed.t, part, boxed.to, copy.writes.back(), boxed.result});
    }
    out.push_back(box_like(like, TaskKind::exchange, std::move(parts)));
    out.push_back(std::move(copy));
    if (!whole.empty()) out.push_back(box_like(like, TaskKind::box, std::move(whole)));
  }

  static Task task_like(const Task& like, TaskKind kind) {
    Task task{kind, like.phase};
    task.label = like.label;
    return task;
  }
  static Task box_like(const Task& like, TaskKind kind, Bucket bucket) {
    Task task = task_like(like, kind);
    task.buckets.push_back(std::move(bucket));
    return task;
  }

  ValueId add(Value value) {
    tasks_.values.push_back(std::move(value));
    return static_cast<ValueId>(tasks_.values.size()) - 1;
  }

  const Stage& stage_;
  StageTasks& tasks_;
  const size_t replica_;  // dimensions of the mesh
  const int dp_;          // -1: each device has its own server
  std::set<TensorId> updated_;
  std::vector<std::pair<Bucket, Task>> pushed_;  // from servers' sums to where they are read; the reduction
};

}  // namespace

void serve(const Stage& stage, StageTasks& tasks) {
  if (stage.in.hints.servers > 0) Servers(stage, tasks).run();
}

void check_servers(const Stage& stage, const StageTasks& tasks) {
  if (stage.in.hints.servers == 0) return;
  const auto replica = static_cast<size_t>(stage.in.mesh.dim(MeshDim::replica));
  for (const auto* part : tasks.parts())
    for (const Task& task : *part)
      for (const Bucket& bucket : task.buckets)
        for (const Boxed& boxed : bucket) {
          NdSbp expected = boxed.from;
          expected[replica] = boxed.to[replica];
          const bool hosts = at(tasks.values, boxed.source).on_host && at(tasks.values, boxed.result).on_host;
          const auto fail = [&](const char* what) {
            throw Error::fault(fmt::format("{}: {}", stage.name, stage.tensor(boxed.t).name), what);
          };
          if (task.kind != TaskKind::exchange) {
            if (part == &tasks.reductions && boxed.from[replica].is_partial() && boxed.to[replica].is_split())
              fail("goes to the servers by no exchange");
          } else if (!hosts || sbp::canonical(expected) != sbp::canonical(boxed.to)) {
            fail("is exchanged on devices, or along other dimensions than those of servers");
          }
        }
}

}  // namespace boxcar::planner
