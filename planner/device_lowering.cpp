#include "planner/device_lowering.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/op.h"
#include "planner/local_attrs.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::OpId;
using ir::TensorId;
using sbp::Range;
using sbp::Sbp;

namespace {

bool contains(const std::vector<Range>& outer, const std::vector<Range>& inner) {
  for (size_t a = 0; a < outer.size(); ++a)
    if (inner[a].begin < outer[a].begin || inner[a].end > outer[a].end) return false;
  return true;
}

sbp::Shape extents(const std::vector<Range>& ranges) {
  sbp::Shape shape;
  for (const Range& range : ranges) shape.push_back(range.size());
  return shape;
}

std::vector<int64_t> starts_in(const std::vector<Range>& block, const std::vector<Range>& whole) {
  std::vector<int64_t> starts;
  for (size_t a = 0; a < block.size(); ++a) starts.push_back(block[a].begin - whole[a].begin);
  return starts;
}

std::vector<int64_t> ends_in(const std::vector<Range>& block, const std::vector<Range>& whole) {
  std::vector<int64_t> ends;
  for (size_t a = 0; a < block.size(); ++a) ends.push_back(block[a].end - whole[a].begin);
  return ends;
}

}  // namespace

DeviceLowering::DeviceLowering(const ir::Graph& graph, const std::vector<const sbp::Placement*>& placements,
                               const std::vector<Mesh>& meshes, const Deduction& layouts, int device,
                               int micro_batches, std::vector<ir::Comm>& comms)
    : builder(fmt::format("device{}", device), {Schedule::gpipe, 1, 1, micro_batches}, 0),
      graph_(graph),
      placements_(placements),
      meshes_(meshes),
      layouts_(layouts),
      device_(device),
      comms_(comms) {}

void DeviceLowering::run() {
  for (OpId o = 0; o < static_cast<OpId>(graph_.ops.size()); ++o) {
    const ir::Op& op = at(graph_.ops, o);
    const TensorId out = op.outputs[0];
    const bool here = place_in(*at(placements_, o)) >= 0;
    const sbp::Layout to{graph_.tensor(out).type.shape, at(layouts_.stored, out), *at(placements_, o)};
    if (op.is(ir::OpKind::to_global)) {
      const TensorId in = op.inputs[0];
      const OpId producer = graph_.tensor(in).producer;
      if (!here && place_in(*at(placements_, producer)) < 0) continue;
      const int reg = get(in, to);
      if (here) held_[{out, sbp::to_text(to)}] = {whole(to, reg)};
    } else if (here && !ir::has_op(op.type)) {
      source(op, out);
    } else if (here) {
      kernel(o);
    }
  }
}

int64_t DeviceLowering::place_in(const sbp::Placement& placement) const {
  const auto at = std::find(placement.devices.begin(), placement.devices.end(), device_);
  return at == placement.devices.end() ? -1 : at - placement.devices.begin();
}

DeviceLowering::Block DeviceLowering::whole(const sbp::Layout& layout, int reg) const {
  return {sbp::local_ranges(layout.shape, layout.sbp, layout.placement.mesh, place_in(layout.placement)),
          reg};
}

int DeviceLowering::add_register(const std::string& name, ir::TensorType type) {
  const int64_t bytes = type.bytes();
  return builder.add_register(unique(register_names_, name), std::move(type), ir::MemoryKind::activations,
                              bytes);
}

std::string DeviceLowering::unique(std::unordered_map<std::string, int>& names, const std::string& name) {
  const int count = ++names[name];
  return count == 1 ? name : unique(names, fmt::format("{}.{}", name, count));
}

// Inputs are loaded for every micro-batch. Parameters and constants stay.
void DeviceLowering::source(const ir::Op& op, TensorId t) {
  const ir::Tensor& tensor = graph_.tensor(t);
  const sbp::Layout layout{tensor.type.shape, at(layouts_.stored, t), *at(placements_, tensor.producer)};
  const bool input = op.is(ir::OpKind::input);
  Block block = whole(layout, -1);
  block.reg = add_register(tensor.name, {extents(block.ranges), tensor.type.dtype});
  ir::Actor actor;
  actor.name = unique(actor_names_, tensor.name);
  actor.kind = input ? ir::ActorKind::copy : ir::ActorKind::host;
  actor.op = input ? "load" : op.type;
  actor.attrs = op.attrs;
  if (!input) actor.attrs["seconds"] = 0.0;
  actor.queue = builder.queue(input ? "copy_in" : "host");
  actor.phase = input ? builder.phases.forward(0) : builder.phases.update();
  actor.outputs = {block.reg};
  if (op.is(ir::OpKind::parameter))
    at(builder.program.registers, block.reg).memory = ir::MemoryKind::parameters;
  builder.add_actor(std::move(actor));
  held_[{t, sbp::to_text(layout)}] = {block};
}

void DeviceLowering::kernel(OpId o) {
  const ir::Op& op = at(graph_.ops, o);
  const sbp::Placement& placement = *at(placements_, o);
  const OpLayout& layout = at(layouts_.ops, o);
  ir::Actor actor;
  actor.name = unique(actor_names_, op.name);
  actor.op = op.type;
  actor.attrs = local_attrs(graph_, op, layout, at(meshes_, o), {static_cast<int>(place_in(placement))});
  actor.phase = builder.phases.forward(0);
  actor.layer = graph_.in_layer(op) ? op.layer : -1;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    actor.inputs.push_back(
        {get(op.inputs[i], {graph_.tensor(op.inputs[i]).type.shape, layout.inputs[i], placement}),
         1,
         -1,
         -1,
         {}});
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const ir::Tensor& tensor = graph_.tensor(op.outputs[i]);
    const sbp::Layout produced{tensor.type.shape, layout.outputs[i], placement};
    Block block = whole(produced, -1);
    block.reg = add_register(tensor.name, {extents(block.ranges), tensor.type.dtype});
    actor.outputs.push_back(block.reg);
    held_[{op.outputs[i], sbp::to_text(produced)}] = {block};
  }
  builder.add_actor(std::move(actor));
  for (size_t i = 0; i < op.outputs.size(); ++i) {  // to its pinned layout
    const sbp::Layout stored{graph_.tensor(op.outputs[i]).type.shape, at(layouts_.stored, op.outputs[i]),
                             placement};
    if (stored.sbp != layout.outputs[i]) get(op.outputs[i], stored);
  }
}

int DeviceLowering::get(TensorId t, const sbp::Layout& to) {
  const auto known = held_.find({t, sbp::to_text(to)});
  if (known != held_.end()) return known->second[0].reg;
  const ir::Tensor& tensor = graph_.tensor(t);
  const auto producer = static_cast<size_t>(tensor.producer);
  sbp::Layout from{tensor.type.shape, at(layouts_.stored, t), *placements_[producer]};
  if (!held_.contains({t, sbp::to_text(from)}) && place_in(from.placement) >= 0)
    from.sbp = at(layouts_.ops[producer].outputs, tensor.output);
  const Route route{tensor.name, fmt::format("{} to {}", tensor.name, sbp::to_text(to))};
  Blocks now = place_in(from.placement) >= 0 ? held_.at({t, sbp::to_text(from)}) : Blocks{};
  steps_[{route.name, 0}] = now;
  int index = 0;
  for (const sbp::Step& step : sbp::box(from, to).steps) {
    now = take(step, route, ++index, now, tensor.type.dtype);
    steps_[{route.name, index}] = now;
  }
  if (now.empty()) return -1;
  if (place_in(to.placement) >= 0) held_[{t, sbp::to_text(to)}] = now;
  return now[0].reg;
}

DeviceLowering::Blocks DeviceLowering::take(const sbp::Step& step, const Route& route, int index,
                                            const Blocks& before, ir::DType dtype) {
  if (step.collective == sbp::Collective::transfer) return transfer(step, route, index, before, dtype);
  const std::string& tensor = route.tensor;
  const bool member = place_in(step.result.placement) >= 0;
  if (step.collective != sbp::Collective::none) {
    for (const std::vector<int>& group : step.groups) {
      if (std::find(group.begin(), group.end(), device_) == group.end()) continue;
      const int reg = collective(step, group, before, dtype, tensor + "." + sbp::to_text(step.collective));
      return reg < 0 ? Blocks{} : Blocks{whole(step.result, reg)};
    }
    return member ? before : Blocks{};
  }
  if (!member || before.empty()) return {};
  Block target = whole(step.result, -1);
  int64_t shares = 1;  // a copy becomes equal shares that sum to it; for a maximum a copy is a share
  for (size_t d = 0; d < step.result.sbp.size(); ++d)
    if (step.result.sbp[d] == Sbp::P() && target.ranges == before[0].ranges)
      shares *= step.result.placement.mesh[d];
  if (shares > 1)
    target.reg = kernel_actor(tensor + ".share", "scale", {{"factor", 1.0 / static_cast<double>(shares)}},
                              {before[0].reg}, {extents(target.ranges), dtype});
  else
    target.reg = assemble(before, target, dtype, tensor);
  return {target};
}

DeviceLowering::Blocks DeviceLowering::transfer(const sbp::Step& step, const Route& route, int index,
                                                const Blocks& before, ir::DType dtype) {
  const std::string& tensor = route.tensor;
  // Blocks are joined by adding them to zeros.
  for (const Sbp entry : step.result.sbp)
    if (entry.is_partial() && entry != Sbp::P())
      throw Error::input(tensor, fmt::format("{} cannot be moved to other devices (bring it to B or S first)",
                                             sbp::to_text(step.result)));
  Blocks blocks;
  for (const sbp::Slice& slice : step.slices) {
    if (slice.from == device_) builder.queue("net.out");
    if (slice.to != device_) continue;
    if (slice.from == device_) {
      for (const Block& block : before)
        if (contains(block.ranges, slice.block)) {
          blocks.push_back({slice.block, cut(block, slice.block, dtype, tensor)});
          break;
        }
      continue;
    }
    const ir::TensorType type{extents(slice.block), dtype};
    ir::Actor pull;
    pull.name = unique(actor_names_, fmt::format("{}.pull{}", tensor, blocks.size()));
    pull.kind = ir::ActorKind::pull;
    pull.op = "pull";
    pull.queue = builder.queue("net.in");
    pull.phase = builder.phases.forward(0);
    pull.comm_bytes = type.bytes();
    pull.inputs.push_back({-1, 1, -1, -1, {}});
    const int reg = add_register(fmt::format("{}.pull{}", tensor, blocks.size()), type);
    pull.outputs = {reg};
    links.push_back({builder.add_actor(std::move(pull)), slice.from, route.name, index - 1, slice.block});
    blocks.push_back({slice.block, reg});
  }
  if (step.result.sbp.empty() || place_in(step.result.placement) < 0) return blocks;
  Block target = whole(step.result, -1);
  target.reg = assemble(blocks, target, dtype, tensor);
  return {target};
}

// Cuts a part out of a block.
int DeviceLowering::cut(const Block& from, const std::vector<Range>& block, ir::DType dtype,
                        const std::string& name) {
  if (from.ranges == block) return from.reg;
  return kernel_actor(name + ".slice", "slice",
                      {{"starts", starts_in(block, from.ranges)}, {"ends", ends_in(block, from.ranges)}},
                      {from.reg}, {extents(block), dtype});
}

// Makes one tensor of blocks. A single block is cut; adjacent blocks are concatenated; others are placed on
// zeros and added.
int DeviceLowering::assemble(const Blocks& blocks, const Block& target, ir::DType dtype,
                             const std::string& name) {
  const ir::TensorType type{extents(target.ranges), dtype};
  if (blocks.size() == 1 && contains(blocks[0].ranges, target.ranges))
    return cut(blocks[0], target.ranges, dtype, name);
  std::vector<int> inputs;
  if (blocks.empty()) {  // its share of a sum whose parts others hold
    const int reg = kernel_actor(name + ".zero", "constant", {{"value", 0.0}, {"seconds", 0.0}}, {}, type);
    builder.program.actors.back().kind = ir::ActorKind::host;
    return reg;
  }
  for (size_t a = 0; a < target.ranges.size(); ++a) {
    Blocks sorted = blocks;
    std::sort(sorted.begin(), sorted.end(),
              [&](const Block& x, const Block& y) { return x.ranges[a] < y.ranges[a]; });
    int64_t next = target.ranges[a].begin;
    for (const Block& block : sorted) {
      std::vector<Range> rest = block.ranges;
      rest[a] = target.ranges[a];
      next = rest == target.ranges && block.ranges[a].begin == next ? block.ranges[a].end : -1;
    }
    if (next != target.ranges[a].end) continue;
    for (const Block& block : sorted) inputs.push_back(block.reg);
    return kernel_actor(name + ".concat", "concat", {{"axis", static_cast<int64_t>(a)}}, inputs, type);
  }
  for (const Block& block : blocks)
    inputs.push_back(
        block.ranges == target.ranges
            ? block.reg
            : kernel_actor(name + ".pad", "slice_grad",
                           {{"starts", starts_in(block.ranges, target.ranges)}, {"shape", type.shape}},
                           {block.reg}, type));
  return inputs.size() == 1 ? inputs[0] : kernel_actor(name + ".sum", "sum", {}, inputs, type);
}

int DeviceLowering::kernel_actor(const std::string& name, const std::string& op, ir::Attrs attrs,
                                 const std::vector<int>& inputs, ir::TensorType out) {
  ir::Actor actor;
  actor.name = unique(actor_names_, name);
  actor.op = op;
  actor.attrs = std::move(attrs);
  actor.phase = builder.phases.forward(0);
  for (int reg : inputs) actor.inputs.push_back({reg, 1, -1, -1, {}});
  const int reg = add_register(name, std::move(out));
  actor.outputs = {reg};
  builder.add_actor(std::move(actor));
  return reg;
}

int DeviceLowering::collective(const sbp::Step& step, const std::vector<int>& group, const Blocks& before,
                               ir::DType dtype, const std::string& name) {
  const std::string comm = name + ".group";
  auto known =
      std::find_if(comms_.begin(), comms_.end(), [&](const ir::Comm& c) { return c.groups == step.groups; });
  if (known == comms_.end()) known = comms_.insert(comms_.end(), {comm, step.groups});
  ir::Actor actor;
  actor.name = unique(actor_names_, name);
  actor.kind = ir::ActorKind::collective;
  actor.op = sbp::to_text(step.collective);
  actor.attrs["axes"] = std::vector<int64_t>{step.axis};
  if (step.collective == sbp::Collective::all_to_all) actor.attrs["axes2"] = std::vector<int64_t>{step.axis2};
  if (step.reduction != sbp::Reduction::sum)
    actor.attrs["reduction"] = std::string(step.reduction == sbp::Reduction::max ? "max" : "min");
  actor.collective = step.collective;
  actor.comm = static_cast<int>(known - comms_.begin());
  actor.queue = builder.queue("net.group");
  actor.phase = builder.phases.forward(0);
  for (const Block& block : before) {
    actor.inputs.push_back({block.reg, 1, -1, -1, {}});
    actor.comm_bytes += at(builder.program.registers, block.reg).type.bytes();
  }
  int reg = -1;
  const bool root_only = step.collective == sbp::Collective::reduce;
  if (place_in(step.result.placement) >= 0 && (!root_only || group[0] == device_)) {
    const ir::TensorType type{extents(whole(step.result, -1).ranges), dtype};
    actor.comm_bytes = std::max(actor.comm_bytes, type.bytes());
    reg = add_register(name, type);
    actor.outputs = {reg};
  }
  builder.add_actor(std::move(actor));
  return reg;
}

int DeviceLowering::register_of(const DeviceLink& link, ir::Attrs& attrs) const {
  const auto blocks = steps_.find({link.tensor, link.step});
  if (blocks != steps_.end())
    for (const Block& own : blocks->second) {
      if (!contains(own.ranges, link.block)) continue;
      if (own.ranges != link.block) {
        attrs["starts"] = starts_in(link.block, own.ranges);
        attrs["ends"] = ends_in(link.block, own.ranges);
      }
      return own.reg;
    }
  throw Error::fault(link.tensor, fmt::format("device {} has no block that is pulled from it", device_));
}

std::string DeviceLowering::shape() const {
  const ir::Program& p = builder.program;
  std::string text;
  for (const ir::Register& reg : p.registers) text += reg.name + " " + ir::to_text(reg.type) + "\n";
  for (const ir::Actor& actor : p.actors) {
    text += fmt::format("{} {} {} {} {}", actor.name, actor.op, actor.comm, actor.phase,
                        ir::to_text(actor.attrs));
    for (const ir::Input& input : actor.inputs) text += fmt::format(" {}", input.reg);
    for (int reg : actor.outputs) text += fmt::format(" -> {}", reg);
    text += "\n";
  }
  return text;
}

}  // namespace boxcar::planner
