#include "planner/estimate/stage_cost.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "backends/machines/framework.h"
#include "ir/derived_name.h"
#include "ir/ops/updates.h"
#include "ir/parameter_kinds.h"
#include "ir/plan_roles.h"
#include "planner/arena.h"
#include "planner/estimate/phase_walks.h"
#include "planner/holdings.h"
#include "planner/solve/cost.h"
#include "sbp/at.h"

namespace boxcar::search {
namespace {

bool is_kernel(const ir::Program& program, const ir::Actor& actor) {
  const bool on_device = at(program.queues, actor.queue).kind == ir::QueueKind::compute;
  return (on_device && actor.comm < 0) || runs_on_host(program, actor);
}

// `apart`: tensors of so many elements or more are gathered and reduced one by one; 0: none.
void add_elements(const ir::Program& program, int64_t apart, const Experts& experts, StageCost& cost) {
  for (const ir::Actor& actor : program.actors) {
    const auto updates = ir::updates_of(actor.op, actor.attrs);
    for (size_t t = 0; updates && t < updates->tensors; ++t) {
      const ir::Register& weight = at(program.registers, actor.inputs[updates->input(t, 0)].reg);
      const auto elements = static_cast<double>(weight.type.elements());
      cost.elements += elements;
      const auto expert = experts.find(weight.name);
      if (expert == experts.end()) {
        if (apart > 0 && weight.type.elements() >= apart) ++cost.apart_tensors;
        continue;
      }
      cost.expert_elements += elements;
      if (expert->second) cost.cp_made_elements += elements;
    }
  }
}

// Time of kernels on the compute queue, or on the host, for which `asked` holds. A kernel over empty tensors
// waits equally long for its launch, and then takes as long as the program's fastest kernel. An op that only
// changes a shape takes no time. `alone`: times if launched in time.
template <typename F>
StateTime state_time(const ir::Program& program, const std::vector<double>& seconds,
                     const std::vector<double>& alone, const F& asked) {
  StateTime sum;
  double fastest = infinity;
  for (size_t a = 0; a < program.actors.size(); ++a)
    if (is_kernel(program, program.actors[a]) && alone[a] > 0) fastest = std::min(fastest, alone[a]);
  for (size_t a = 0; a < program.actors.size(); ++a) {
    if (!is_kernel(program, program.actors[a]) || !asked(program.actors[a])) continue;
    sum.whole += seconds[a];
    sum.least += seconds[a] - std::max(0.0, alone[a] - fastest);
  }
  return sum;
}

bool is_in_backward(ir::PhaseKind kind) {
  return kind == ir::PhaseKind::backward || kind == ir::PhaseKind::weight;
}

// Kernel seconds of a micro-batch in phases for which `asked` holds.
template <typename F>
double computing(const ir::Program& program, const std::vector<double>& seconds, const F& asked) {
  double sum = 0;
  for (size_t a = 0; a < program.actors.size(); ++a)
    if (computes(program, program.actors[a]) && asked(program.phase_of(program.actors[a]).kind))
      sum += seconds[a];
  return sum;
}

// Seconds of the kernels with which layers begin their backward passes and that read no parameters: gradients
// of weights, unless these run beside collectives of tensor parallelism.
double before_parameters(const ir::Program& program, const std::vector<double>& seconds) {
  std::set<int> reading;  // layers
  double sum = 0;
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (!is_kernel(program, actor) || actor.layer < 0 || actor.is(ir::OpKind::accumulate) ||
        program.phase_of(actor).kind != ir::PhaseKind::backward || reading.contains(actor.layer))
      continue;
    const bool reads = std::ranges::any_of(actor.inputs, [&](const ir::Input& input) {
      return input.program < 0 && at(program.registers, input.reg).memory == ir::MemoryKind::parameters;
    });
    if (reads)
      reading.insert(actor.layer);
    else
      sum += seconds[a];
  }
  return sum;
}

// Adds bytes with an allocator, as Holdings counts them. Bytes that forward passes leave are counted by
// micro-batches in flight.
void add_given_bytes(const ir::Plan& plan, int program_at, StageCost& cost) {
  const ir::Program& program = at(plan.programs, program_at);
  const planner::Holdings holdings(plan, program_at, true);
  const auto kind_of = [&](int phase) { return at(program.phases, phase).kind; };
  const bool splits = std::ranges::any_of(
      program.phases, [](const ir::PlanPhase& phase) { return phase.kind == ir::PhaseKind::weight; });
  std::vector<double> left(program.phases.size());
  for (size_t r = 0; r < program.registers.size(); ++r) {
    const planner::Span& span = holdings.span(static_cast<int>(r));
    if (span.from < 0 || span.from == span.to || !at(program.phases, span.from).is_pass()) continue;
    const auto bytes = static_cast<double>(program.registers[r].bytes);
    at(left, span.from) += bytes;
    (kind_of(span.from) != ir::PhaseKind::forward            ? cost.to_weight
     : splits && kind_of(span.to) == ir::PhaseKind::backward ? cost.to_backward
                                                             : at(cost.bytes, ir::MemoryKind::activations)) +=
        bytes;
  }
  double always = 0;
  for (size_t kind = 0; kind < cost.bytes.size(); ++kind) {
    const auto bytes = static_cast<double>(holdings.always()[kind]);
    const bool moves = static_cast<ir::MemoryKind>(kind) == ir::MemoryKind::activations;
    at(cost.bytes, moves ? ir::MemoryKind::workspace : static_cast<ir::MemoryKind>(kind)) += bytes;
    always += bytes;
  }
  for (int phase = 0; phase < static_cast<int>(program.phases.size()); ++phase) {
    if (!at(program.phases, phase).is_pass()) continue;
    const planner::BytesByKind held = holdings.in_phase(phase);
    cost.transient =
        std::max(cost.transient, std::accumulate(held.begin(), held.end(), 0.0) - always - left[phase]);
  }
  cost.transient += static_cast<double>(program.workspace_bytes);
}

// Adds bytes in an arena, with slots of registers as in ProgramBuilder and places as in plan_memory.
void add_bytes(const ir::Program& program, const std::vector<bool>& read_elsewhere, StageCost& cost) {
  const auto kind_of = [&](int actor) { return program.phase_of(at(program.actors, actor)).kind; };
  std::vector<bool> for_backward(program.registers.size()), for_weight = for_backward;
  bool splits = false;
  for (size_t a = 0; a < program.actors.size(); ++a)
    for (const ir::Input& input : program.actors[a].inputs) {
      const ir::PhaseKind kind = kind_of(static_cast<int>(a));
      splits |= kind == ir::PhaseKind::weight;
      if (input.program < 0 && is_in_backward(kind)) at(for_backward, input.reg) = true;
      if (input.program < 0 && kind == ir::PhaseKind::weight) at(for_weight, input.reg) = true;
    }
  const std::vector<bool> shares = planner::shares_memory(program);
  double places = 0;
  for (size_t r = 0; r < program.registers.size(); ++r) {
    const ir::Register& reg = program.registers[r];
    if (shares[r]) continue;
    const auto bytes = static_cast<double>(reg.bytes), all = bytes * reg.count;
    places += all;
    if (reg.memory != ir::MemoryKind::activations && reg.memory != ir::MemoryKind::workspace) {
      at(cost.bytes, reg.memory) += all;
      continue;
    }
    const ir::PhaseKind made_in = kind_of(reg.producer);
    const bool from_forward = made_in == ir::PhaseKind::forward && for_backward[r];
    const bool kept = from_forward || (made_in == ir::PhaseKind::backward && for_weight[r]);
    const bool comes = ir::arrives_ahead(at(program.actors, reg.producer));
    double& keeps = !from_forward              ? cost.to_weight
                    : splits && !for_weight[r] ? cost.to_backward
                                               : at(cost.bytes, ir::MemoryKind::activations);
    if (kept) keeps += bytes;
    double beside = kept ? 0 : all;
    if (comes) beside = kept ? bytes : 2 * bytes;
    if (!comes && !kept && read_elsewhere[r]) beside = 2 * bytes;
    at(cost.bytes, ir::MemoryKind::workspace) += beside;
  }
  cost.transient = static_cast<double>(program.arena_bytes) - places;
}

// Seconds of forward and backward passes; weight: of the second part of `backward`.
struct Passes {
  double forward = 0, backward = 0, weight = 0;
};

Passes pass_seconds(const ir::Program& program, const std::vector<double>& seconds) {
  Passes sum;
  for (int phase = 0; phase < static_cast<int>(program.phases.size()); ++phase) {
    const ir::PhaseKind kind = at(program.phases, phase).kind;
    if (kind == ir::PhaseKind::forward) sum.forward += phase_seconds(program, phase, seconds);
    if (is_in_backward(kind)) sum.backward += phase_seconds(program, phase, seconds);
    if (kind == ir::PhaseKind::weight) sum.weight += phase_seconds(program, phase, seconds);
  }
  return sum;
}

}  // namespace

Experts experts_in(const planner::LaidOut& laid) {
  Experts experts;
  const std::vector<ir::ParameterKind> kinds = ir::parameter_kinds(laid.graph);
  for (size_t t = 0; t < kinds.size(); ++t)
    if (kinds[t] == ir::ParameterKind::experts) experts[laid.graph.tensors[t].name] = false;
  const int cp = laid.mesh.dim(planner::MeshDim::cp);
  for (size_t t = 0; cp >= 0 && t < laid.graph.tensors.size(); ++t) {
    const ir::Tensor& tensor = laid.graph.tensors[t];
    if (tensor.role != ir::Role::gradient) continue;
    const auto expert = experts.find(std::string(ir::base_name(tensor.name)));
    if (expert != experts.end() && at(laid.layouts.stored[t], cp).is_split()) expert->second = true;
  }
  return experts;
}

std::vector<std::vector<bool>> read_elsewhere(const ir::Plan& plan) {
  std::vector<std::vector<bool>> result;
  for (const ir::Program& program : plan.programs) result.emplace_back(program.registers.size());
  for (const ir::Program& program : plan.programs)
    for (const ir::Actor& actor : program.actors)
      for (const ir::Input& input : actor.inputs)
        if (input.program >= 0) at(at(result, input.program), input.reg) = true;
  return result;
}

StageCost stage_cost(const ir::Plan& plan, int program_at, const backends::Framework& framework,
                     const ActTimes& times, const std::vector<bool>& read_elsewhere, const Experts& experts) {
  const ir::Program& program = at(plan.programs, program_at);
  const auto& [seconds, alone, launches, least] = times;
  StageCost cost;
  const auto kind_of = [&](int phase) { return at(program.phases, phase).kind; };
  const Passes passes = pass_seconds(program, seconds);
  cost.forward = passes.forward, cost.backward = passes.backward, cost.weight = passes.weight;
  const auto updates = [&](const ir::Actor& a) { return kind_of(a.phase) == ir::PhaseKind::update; };
  cost.update = state_time(program, seconds, alone, updates);
  cost.updating = state_time(program, alone, alone, updates);
  cost.accumulate =
      state_time(program, alone, alone, [](const ir::Actor& a) { return a.is(ir::OpKind::accumulate); });
  for (size_t a = 0; a < program.actors.size(); ++a)
    if (program.actors[a].is(ir::OpKind::accumulate)) cost.accumulate_launches += launches[a];
  cost.before_parameters = before_parameters(program, alone);
  cost.lead = pass_seconds(program, alone).backward - pass_seconds(program, launches).backward;
  cost.computing =
      computing(program, alone, [](ir::PhaseKind kind) { return kind != ir::PhaseKind::update; });
  cost.forward_computing =
      computing(program, alone, [](ir::PhaseKind kind) { return kind == ir::PhaseKind::forward; });
  for (int phase = 0; phase < static_cast<int>(program.phases.size()); ++phase) {
    if (kind_of(phase) == ir::PhaseKind::update) continue;
    const double waits = waiting_seconds(program, phase, least);
    cost.waiting += waits;
    if (kind_of(phase) == ir::PhaseKind::forward) cost.forward_waiting += waits;
  }
  add_elements(program, framework.apart_elements, experts, cost);
  if (framework.allocator)
    add_given_bytes(plan, program_at, cost);
  else
    add_bytes(program, read_elsewhere, cost);
  return cost;
}

void note_slower(const ir::Program& program, const std::vector<double>& seconds, double times,
                 StageCost& cost) {
  const Passes passes = pass_seconds(program, seconds);
  cost.forward_kernels = (passes.forward - cost.forward) / (times - 1);
  cost.backward_kernels = (passes.backward - cost.backward) / (times - 1);
  cost.weight_kernels = (passes.weight - cost.weight) / (times - 1);
}

}  // namespace boxcar::search
