// Gradients on their way from the backward pass to the update: reduced in buckets.
#include <algorithm>
#include <utility>

#include "planner/stage_lowering.h"

namespace boxcar::planner {

using ir::TensorId;

// Once per step, in the order in which the backward pass completes them.
void StageLowering::reduce_gradients() {
  box_in_buckets(reductions_, builder.phases.reduce(), {"gradients"}, true);
  for (const TiedGradient& tied : in_.tied)
    if (std::find(tied.stages.begin(), tied.stages.end(), stage_) != tied.stages.end()) sum_tied(tied);
}

void StageLowering::sum_tied(const TiedGradient& tied) {
  const auto mine = std::find(tied.stages.begin(), tied.stages.end(), stage_) - tied.stages.begin();
  const TensorId t = tied.gradients[static_cast<size_t>(mine)];
  ir::Actor actor;
  actor.name = actor_name(tensor(t).name + ".all_reduce");
  actor.joint = tensor(tied.gradients[0]).name + ".tied";
  actor.kind = ir::ActorKind::collective;
  actor.op = "all_reduce";
  actor.attrs["in_place"] = true;
  actor.collective = sbp::Collective::all_reduce;
  actor.comm = in_.comms.between(tied.stages);
  actor.comm_bytes = local_type(t, stored(t)).bytes();
  actor.queue = builder.queue(in_.comms.queue(actor.comm));
  actor.phase = builder.phases.reduce();
  actor.layer = layer(tensor(t).producer);
  actor.moves = ir::name_in_layer(in_.graph, t);
  Value value = value_in(t, stored(t), builder.phases.reduce());
  add_inputs(actor, {value});
  value.ready = control_register(actor.name);
  actor.outputs = {value.ready};
  builder.add_actor(std::move(actor));
  values(t) = {value};
}

// Zero 2 and 3: a layer's gradients are reduced when its backward pass is done, and added up after the next
// layer's, so that compute does not wait. Or, without overlap, at once.
void StageLowering::flush_layer() {
  const int now = at_layer_.first;
  for (ir::OpId o : late_sums_) emit_kernel(o, phase(o));
  late_sums_ = std::exchange(layer_sums_, {});
  awaited_ = std::exchange(layer_reduced_, {});
  if (layer_reductions_.empty()) return;
  const bool summed = !late_sums_.empty();
  const size_t before = builder.program.actors.size();
  box_in_buckets(std::exchange(layer_reductions_, {}), now, {"gradients"}, false);
  for (size_t a = before; a < builder.program.actors.size() && !summed; ++a)
    if (builder.program.actors[a].kind == ir::ActorKind::collective)
      layer_reduced_.push_back(static_cast<int>(a));
  if (in_.hints.overlap_grad) return;
  awaited_ = std::exchange(layer_reduced_, {});
  for (ir::OpId o : std::exchange(late_sums_, {})) emit_kernel(o, phase(o));
}

// The first reduction on each queue waits for the last backward pass.
void StageLowering::order_reduction_after_backward(size_t first_actor) {
  const ir::Program& program = builder.program;
  int last_phase = -1, last = -1;
  for (const ir::PhaseRun& run : program.schedule)
    if (builder.phases.per_micro_batch(run.phase)) last_phase = run.phase;
  for (size_t a = 0; a < first_actor; ++a)
    if (program.actors[a].phase == last_phase &&
        program.queues[static_cast<size_t>(program.actors[a].queue)].name == "compute")
      last = static_cast<int>(a);
  std::map<int, bool> seen;
  const size_t end = program.actors.size();
  for (size_t a = first_actor; a < end && last >= 0; ++a)
    if (!std::exchange(seen[program.actors[a].queue], true))
      builder.control(last, static_cast<int>(a), in_.pipeline.micro_batches);
}

// The first kernel of the next step waits for the last gather on each queue.
void StageLowering::order_forward_after_gathers(size_t first_actor) {
  const ir::Program& program = builder.program;
  int first = -1;
  for (size_t a = 0; a < program.actors.size() && first < 0; ++a)
    if (program.actors[a].phase == program.schedule[0].phase &&
        program.queues[static_cast<size_t>(program.actors[a].queue)].name == "compute")
      first = static_cast<int>(a);
  std::map<int, int> last;
  for (size_t a = first_actor; a < program.actors.size(); ++a)
    if (program.actors[a].collective == sbp::Collective::all_gather)
      last[program.actors[a].queue] = static_cast<int>(a);
  for (const auto& [queue, actor] : last)
    if (first >= 0) builder.control(actor, first);
}

}  // namespace boxcar::planner
