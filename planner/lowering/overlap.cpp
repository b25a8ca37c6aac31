#include "planner/lowering/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

namespace {

class Overlapper {
 public:
  Overlapper(const Stage& stage, StageTasks& tasks) : stage_(stage), tasks_(tasks) {}

  void run() {
    for (const auto* part : tasks_.parts())
      for (const Task& task : *part) next_id_ = std::max(next_id_, task.id + 1);
    for (Task& task : tasks_.passes) {
      if (task.kind == TaskKind::kernel) note_reader(task);
      if (task.kind == TaskKind::gather) order_gather(task);
      if (task.kind == TaskKind::box && stage_.kept_from_forward(task.buckets[0][0].t, task.phase))
        task.hold = Hold::first_step;
    }
  }

 private:
  void order_gather(Task& task) {
    Reader& reader = readers_[task.phase];
    if (!stage_.in.hints.overlap_param)
      task.hold = Hold::every_collective;
    else if (reader.kernel)
      task.after.push_back(id_of(*reader.kernel));
    reader.wanted = true;
  }

  // Notes the first kernel after a gather.
  void note_reader(Task& task) {
    Reader& reader = readers_[task.phase];
    if (reader.wanted) reader = {&task, false};
  }

  TaskId id_of(Task& task) {
    if (task.id < 0) task.id = next_id_++;
    return task.id;
  }

  struct Reader {
    Task* kernel = nullptr;
    bool wanted = false;  // the first kernel after the last gather is still to come
  };

  const Stage& stage_;
  StageTasks& tasks_;
  TaskId next_id_ = 0;
  std::map<int, Reader> readers_;  // by phase
};

bool computes(const ir::Program& program, const ir::Actor& actor) {
  return at(program.queues, actor.queue).kind == ir::QueueKind::compute;
}

}  // namespace

void overlap(const Stage& stage, StageTasks& tasks) { Overlapper(stage, tasks).run(); }

void check_overlap(const Stage& stage, const StageTasks& tasks) {
  std::set<TaskId> before;
  for (const auto* part : tasks.parts())
    for (const Task& task : *part) {
      for (TaskId id : task.after)
        if (!before.contains(id))
          throw Error::fault(stage.name,
                             fmt::format("a task waits for task {}, which is not in front of it", id));
      if (task.hold != Hold::none && task.kind != TaskKind::box && task.kind != TaskKind::gather)
        throw Error::fault(stage.name, "a task is held back that moves nothing");
      if (task.id >= 0 && !before.insert(task.id).second)
        throw Error::fault(stage.name, fmt::format("two tasks are task {}", task.id));
    }
}

void order_reduction_after_backward(ProgramBuilder& builder, size_t first_actor, int micro_batches) {
  const ir::Program& program = builder.program;
  int last_phase = -1, last = -1;
  for (const ir::PhaseRun& run : program.schedule)
    if (builder.phases.per_micro_batch(run.phase)) last_phase = run.phase;
  for (size_t a = 0; a < first_actor; ++a)
    if (program.actors[a].phase == last_phase && computes(program, program.actors[a]))
      last = static_cast<int>(a);
  std::set<int> seen;
  const size_t end = program.actors.size();
  for (size_t a = first_actor; a < end && last >= 0; ++a)
    if (program.actors[a].kind != ir::ActorKind::pull && seen.insert(program.actors[a].queue).second)
      builder.control(last, static_cast<int>(a), micro_batches);
}

void order_forward_after_gathers(ProgramBuilder& builder, size_t first_actor) {
  const ir::Program& program = builder.program;
  const auto first = std::find_if(program.actors.begin(), program.actors.end(), [&](const ir::Actor& actor) {
    return actor.phase == program.schedule[0].phase && computes(program, actor);
  });
  if (first == program.actors.end()) return;
  std::map<int, int> last;  // by queue
  for (size_t a = first_actor; a < program.actors.size(); ++a)
    if (program.actors[a].collective == sbp::Collective::all_gather)
      last[program.actors[a].queue] = static_cast<int>(a);
  const auto reader = static_cast<int>(first - program.actors.begin());
  for (const auto& [queue, actor] : last) builder.control(actor, reader);
}

}  // namespace boxcar::planner
