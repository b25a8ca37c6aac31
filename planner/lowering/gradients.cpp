#include "planner/lowering/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/lowering/buckets.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::OpId;
using ir::TensorId;

namespace {

const sbp::NdSbp& made(const Stage& stage, TensorId t) {
  const ir::Tensor& tensor = stage.tensor(t);
  return at(stage.layout(tensor.producer).outputs, tensor.output);
}

struct Reduction {
  TaskId id = -1;
  int phase = -1;
};

class Reducer {
 public:
  Reducer(const Stage& stage, StageTasks& tasks)
      : stage_(stage), tasks_(tasks), pending_(stage.in.graph.tensors.size()) {}

  void run() {
    for (Task& task : std::exchange(tasks_.passes, {})) {
      const std::pair now{task.phase, stage_.op(task.ops.back()).layer};
      if (now != at_) end_layer();
      if (ends_passes(task)) end_layer();  // the next task may read the last sums
      at_ = now;
      const ir::Op& op = stage_.op(task.ops[0]);
      const bool late =
          task.kind == TaskKind::kernel && op.is(ir::OpKind::accumulate) && at(pending_, op.inputs[0]);
      if (late)
        sums_.push_back(std::move(task));
      else
        add(std::move(task));
    }
    end_layer();
    end_layer();
    if (!once_.empty()) tasks_.reductions.push_back(box(once_, stage_.phases.reduce(), true));
    sum_tied();
    const auto kernel = std::find_if(tasks_.updates.begin(), tasks_.updates.end(), [](const Task& task) {
      return task.kind == TaskKind::kernel || task.kind == TaskKind::update_all;
    });
    if (kernel != tasks_.updates.end())
      for (const Reduction& reduction : awaited_) kernel->after.push_back(reduction.id);
  }

 private:
  void add(Task task) {
    if (task.kind == TaskKind::kernel)
      for (const Reduction& reduction : std::exchange(awaited_, {}))
        if (comes_after(task.phase, reduction.phase)) task.after.push_back(reduction.id);
    if (task.kind != TaskKind::ahead)
      for (TensorId t : stage_.op(task.ops[0]).outputs) note(task.ops[0], t);
    tasks_.passes.push_back(std::move(task));
  }

  void note(OpId o, TensorId t) {
    const Reduced when = when_reduced(stage_, o, t);
    if (when == Reduced::with_layer) {
      layer_.push_back({t, made(stage_, t), stage_.stored(t)});
      at(pending_, t) = true;
    } else if (when == Reduced::once) {
      once_.push_back({t, made(stage_, t), stage_.stored(t)});
    }
  }

  void end_layer() {
    add_late_sums();
    late_ = std::exchange(sums_, {});
    awaited_ = std::exchange(reduced_, {});
    if (layer_.empty()) return;
    for (const Boxed& boxed : layer_) at(pending_, boxed.t) = false;
    Task reduction = box(std::exchange(layer_, {}), at_.first, false);
    reduction.label.layer = at_.second < stage_.in.graph.layers ? at_.second : -1;
    reduction.id = ids_++;
    if (late_.empty()) reduced_.push_back({reduction.id, at_.first});
    tasks_.passes.push_back(std::move(reduction));
    if (stage_.in.hints.overlap_grad) return;
    awaited_ = std::exchange(reduced_, {});
    add_late_sums();
  }

  bool ends_passes(const Task& task) const {
    return at_.first >= 0 && stage_.phases.per_micro_batch(at_.first) &&
           !stage_.phases.per_micro_batch(task.phase);
  }

  // Whether a phase whose tasks come later runs later for each micro-batch. If backward passes are split, a
  // chunk's second part may run before the first part of another chunk.
  bool comes_after(int phase, int other) const {
    return !splits_backward(stage_.in.pipeline.kind) ||
           chunk_of_phase(stage_.in.pipeline, phase) == chunk_of_phase(stage_.in.pipeline, other);
  }

  void add_late_sums() {
    for (Task& sum : std::exchange(late_, {})) add(std::move(sum));
  }

  Task box(const Bucket& gradients, int phase, bool by_size) const {
    Task task{TaskKind::box, phase};
    task.buckets = buckets_of(stage_, gradients, by_size);
    task.label.name = "gradients";
    return task;
  }

  void sum_tied() {
    for (const TiedGradient& tied : stage_.in.tied) {
      const auto mine = std::find(tied.stages.begin(), tied.stages.end(), stage_.index);
      if (mine == tied.stages.end()) continue;
      Task task{TaskKind::tied, stage_.phases.reduce()};
      task.t = at(tied.gradients, mine - tied.stages.begin());
      tasks_.reductions.push_back(std::move(task));
    }
  }

  const Stage& stage_;
  StageTasks& tasks_;
  std::pair<int, int> at_{-1, -1};  // phase and layer of the previous task
  Bucket once_, layer_;
  std::vector<bool> pending_;                 // by tensor: whether it is reduced with the present layer
  std::vector<Task> sums_, late_;             // of this layer, of the previous one
  std::vector<Reduction> reduced_, awaited_;  // the same: reductions without accumulation
  TaskId ids_ = 0;
};

}  // namespace

Reduced when_reduced(const Stage& stage, OpId o, TensorId t) {
  const int phase = stage.phase(o);
  if (stage.in.mesh.devices() == 1 || made(stage, t) == stage.stored(t) || phase == stage.phases.update())
    return Reduced::nothing;
  const bool sum = stage.op(o).is(ir::OpKind::accumulate) || phase == stage.phases.reduce();
  const auto adds_up = [&](OpId reader) { return stage.op(reader).is(ir::OpKind::accumulate); };
  const bool read_at_once = any_of(stage.readers(t), [&](OpId reader) {
    const Run run = stage.site(reader).run;
    return (run == Run::backward || run == Run::weight) && !adds_up(reader);
  });
  const bool gradient = stage.tensor(t).role == ir::Role::gradient && !read_at_once;
  if (gradient && !sum && stage.in.sharding.reduces_each_micro_batch()) return Reduced::with_layer;
  if (sum || (gradient && !any_of(stage.readers(t), adds_up))) return Reduced::once;
  return Reduced::now;
}

void reduce_gradients(const Stage& stage, StageTasks& tasks) { Reducer(stage, tasks).run(); }

void check_gradients(const Stage& stage, const StageTasks& tasks) {
  enum class Is : uint8_t { nothing, waiting, reduced };
  std::vector<Is> is(stage.in.graph.tensors.size());
  const auto name = [&](TensorId t) { return stage.tensor(t).name; };
  for (const auto* part : {&tasks.passes, &tasks.reductions})
    for (const Task& task : *part) {
      for (const Bucket& bucket : task.buckets)
        for (const Boxed& boxed : bucket) {
          if (std::exchange(at(is, boxed.t), Is::reduced) != Is::waiting)
            throw Error::fault(name(boxed.t), "is reduced twice, or before it is made");
          if (bucket_key(stage, boxed) != bucket_key(stage, bucket[0]))
            throw Error::fault(name(boxed.t),
                               fmt::format("is reduced with {} in another way", name(bucket[0].t)));
        }
      if (task.kind != TaskKind::kernel && task.kind != TaskKind::alias) continue;
      const ir::Op& op = stage.op(task.ops[0]);
      const bool by_layer = op.is(ir::OpKind::accumulate) && stage.in.sharding.reduces_each_micro_batch();
      if (by_layer && at(is, op.inputs[0]) == Is::waiting)
        throw Error::fault(name(op.inputs[0]), "is added up before it is reduced");
      for (TensorId t : op.outputs) {
        const Reduced when = when_reduced(stage, task.ops[0], t);
        if (when == Reduced::with_layer || when == Reduced::once) at(is, t) = Is::waiting;
      }
    }
  for (size_t t = 0; t < is.size(); ++t)
    if (is[t] == Is::waiting) throw Error::fault(name(static_cast<TensorId>(t)), "is never reduced");
}

}  // namespace boxcar::planner
