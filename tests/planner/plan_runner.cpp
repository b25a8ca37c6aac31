#include "plan_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/op.h"
#include "ir/rank_attrs.h"
#include "sbp/apply.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using backends::cpu::put;
using backends::cpu::run_reference;
using backends::cpu::take;
using backends::cpu::zeros;
using ir::is_control;

namespace {

// A device's place in its group of the comm of this name.
int64_t coordinate(const ir::Plan& plan, const std::string& dim, int device) {
  for (const ir::Comm& comm : plan.comms) {
    if (comm.name != dim) continue;
    for (const std::vector<int>& group : comm.groups)
      if (const auto found = std::find(group.begin(), group.end(), device); found != group.end())
        return found - group.begin();
  }
  return 0;
}

int64_t rank_in_class(const ir::Plan& plan, int device) {
  for (const ir::RankClass& cls : plan.classes)
    if (const auto found = std::find(cls.devices.begin(), cls.devices.end(), device);
        found != cls.devices.end())
      return found - cls.devices.begin();
  return 0;
}

std::vector<sbp::Range> ranges_of(const sbp::Shape& shape) {
  std::vector<sbp::Range> ranges;
  for (int64_t extent : shape) ranges.push_back({0, extent});
  return ranges;
}

// Tensors side by side along an axis.
HostTensor concat(const std::vector<HostTensor>& parts, int64_t axis) {
  HostTensor whole = parts[0];
  const auto a = static_cast<size_t>(axis);
  whole.type.shape[a] = 0;
  for (const HostTensor& part : parts) whole.type.shape[a] += part.type.shape[a];
  whole = zeros(whole.type);
  int64_t begin = 0;
  for (const HostTensor& part : parts) {
    std::vector<sbp::Range> ranges = ranges_of(part.type.shape);
    ranges[a] = {begin, begin + part.type.shape[a]};
    begin = ranges[a].end;
    put(whole, ranges, part);
  }
  return whole;
}

// Member `index`'s part, where the parts are consecutive and as long as the members' results.
HostTensor part(const HostTensor& whole, int64_t axis, const std::vector<ir::TensorType>& results,
                size_t index) {
  const auto a = static_cast<size_t>(axis);
  std::vector<sbp::Range> ranges = ranges_of(whole.type.shape);
  int64_t begin = 0;
  for (size_t m = 0; m < index; ++m) begin += results[m].shape[a];
  ranges[a] = {begin, begin + results[index].shape[a]};
  return take(whole, ranges);
}

HostTensor reduce(const std::vector<HostTensor>& parts, sbp::Reduction reduction) {
  HostTensor result = parts[0];
  for (size_t p = 1; p < parts.size(); ++p)
    for (size_t i = 0; i < result.data.size(); ++i)
      result.data[i] = sbp::combine(reduction, result.data[i], parts[p].data[i]);
  return result;
}

// One tensor's results for all members of a group, with these types.
std::vector<HostTensor> exchange(sbp::Collective collective, const std::vector<HostTensor>& parts,
                                 const std::vector<ir::TensorType>& types, int64_t axis, int64_t axis2,
                                 sbp::Reduction reduction) {
  std::vector<HostTensor> results;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (collective == sbp::Collective::all_reduce) results.push_back(reduce(parts, reduction));
    if (collective == sbp::Collective::broadcast) results.push_back(parts[0]);
    if (collective == sbp::Collective::all_gather) results.push_back(concat(parts, axis));
    if (collective == sbp::Collective::reduce_scatter)
      results.push_back(part(reduce(parts, reduction), axis, types, k));
    if (collective != sbp::Collective::all_to_all) continue;
    std::vector<HostTensor> mine;
    for (const HostTensor& from : parts) mine.push_back(part(from, axis2, types, k));
    results.push_back(concat(mine, axis));
  }
  return results;
}

}  // namespace

PlanRunner::PlanRunner(const ir::Plan& plan, Source source)
    : plan_(plan),
      source_(std::move(source)),
      program_(static_cast<size_t>(plan.devices)),
      first_(static_cast<size_t>(plan.devices)),
      devices_(static_cast<size_t>(plan.devices)) {
  for (const ir::RankClass& cls : plan.classes)
    for (int device : cls.devices) {
      at(program_, device) = cls.program;
      at(first_, device) = cls.devices[0];
      const ir::Program& p = at(plan.programs, cls.program);
      of(device).acts.assign(p.actors.size(), 0);
      of(device).registers.resize(p.registers.size());
      for (size_t r = 0; r < p.registers.size(); ++r)
        for (int v = 0; v < p.registers[r].initial; ++v)
          of(device).registers[r].push_back(
              {is_control(p.registers[r]) ? HostTensor{} : source_(p.registers[r], cls.program, device),
               p.registers[r].every});
    }
}

const ir::Program& PlanRunner::program(int device) const { return at(plan_.programs, program_of(device)); }
const ir::Register& PlanRunner::reg(int device, int r) const { return at(program(device).registers, r); }

// Types of an actor's results; in place: those of its operands.
std::vector<ir::TensorType> PlanRunner::result_types(int device, int a) const {
  const ir::Actor& actor = at(program(device).actors, a);
  std::vector<int> registers = actor.outputs;
  if (actor.attrs.contains("in_place")) {
    registers.clear();
    for (const ir::Input& input : actor.inputs) registers.push_back(input.reg);
  }
  std::vector<ir::TensorType> types;
  for (const int r : registers)
    if (!is_control(reg(device, r))) types.push_back(reg(device, r).type);
  return types;
}

const PlanRunner::Slot* PlanRunner::readable(int device, int r, int version) const {
  const auto& versions = at(at(devices_, device).registers, r);
  if (version >= static_cast<int>(versions.size())) return nullptr;
  const Slot& slot = at(versions, version);
  return slot.writes == reg(device, r).every ? &slot : nullptr;
}

int PlanRunner::goal(int device, int a) const { return steps_ * program(device).acts_per_step(a); }

bool PlanRunner::ready(int device, int a) const {
  const ir::Actor& actor = at(program(device).actors, a);
  const int act = at(at(devices_, device).acts, a);
  if (act >= goal(device, a)) return false;
  for (const ir::Input& input : actor.inputs) {
    const int from = input.program >= 0 ? at(at(plan_.peers, input.peers).source, device) : device;
    if (input.program < 0 && reg(device, input.reg).producer == a) continue;  // in place
    if (!readable(from, input.reg, act / input.repeat)) return false;
  }
  return true;
}

std::vector<HostTensor> PlanRunner::operands(int device, int a) const {
  const ir::Actor& actor = at(program(device).actors, a);
  const int act = at(at(devices_, device).acts, a);
  std::vector<HostTensor> result;
  for (const ir::Input& input : actor.inputs) {
    const ir::Register& from = reg(device, input.reg);
    if (is_control(from)) continue;
    const auto& versions = at(at(devices_, device).registers, input.reg);
    if (from.producer == a)
      result.push_back(versions.empty() ? source_(from, program_of(device), device) : versions.back().value);
    else
      result.push_back(at(versions, act / input.repeat).value);
    if (input.view) result.back().type.shape = *input.view;
  }
  return result;
}

// Writes the results, or adds them to those that earlier acts wrote into the slot.
void PlanRunner::write(int device, int a, std::vector<HostTensor> results) {
  const ir::Actor& actor = at(program(device).actors, a);
  const int act = at(of(device).acts, a);
  size_t next = 0;
  for (int r : actor.outputs) {
    const ir::Register& target = reg(device, r);
    const HostTensor value = is_control(target) ? HostTensor{} : results.at(next++);
    auto& versions = at(of(device).registers, r);
    const auto version = static_cast<size_t>(target.initial + act / target.every);
    if (!is_control(target) && value.type.shape != target.type.shape)
      throw Error::fault(actor.name,
                         fmt::format("writes {} into {}", ir::to_text(value.type), ir::to_text(target.type)));
    if (version == versions.size())
      versions.push_back({value, 1});
    else if (++versions[version].writes; !is_control(target))
      for (size_t i = 0; i < value.data.size(); ++i) versions[version].value.data[i] += value.data[i];
  }
}

ir::Attrs PlanRunner::attrs(int device, const ir::Actor& actor) const {
  ir::Attrs attrs = ir::rank_attrs(actor.attrs, [&](const std::string& dim) -> ir::Coordinates {
    if (dim == "rank") return {rank_in_class(plan_, device), 0};
    return {coordinate(plan_, dim, device), coordinate(plan_, dim, at(first_, device))};
  });
  attrs.erase("seconds");
  return ir::complete(ir::op(actor.op), attrs);
}

void PlanRunner::kernel(int device, int a) {
  const ir::Actor& actor = at(program(device).actors, a);
  if (actor.op == "copy") return write(device, a, operands(device, a));
  if (actor.op == "load" || actor.op == "parameter" || actor.op == "constant") {
    const ir::Register& out = reg(device, actor.outputs[0]);
    HostTensor value;
    if (actor.op == "constant") {
      value = zeros(out.type);
      value.data.assign(value.data.size(), ir::attr_float(actor.attrs, "value"));
    } else {
      value = source_(out, program_of(device), device);
    }
    write(device, a, {value});
    return;
  }
  write(device, a, run_reference(actor.op, operands(device, a), attrs(device, actor)));
}

void PlanRunner::pull(int device, int a) {
  const ir::Actor& actor = at(program(device).actors, a);
  const ir::Input& input = actor.inputs[0];
  const int from = at(at(plan_.peers, input.peers).source, device);
  HostTensor value = readable(from, input.reg, at(at(devices_, device).acts, a))->value;
  if (input.view) value.type.shape = *input.view;
  if (actor.attrs.contains("starts")) {
    std::vector<sbp::Range> ranges;
    const auto &starts = ir::attr_ints(actor.attrs, "starts"), &ends = ir::attr_ints(actor.attrs, "ends");
    for (size_t a2 = 0; a2 < starts.size(); ++a2) ranges.push_back({starts[a2], ends[a2]});
    value = take(value, ranges);
  }
  value.type.shape = reg(device, actor.outputs[0]).type.shape;  // the same elements, a reshape dropped
  write(device, a, {value});
}

// The group's members: device and the actor that acts jointly.
std::vector<std::pair<int, int>> PlanRunner::members(int device, int a) const {
  const ir::Actor& actor = at(program(device).actors, a);
  const auto joint = [](const ir::Actor& x) { return x.joint.empty() ? x.name : x.joint; };
  std::vector<std::pair<int, int>> result;
  for (const std::vector<int>& group : at(plan_.comms, actor.comm).groups) {
    if (std::find(group.begin(), group.end(), device) == group.end()) continue;
    for (int member : group)
      for (size_t b = 0; b < program(member).actors.size(); ++b)
        if (program(member).actors[b].comm == actor.comm && joint(program(member).actors[b]) == joint(actor))
          result.emplace_back(member, static_cast<int>(b));
  }
  return result;
}

void PlanRunner::collective(int device, int a) {
  const std::vector<std::pair<int, int>> group = members(device, a);
  for (const auto& [member, b] : group)
    if (!ready(member, b)) return;
  const ir::Actor& actor = at(program(device).actors, a);
  sbp::Reduction reduction = sbp::Reduction::sum;
  if (actor.attrs.contains("reduction"))
    reduction = ir::attr_text(actor.attrs, "reduction") == "max" ? sbp::Reduction::max : sbp::Reduction::min;
  std::vector<std::vector<HostTensor>> inputs, outputs(group.size());
  for (const auto& [member, b] : group) inputs.push_back(operands(member, b));
  const auto axis = [&](const char* name, size_t i) {
    return actor.attrs.contains(name) ? ir::attr_ints(actor.attrs, name)[i] : 0;
  };
  for (size_t i = 0; i < inputs[0].size(); ++i) {
    std::vector<HostTensor> parts;
    for (const auto& own : inputs) parts.push_back(own[i]);
    std::vector<ir::TensorType> types;
    for (const auto& [member, b] : group) types.push_back(result_types(member, b).at(i));
    std::vector<HostTensor> results =
        exchange(actor.collective, parts, types, axis("axes", i), axis("axes2", i), reduction);
    for (size_t m = 0; m < group.size(); ++m) outputs[m].push_back(std::move(results[m]));
  }
  for (size_t m = 0; m < group.size(); ++m) {
    const auto [member, b] = group[m];
    const ir::Actor& own = at(program(member).actors, b);
    if (own.attrs.contains("in_place"))
      for (size_t i = 0, operand = 0; i < own.inputs.size(); ++i) {
        if (is_control(reg(member, own.inputs[i].reg))) continue;
        auto& versions = at(of(member).registers, own.inputs[i].reg);
        at(versions, at(of(member).acts, b) / own.inputs[i].repeat).value.data = outputs[m][operand++].data;
      }
    write(member, b, own.attrs.contains("in_place") ? std::vector<HostTensor>{} : outputs[m]);
    ++at(of(member).acts, b);
  }
}

bool PlanRunner::step(int device, int a) {
  if (!ready(device, a)) return false;
  const ir::Actor& actor = at(program(device).actors, a);
  const int before = at(of(device).acts, a);
  if (actor.kind == ir::ActorKind::collective) {
    collective(device, a);
    return at(of(device).acts, a) > before;
  }
  actor.kind == ir::ActorKind::pull ? pull(device, a) : kernel(device, a);
  ++at(of(device).acts, a);
  return true;
}

void PlanRunner::expect_ready(int device, int a) const {
  if (!ready(device, a))
    throw Error::fault(at(program(device).actors, a).name, "acts before its operands are there");
}

void PlanRunner::act(int device, int a) {
  steps_ = 1 << 20;
  expect_ready(device, a);
  const ir::Actor& actor = at(program(device).actors, a);
  if (actor.kind == ir::ActorKind::collective)
    for (const auto& [member, b] : members(device, a)) expect_ready(member, b);
  step(device, a);
}

const HostTensor* PlanRunner::value_after(int steps, int r, int device) const {
  const ir::Register& of = reg(device, r);
  const auto& versions = at(at(devices_, device).registers, r);
  const int last = of.initial + steps * program(device).acts_per_step(of.producer) / of.every - 1;
  return last >= 0 && last < static_cast<int>(versions.size()) ? &at(versions, last).value : nullptr;
}

void PlanRunner::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (int device = 0; device < plan_.devices; ++device)
      for (size_t a = 0; a < program(device).actors.size(); ++a)
        while (step(device, static_cast<int>(a))) moved = true;
  }
  for (int device = 0; device < plan_.devices; ++device)
    for (size_t a = 0; a < program(device).actors.size(); ++a)
      if (at(of(device).acts, static_cast<int>(a)) < goal(device, static_cast<int>(a)))
        throw Error::fault(fmt::format("device {}", device), program(device).actors[a].name + " never acts");
}

const HostTensor& PlanRunner::value(const std::string& name, int device) const {
  const ir::Program& p = program(device);
  for (size_t r = 0; r < p.registers.size(); ++r)
    if (p.registers[r].name == name) return at(devices_, device).registers[r].back().value;
  throw Error::fault(name, fmt::format("device {} has no such register", device));
}

}  // namespace boxcar::planner
