#include "planner/lowering/boxes.h"

#include <algorithm>
#include <utility>

#include "planner/local_attrs.h"

namespace boxcar::planner {

using sbp::NdSbp;

namespace {

// By operand: the axis that is gathered or scattered; and the one that an all_to_all splits.
void add_axes(ir::Actor& actor, const std::vector<const sbp::MeshRoute*>& routes, size_t step) {
  if (actor.collective == sbp::Collective::all_reduce) return;
  std::vector<int64_t> axes, axes2;
  for (const sbp::MeshRoute* route : routes) {
    axes.push_back(route->steps[step].axis);
    axes2.push_back(route->steps[step].axis2);
  }
  actor.attrs["axes"] = axes;
  if (actor.collective == sbp::Collective::all_to_all) actor.attrs["axes2"] = axes2;
}

}  // namespace

void BoxEmitter::emit(const Task& task) {
  for (const Bucket& bucket : task.buckets) emit_bucket(task, bucket);
}

void BoxEmitter::emit_bucket(const Task& task, const Bucket& bucket) {
  Routes routes;
  std::vector<Moving> now;
  for (const Boxed& boxed : bucket) {
    routes.push_back(&stage_.in.routes.find(stage_.tensor(boxed.t).type.shape, boxed.from, boxed.to));
    now.push_back({boxed.from, registers_.held(boxed.source)});
  }
  for (size_t s = 0; s < routes[0]->steps.size(); ++s) {
    if (routes[0]->steps[s].collective != sbp::Collective::none) {
      emit_collective(task, bucket, routes, s, now);
      continue;
    }
    for (size_t i = 0; i < bucket.size(); ++i)
      now[i] = emit_local_step(task, bucket[i], *routes[i], s, now[i]);
  }
  for (size_t i = 0; i < bucket.size(); ++i) registers_.set(bucket[i].result, now[i].held);
}

void BoxEmitter::emit_collective(const Task& task, const Bucket& bucket, const Routes& routes, size_t step,
                                 std::vector<Moving>& now) {
  ir::Actor actor = collective(task, routes, step);
  std::vector<Held> operands;
  for (const Moving& moving : now) operands.push_back(moving.held);
  registers_.add_inputs(actor, operands);
  // Gradients are reduced in place: their readers wait for a control register instead of a copy.
  const bool in_place =
      actor.collective == sbp::Collective::all_reduce && task.phase == stage_.phases.reduce();
  const int done = in_place ? registers_.make_control(actor.name) : -1;
  if (in_place) {
    actor.attrs["in_place"] = true;
    actor.outputs = {done};
  }
  int64_t in_bytes = 0, out_bytes = 0;
  for (size_t i = 0; i < bucket.size(); ++i) {
    const NdSbp& result = routes[i]->steps[step].result;
    const ir::TensorType type = registers_.local_type(bucket[i].t, result);
    in_bytes += registers_.local_type(bucket[i].t, now[i].layout).bytes();
    out_bytes += type.bytes();
    now[i].layout = result;
    if (in_place) {
      now[i].held.ready = done;
      continue;
    }
    now[i].held = {step_register(bucket[i], *routes[i], step, "." + actor.op), type.shape, -1};
    actor.outputs.push_back(now[i].held.reg);
  }
  actor.comm_bytes = std::max(in_bytes, out_bytes);
  builder_.add_actor(std::move(actor));
}

ir::Actor BoxEmitter::collective(const Task& task, const Routes& routes, size_t step) {
  const sbp::MeshStep& first = routes[0]->steps[step];
  ir::Actor actor;
  actor.op = sbp::to_text(first.collective);
  actor.name = names_.unique(task.label.name + "." + actor.op);
  actor.kind = ir::ActorKind::collective;
  actor.collective = first.collective;
  actor.comm = stage_.in.comms.along(first.dims);
  actor.queue = builder_.queue(stage_.in.comms.queue(actor.comm));
  actor.phase = task.phase;
  actor.layer = task.label.layer;
  actor.moves = task.label.moves;
  add_axes(actor, routes, step);
  if (first.reduction != sbp::Reduction::sum)
    actor.attrs["reduction"] = std::string(first.reduction == sbp::Reduction::max ? "max" : "min");
  return actor;
}

// A slice of a copy, or an equal share of it (so that the shares sum to it).
BoxEmitter::Moving BoxEmitter::emit_local_step(const Task& task, const Boxed& boxed,
                                               const sbp::MeshRoute& route, size_t step, const Moving& from) {
  const NdSbp& result = route.steps[step].result;
  const ir::Tensor& tensor = stage_.tensor(boxed.t);
  int64_t shares = 1;
  for (size_t d = 0; d < result.size(); ++d)
    if (result[d].is_partial() && !from.layout[d].is_partial()) shares *= stage_.in.mesh.extents[d];
  const std::string suffix = shares > 1 ? ".share" : ".slice";
  ir::Actor actor;
  actor.op = shares > 1 ? "scale" : "slice";
  actor.name = names_.unique(tensor.name + suffix);
  if (shares > 1)
    actor.attrs["factor"] = 1.0 / static_cast<double>(shares);
  else
    actor.attrs = slice_attrs(stage_, tensor.type.shape, from.layout, result);
  actor.phase = task.phase;
  actor.layer = stage_.layer_of(boxed.t);
  registers_.add_inputs(actor, std::vector<Held>{from.held});
  const int reg = step_register(boxed, route, step, suffix);
  actor.outputs = {reg};
  builder_.add_actor(std::move(actor));
  return {result, {reg, registers_.local_type(boxed.t, result).shape, -1}};
}

ir::Attrs slice_attrs(const Stage& stage, const sbp::Shape& shape, const NdSbp& from, const NdSbp& to) {
  const Mesh& mesh = stage.in.mesh;
  return class_attrs(mesh, stage.places, [&](int64_t place) -> ir::Attrs {
    const auto whole = sbp::local_ranges(shape, from, mesh.extents, place);
    const auto part = sbp::local_ranges(shape, to, mesh.extents, place);
    std::vector<int64_t> starts, ends;
    for (size_t a = 0; a < shape.size(); ++a) {
      starts.push_back(part[a].begin - whole[a].begin);
      ends.push_back(part[a].end - whole[a].begin);
    }
    return {{"starts", starts}, {"ends", ends}};
  });
}

// The declared register after the last step, else a new one.
int BoxEmitter::step_register(const Boxed& boxed, const sbp::MeshRoute& route, size_t step,
                              const std::string& suffix) {
  const bool last = step + 1 == route.steps.size();
  if (last && boxed.result < tasks_.declared) return registers_.held(boxed.result).reg;
  return registers_.make(boxed.t, route.steps[step].result, suffix);
}

}  // namespace boxcar::planner
