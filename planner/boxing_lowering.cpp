// Boxing: collectives and local steps between two layouts of one mesh, several tensors in one collective
// where they go the same way.
#include <fmt/format.h>

#include "planner/stage_lowering.h"

namespace boxcar::planner {

using ir::TensorId;

StageLowering::Value StageLowering::box(const Item& item, int in_phase) {
  return box_all({item}, in_phase, label(item.t))[0];
}

StageLowering::Label StageLowering::label(TensorId t) const {
  return {tensor(t).name, layer(tensor(t).producer), ir::name_in_layer(in_.graph, t)};
}

std::vector<StageLowering::Value> StageLowering::box_all(const Bucket& bucket, int in_phase,
                                                         const Label& label) {
  std::vector<const sbp::MeshRoute*> routes;
  std::vector<Value> now;
  for (const Item& item : bucket) {
    routes.push_back(&in_.routes.find(tensor(item.t).type.shape, item.from.layout, item.to));
    now.push_back(item.from);
  }
  for (size_t s = 0; s < routes[0]->steps.size(); ++s) {
    if (routes[0]->steps[s].collective != sbp::Collective::none) {
      collective_step(bucket, routes, s, now, in_phase, label);
      continue;
    }
    for (size_t i = 0; i < bucket.size(); ++i) {
      const bool last = s + 1 == routes[i]->steps.size();
      now[i] = local_step(bucket[i], routes[i]->steps[s], now[i], in_phase, last ? bucket[i].out : -1);
    }
  }
  for (size_t i = 0; i < bucket.size(); ++i) {
    now[i].layout = bucket[i].to;
    now[i].scope = -1;
  }
  return now;
}

// A slice of a copy, or an equal share of one (so that the shares add up to it).
StageLowering::Value StageLowering::local_step(const Item& item, const sbp::MeshStep& step, const Value& from,
                                               int in_phase, int out) {
  const sbp::Shape& shape = tensor(item.t).type.shape;
  int64_t shares = 1;
  for (size_t d = 0; d < step.result.size(); ++d)
    if (step.result[d].is_partial() && !from.layout[d].is_partial()) shares *= in_.mesh.extents[d];
  ir::Actor actor;
  actor.op = shares > 1 ? "scale" : "slice";
  actor.name = actor_name(tensor(item.t).name + (shares > 1 ? ".share" : ".slice"));
  if (shares > 1) {
    actor.attrs["factor"] = 1.0 / static_cast<double>(shares);
  } else {
    actor.attrs = class_attrs(in_.mesh, places_, [&](int64_t place) -> ir::Attrs {
      const auto whole = sbp::local_ranges(shape, from.layout, in_.mesh.extents, place);
      const auto part = sbp::local_ranges(shape, step.result, in_.mesh.extents, place);
      std::vector<int64_t> starts, ends;
      for (size_t a = 0; a < shape.size(); ++a) {
        starts.push_back(part[a].begin - whole[a].begin);
        ends.push_back(part[a].end - whole[a].begin);
      }
      return {{"starts", starts}, {"ends", ends}};
    });
  }
  actor.phase = in_phase;
  actor.layer = layer(tensor(item.t).producer);
  add_inputs(actor, {from});
  const int reg = out >= 0 ? out : make_register(item.t, step.result, shares > 1 ? ".share" : ".slice");
  actor.outputs = {reg};
  builder.add_actor(std::move(actor));
  return {step.result, -1, reg, local_type(item.t, step.result).shape};
}

namespace {

// By operand: the axis that is gathered or scattered; and the one that an all_to_all splits.
void add_axes(ir::Actor& actor, const std::vector<const sbp::MeshRoute*>& routes, size_t s) {
  if (actor.collective == sbp::Collective::all_reduce) return;
  std::vector<int64_t> axes, axes2;
  for (const sbp::MeshRoute* route : routes) {
    axes.push_back(route->steps[s].axis);
    axes2.push_back(route->steps[s].axis2);
  }
  actor.attrs["axes"] = axes;
  if (actor.collective == sbp::Collective::all_to_all) actor.attrs["axes2"] = axes2;
}

}  // namespace

int StageLowering::collective_step(const Bucket& bucket, const std::vector<const sbp::MeshRoute*>& routes,
                                   size_t s, std::vector<Value>& now, int in_phase, const Label& label) {
  const sbp::MeshStep& first = routes[0]->steps[s];
  const std::string verb = sbp::to_text(first.collective);
  ir::Actor actor;
  actor.name = actor_name(label.name + "." + verb);
  actor.kind = ir::ActorKind::collective;
  actor.op = verb;
  actor.collective = first.collective;
  actor.comm = in_.comms.along(first.dims);
  actor.queue = builder.queue(in_.comms.queue(actor.comm));
  actor.phase = in_phase;
  actor.layer = label.layer;
  actor.moves = label.moves;
  add_axes(actor, routes, s);
  if (first.reduction != sbp::Reduction::sum)
    actor.attrs["reduction"] = std::string(first.reduction == sbp::Reduction::max ? "max" : "min");
  add_inputs(actor, now);
  // Gradients are reduced where they are: what reads them waits for a control register instead of a copy.
  const bool in_place =
      first.collective == sbp::Collective::all_reduce && in_phase == builder.phases.reduce();
  const int done = in_place ? control_register(actor.name) : -1;
  if (in_place) {
    actor.attrs["in_place"] = true;
    actor.outputs = {done};
  }
  int64_t in_bytes = 0, out_bytes = 0;
  for (size_t i = 0; i < bucket.size(); ++i) {
    const sbp::MeshStep& step = routes[i]->steps[s];
    const ir::TensorType type = local_type(bucket[i].t, step.result);
    in_bytes += local_type(bucket[i].t, now[i].layout).bytes();
    out_bytes += type.bytes();
    if (in_place) {
      now[i].layout = step.result;
      now[i].ready = done;
      continue;
    }
    const bool last = s + 1 == routes[i]->steps.size();
    const int reg =
        last && bucket[i].out >= 0 ? bucket[i].out : make_register(bucket[i].t, step.result, "." + verb);
    actor.outputs.push_back(reg);
    now[i] = {step.result, -1, reg, type.shape, -1};
  }
  actor.comm_bytes = std::max(in_bytes, out_bytes);
  return builder.add_actor(std::move(actor));
}

// Equal for tensors that go through the same collectives.
std::string StageLowering::bucket_key(const Item& item) const {
  std::string key;
  for (const sbp::MeshStep& step :
       in_.routes.find(tensor(item.t).type.shape, item.from.layout, item.to).steps) {
    key += sbp::to_text(step.collective);
    for (int d : step.dims) key += fmt::format(" {}", d);
    key += ';';
  }
  return key + ir::to_text(tensor(item.t).type.dtype);
}

void StageLowering::box_in_buckets(const std::vector<Item>& items, int in_phase, const Label& label,
                                   bool split_by_size) {
  struct Open {
    Bucket bucket;
    int64_t bytes = 0;
  };
  std::map<std::string, Open> open;
  const int64_t limit = int64_t{in_.hints.grad_bucket_mb} << 20;
  const auto close = [&](Open& o) {
    const std::vector<Value> boxed = box_all(o.bucket, in_phase, label);
    for (size_t i = 0; i < boxed.size(); ++i) {
      if (o.bucket[i].out < 0) values(o.bucket[i].t).push_back(boxed[i]);
    }
    o = {};
  };
  for (const Item& item : items) {
    Open& o = open[bucket_key(item)];
    o.bucket.push_back(item);
    o.bytes += std::max(local_type(item.t, item.from.layout).bytes(), local_type(item.t, item.to).bytes());
    if (split_by_size && o.bytes >= limit) close(o);
  }
  for (auto& [key, o] : open)
    if (!o.bucket.empty()) close(o);
}

// All parameters of a layer in one collective, asked for when the kernel that first reads the group before
// begins its own work: one group ahead. Or, without overlap, when the kernel before has ended.
bool StageLowering::gather_group(TensorId t, int in_phase) {
  if (!in_.sharding.gathers_in_each_pass() || !from_state_[static_cast<size_t>(t)] ||
      !builder.phases.per_micro_batch(in_phase))
    return false;
  const auto group = groups_.find({in_phase, at_layer_.second});
  if (group == groups_.end() || group->second.empty()) return false;
  std::vector<Item> items;
  for (TensorId member : group->second) {
    if (values(member).empty()) return false;
    Value from;
    for (const Value& value : values(member))
      if (value.scope < 0 && value.layout == stored(member)) from = value;
    items.push_back({member, from, *in_.pins.used[static_cast<size_t>(member)], -1});
  }
  const int layer = group->first.second;
  group->second.clear();
  const size_t before = builder.program.actors.size();
  const std::string whose = layer < 0 ? "embedding" : ir::layer_name(layer);
  box_in_buckets(items, in_phase, {whose + ".parameters", layer < in_.graph.layers ? layer : -1}, false);
  const size_t after = builder.program.actors.size();
  for (const Item& item : items) values(item.t).back().scope = in_phase;
  const auto reader = first_reader_.find(in_phase);
  for (size_t a = before; a < after; ++a) {
    if (builder.program.actors[a].kind != ir::ActorKind::collective) continue;
    if (!in_.hints.overlap_param)
      hold_back(a);
    else if (reader != first_reader_.end())
      builder.control(reader->second, static_cast<int>(a));
  }
  waiting_for_reader_[in_phase] = true;
  return true;
}

}  // namespace boxcar::planner
