#include "planner/estimate/estimate.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "ir/derived_name.h"
#include "ir/ops/updates.h"
#include "ir/parameter_kinds.h"
#include "planner/arena.h"
#include "planner/estimate/layout_request.h"
#include "planner/estimate/phase_walks.h"
#include "planner/estimate/placed_probe.h"
#include "planner/estimate/slow_stages.h"
#include "planner/holdings.h"
#include "planner/laid_out.h"
#include "planner/solve/cost.h"
#include "planner/training_graph.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/models/slowest.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;
using planner::Mesh;
using planner::MeshDim;

bool is_kernel(const ir::Program& program, const ir::Actor& actor) {
  return at(program.queues, actor.queue).kind == ir::QueueKind::compute && actor.comm < 0;
}

// Layers of the probe's stages, for each kind of layers.
const std::vector<int> stages_of_a_kind{1, 1, 2, 1};

// The cost of a layer does not depend on the places of its stage and replicas, nor on the sharding of states:
// estimates add these. All other hints count.
Hints of_a_layer(Hints h) {
  h.dp = h.ep, h.pp = h.virtual_stages = 1;
  h.stage_layers.clear();
  h.zero = h.fsdp_group = 0;
  h.schedule =
      planner::splits_backward(h.schedule.kind) ? planner::Schedule::zb_h1 : planner::PipelineSchedule();
  h.mesh_order = planner::usual_mesh_order;
  h.stage_order.clear();
  return h;
}

// The job of the small model for a key.
planner::ResolvedJob probe_job(Job probe, const CostKey& key, const std::vector<int>& stage_layers,
                               int micro_batches) {
  Hints& h = probe.parallel;
  h = key.hints;
  probe.train.recompute = key.recompute;
  probe.model.layers() = std::accumulate(stage_layers.begin(), stage_layers.end(), 0);
  if (ir::models::decoder_layers(probe.model) > 0)
    probe.model->decoder_layers = probe.model.layers() / 2;
  else if (ir::models::first_layers(probe.model) > 0)
    probe.model->dense_layers = probe.model.layers() / 2;
  h.pp = static_cast<int>(stage_layers.size());
  h.stage_layers = stage_layers;
  probe.train.recompute_layers.clear();
  probe.train.recompute_others = ir::Recompute::none;
  probe.gpus = h.dp * h.pp * h.tp * h.cp;
  probe.global_batch = int64_t{micro_batches} * h.micro_batch * h.dp;
  const int nodes = (probe.gpus + probe.cluster.node.gpus - 1) / probe.cluster.node.gpus;
  probe.cluster.nodes = std::max(probe.cluster.nodes, nodes);
  return planner::resolve(std::move(probe));
}

// By name of an experts' parameter, which is also that of its registers: whether ranks of context parallelism
// each make the gradients of different experts.
using Experts = std::map<std::string, bool>;

Experts experts_in(const planner::LaidOut& laid) {
  Experts experts;
  const std::vector<ir::ParameterKind> kinds = ir::parameter_kinds(laid.graph);
  for (size_t t = 0; t < kinds.size(); ++t)
    if (kinds[t] == ir::ParameterKind::experts) experts[laid.graph.tensors[t].name] = false;
  const int cp = laid.mesh.dim(MeshDim::cp);
  for (size_t t = 0; cp >= 0 && t < laid.graph.tensors.size(); ++t) {
    const ir::Tensor& tensor = laid.graph.tensors[t];
    if (tensor.role != ir::Role::gradient) continue;
    const auto expert = experts.find(std::string(ir::base_name(tensor.name)));
    if (expert != experts.end() && at(laid.layouts.stored[t], cp).is_split()) expert->second = true;
  }
  return experts;
}

void add_elements(const ir::Program& program, const Experts& experts, StageCost& cost) {
  for (const ir::Actor& actor : program.actors) {
    const auto updates = ir::updates_of(actor.op, actor.attrs);
    for (size_t t = 0; updates && t < updates->tensors; ++t) {
      const ir::Register& weight = at(program.registers, actor.inputs[updates->input(t, 0)].reg);
      const auto elements = static_cast<double>(weight.type.elements());
      cost.elements += elements;
      const auto expert = experts.find(weight.name);
      if (expert == experts.end()) continue;
      cost.expert_elements += elements;
      if (expert->second) cost.cp_made_elements += elements;
    }
  }
}

// Time of kernels on the compute queue for which `asked` holds. A kernel over empty tensors waits equally
// long for its launch, and then takes as long as the program's fastest kernel. An op that only changes a
// shape takes no time. `alone`: times if launched in time.
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

// By program and register: whether other programs read it.
std::vector<std::vector<bool>> read_elsewhere(const ir::Plan& plan) {
  std::vector<std::vector<bool>> result;
  for (const ir::Program& program : plan.programs) result.emplace_back(program.registers.size());
  for (const ir::Program& program : plan.programs)
    for (const ir::Actor& actor : program.actors)
      for (const ir::Input& input : actor.inputs)
        if (input.program >= 0) at(at(result, input.program), input.reg) = true;
  return result;
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
    const ir::ActorKind made = at(program.actors, reg.producer).kind;
    const ir::PhaseKind made_in = kind_of(reg.producer);
    const bool from_forward = made_in == ir::PhaseKind::forward && for_backward[r];
    const bool kept = from_forward || (made_in == ir::PhaseKind::backward && for_weight[r]);
    const bool comes = made == ir::ActorKind::pull || made == ir::ActorKind::copy;
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

// By act, in s: on the cluster; if kernels are launched in time; only the launches, on the host; and if
// kernels are launched in time and no other group's traffic shares the NICs, which is the least that an act
// takes.
struct ActTimes {
  std::vector<double> seconds, alone, launches, least;
};

StageCost stage_cost(const ir::Plan& plan, int program_at, bool allocates, const ActTimes& times,
                     const std::vector<bool>& read_elsewhere, const Experts& experts) {
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
  add_elements(program, experts, cost);
  if (allocates)
    add_given_bytes(plan, program_at, cost);
  else
    add_bytes(program, read_elsewhere, cost);
  return cost;
}

// `seconds`: times of acts if kernels take `times` as long.
void note_slower(const ir::Program& program, const std::vector<double>& seconds, double times,
                 StageCost& cost) {
  const Passes passes = pass_seconds(program, seconds);
  cost.forward_kernels = (passes.forward - cost.forward) / (times - 1);
  cost.backward_kernels = (passes.backward - cost.backward) / (times - 1);
  cost.weight_kernels = (passes.weight - cost.weight) / (times - 1);
}

// Times of acts of the stage whose first class is `first`, without collectives with other stages.
std::vector<double> inside(const ir::Plan& plan, size_t first, size_t classes, std::vector<double> seconds) {
  std::set<int> devices;
  for (size_t cls = first; cls < first + classes; ++cls)
    devices.insert(plan.classes[cls].devices.begin(), plan.classes[cls].devices.end());
  const auto crosses = [&](const ir::Comm& comm) {
    for (const std::vector<int>& group : comm.groups) {
      const auto in = std::count_if(group.begin(), group.end(), [&](int d) { return devices.contains(d); });
      if (in > 0 && in < std::ssize(group)) return true;
    }
    return false;
  };
  std::vector<bool> leaves;
  for (const ir::Comm& comm : plan.comms) leaves.push_back(crosses(comm));
  const ir::Program& program = at(plan.programs, plan.classes[first].program);
  for (size_t a = 0; a < seconds.size(); ++a)
    if (const int comm = program.actors[a].comm; comm >= 0 && at(leaves, comm)) seconds[a] = 0;
  return seconds;
}

// f applied to every number of a and b that adds up over layers; the transient of a.
template <typename F>
StageCost combine(const StageCost& a, const StageCost& b, const F& f) {
  StageCost c{f(a.forward, b.forward),
              f(a.backward, b.backward),
              f(a.weight, b.weight),
              f(a.forward_kernels, b.forward_kernels),
              f(a.backward_kernels, b.backward_kernels),
              f(a.weight_kernels, b.weight_kernels),
              {f(a.update.whole, b.update.whole), f(a.update.least, b.update.least)},
              {f(a.updating.whole, b.updating.whole), f(a.updating.least, b.updating.least)},
              {f(a.accumulate.whole, b.accumulate.whole), f(a.accumulate.least, b.accumulate.least)},
              f(a.accumulate_launches, b.accumulate_launches),
              f(a.lead, b.lead),
              f(a.computing, b.computing),
              f(a.forward_computing, b.forward_computing),
              f(a.waiting, b.waiting),
              f(a.forward_waiting, b.forward_waiting),
              f(a.elements, b.elements),
              f(a.expert_elements, b.expert_elements),
              f(a.cp_made_elements, b.cp_made_elements),
              0,
              {},
              f(a.to_backward, b.to_backward),
              f(a.to_weight, b.to_weight),
              a.transient};
  for (size_t kind = 0; kind < c.bytes.size(); ++kind) c.bytes[kind] = f(a.bytes[kind], b.bytes[kind]);
  return c;
}

StageCost less(const StageCost& a, const StageCost& b) {
  return combine(a, b, [](double x, double y) { return x - y; });
}

StageCost plus(const StageCost& a, const StageCost& b) {
  StageCost sum = combine(a, b, [](double x, double y) { return x + y; });
  sum.transient = std::max(a.transient, b.transient);
  return sum;
}

double pulled_forward(const ir::Program& program) {
  double bytes = 0;
  for (const ir::Actor& actor : program.actors)
    if (actor.kind == ir::ActorKind::pull && program.phase_of(actor).kind == ir::PhaseKind::forward)
      bytes += static_cast<double>(actor.comm_bytes);
  return bytes;
}

// Each stage's cost, from its first class.
using Stages = std::vector<StageCost>;

// A model's cost from four stages with 1, 1, 2 and 1 times `period` layers.
ModelCost cost_of_layers(const StageCost* stages, int period) {
  ModelCost cost;
  const StageCost some = less(stages[2], stages[1]);
  cost.joint = less(stages[1], some);
  cost.first = less(stages[0], stages[1]);
  cost.last = less(stages[3], stages[1]);
  // A lead that the host wins in the head does not count in layers (sim/host_time.h).
  cost.joint.lead = cost.first.lead = cost.last.lead = 0;
  cost.layer = combine(some, some, [&](double a, double) { return a / period; });
  cost.layer.transient = stages[1].transient;
  return cost;
}

// A cost by layer, each on its own stage. Bytes that stay, other than those kept by micro-batches, count once
// on a stage.
ModelCost cost_of_each(Stages stages) {
  ModelCost cost;
  for (StageCost& stage : stages)
    stage.transient += std::exchange(at(stage.bytes, ir::MemoryKind::workspace), 0);
  cost.layers = std::move(stages);
  return cost;
}

// The share of `use` that belongs to its table of `elements` elements, without positions or a last norm.
TiedUse tied_use(int64_t layer, const StageCost& use, double elements) {
  TiedUse tied{static_cast<int>(layer), {}};
  if (use.elements <= 0) return tied;
  const double part = std::min(1.0, elements / use.elements);
  tied.states.update = {part * use.update.whole, part * use.update.least};
  tied.states.accumulate = {part * use.accumulate.whole, part * use.accumulate.least};
  tied.states.elements = part * use.elements;
  tied.states.transient = use.transient;
  for (const ir::MemoryKind kind :
       {ir::MemoryKind::parameters, ir::MemoryKind::gradients, ir::MemoryKind::optimizer})
    at(tied.states.bytes, kind) = part * at(use.bytes, kind);
  return tied;
}

// The layers of the whole model, from both halves of the probe: encoder and decoder, or layers without and
// with experts.
ModelCost of_two_kinds(const Stages& stages, const std::vector<double>& boundaries, const Job& job) {
  const size_t half = stages_of_a_kind.size();
  const auto period = static_cast<int>(ir::models::layer_period(job.model));
  const ModelCost front = cost_of_layers(stages.data(), period), back = cost_of_layers(&stages[half], period);
  const int64_t layers = job.model.layers(), first = ir::models::first_layers(job.model);
  ModelCost cost;
  for (int64_t l = 0; l < layers; ++l) {
    const ModelCost& side = l < first ? front : back;
    cost.layers.push_back(side.layer);
    cost.joints.push_back(side.joint);
    if (l == 0 || l == first) cost.layers.back() = plus(cost.layers.back(), side.first);
    if (l + 1 == first || l + 1 == layers) cost.layers.back() = plus(cost.layers.back(), side.last);
    if (l + 1 < layers)
      cost.boundaries.push_back(boundaries[l + 1 < first ? 0 : l + 1 == first ? half - 1 : half]);
  }
  return cost;
}

}  // namespace

StageCost StageCost::slowed(double times) const {
  StageCost cost = *this;
  cost.forward += (times - 1) * forward_kernels;
  cost.backward += (times - 1) * backward_kernels;
  cost.weight += (times - 1) * weight_kernels;
  cost.lead += (times - 1) * backward_kernels;
  for (StateTime* state : {&cost.update, &cost.updating, &cost.accumulate})
    state->whole *= times, state->least *= times;
  cost.computing *= times;
  cost.forward_computing *= times;
  return cost;
}

namespace {

// Devices from a rank to the next along a dimension, at most a node's GPUs; 0 for one rank.
std::array<int, 3> strides_on(const Mesh& mesh, int node) {
  const auto stride = [&](MeshDim along) {
    const int dim = mesh.dim(along);
    return dim < 0 ? 0 : std::min(node, at(mesh.strides, dim));
  };
  return {stride(MeshDim::tp), stride(MeshDim::cp), stride(MeshDim::ep)};
}

}  // namespace

CostKey cost_key(const Job& job) {
  const Mesh mesh = planner::mesh_of(job.parallel);
  return {of_a_layer(job.parallel), job.train.recompute, strides_on(mesh, job.cluster.node.gpus),
          neighbours_of(job, mesh)};
}

struct Measuring::Probe {
  CostKey key{};  // without strides and neighbours
  Job job;
  ir::Plan plan;
  Experts experts;
};

Measuring::Measuring(Job job, ActSeconds seconds, std::shared_ptr<Graphs> graphs)
    : job_(std::move(job)), seconds_(std::move(seconds)), graphs_(std::move(graphs)) {}
Measuring::~Measuring() = default;

const Measuring::Probe& Measuring::probe_of(CostKey key) {
  key.strides = {};
  key.neighbours = {};
  if (last_ && last_->key == key) return *last_;
  last_.reset();
  const bool differ = ir::models::layers_differ(job_.model);
  std::vector<int> stages = stages_of_a_kind;
  for (int& layers : stages) layers *= static_cast<int>(ir::models::layer_period(job_.model));
  if (ir::models::first_layers(job_.model) > 0)
    for (const int kind : std::vector<int>(stages)) stages.push_back(kind);
  if (differ) stages.assign(static_cast<size_t>(job_.model.layers()), 1);
  const int micro_batches = differ || job_.train.sparse_tables ? 1 : 2;
  const planner::ResolvedJob small = probe_job(job_, key, stages, micro_batches);
  planner::Choose choose;
  if (needs_layouts(small)) choose = chooser(small, {.enough = 0.01}, nullptr);
  const planner::LaidOut laid = graphs_->lay_out(small, choose);
  last_ = std::make_unique<Probe>(Probe{key, small, planner::compile(laid), experts_in(laid)});
  return *last_;
}

ModelCost Measuring::of(const CostKey& key) {
  const Probe& probe = probe_of(key);
  const Job& job = job_;
  const int node = job.cluster.node.gpus;
  Mesh mesh = planner::mesh_of(probe.job.parallel);
  std::optional<PlacedProbe> elsewhere;
  if (strides_on(mesh, node) != key.strides) {
    elsewhere = {probe.plan, probe.job.cluster};
    const Mesh usual = std::exchange(mesh, placed_mesh(mesh, key, node));
    place_probe(*elsewhere, usual, mesh, job.gpus);
  }
  const ir::Plan& plan = elsewhere ? elsewhere->plan : probe.plan;
  backends::Cluster cluster = elsewhere ? elsewhere->cluster : probe.job.cluster;
  const double unshared = cluster.node.nic_bandwidth;
  cluster.node.nic_bandwidth /= nic_sharing(groups_on_nic(cluster.node, mesh), key.neighbours);
  // The probe waits for the slowest of the job's devices; with one device there is no slowest.
  if (plan.devices > 1)
    cluster.device->speed_spread *= sim::slowest_of(job.gpus) / sim::slowest_of(plan.devices);
  const double slowest = slowest_device(job);
  cluster.slowdown.clear();
  backends::Cluster slow = cluster;  // every device is as slow as the slowest
  if (slowest > 1)
    for (int device = 0; device < plan.devices; ++device) slow.slowdown[device] = slowest;
  backends::Cluster ahead = cluster;  // no kernel waits for its launch
  ahead.node.host_per_op = 0;
  backends::Cluster least = ahead;
  least.node.nic_bandwidth = unshared;
  constexpr double slow_host = 1e6;  // so slow that a pass takes only the time of its launches
  backends::Cluster launching = cluster;
  launching.node.host_per_op *= slow_host;
  const size_t count = probe.job.parallel.stage_layers.size(), classes = plan.classes.size() / count;
  const auto program = [&](size_t cls) -> const ir::Program& {
    return at(plan.programs, plan.classes[cls].program);
  };
  Stages stages;
  std::vector<double> boundaries;
  const std::vector<std::vector<bool>> elsewhere_read = read_elsewhere(plan);
  double before = 0;
  BehindBoundary behind;
  for (size_t stage = 0; stage < count; ++stage) {
    const size_t cls = stage * classes;
    const auto seconds_on = [&](const backends::Cluster& on) {
      return inside(plan, cls, classes, seconds_(plan, on, static_cast<int>(cls)));
    };
    ActTimes times{seconds_on(cluster), seconds_on(ahead), seconds_on(launching), {}};
    times.least = cluster.node.nic_bandwidth == unshared ? times.alone : seconds_on(least);
    for (double& launch : times.launches) launch /= slow_host;
    stages.push_back(stage_cost(plan, plan.classes[cls].program, cluster.framework->allocator.has_value(),
                                times, at(elsewhere_read, plan.classes[cls].program), probe.experts));
    if (slowest > 1) note_slower(program(cls), seconds_on(slow), slowest, stages.back());
    if (stage > 0) boundaries.push_back(pulled_forward(program(cls)));
    if (stage == 1) before = before_gradient(program(cls), times.seconds);
    if (stage > 0) {
      const BehindBoundary own = behind_boundary(plan, plan.classes[cls].program, times.least);
      behind = {std::max(behind.kernels, own.kernels), std::max(behind.waiting, own.waiting)};
    }
  }
  const int64_t decoder = ir::models::decoder_layers(job.model);
  const bool decodes = decoder > 0;
  const bool differs = ir::models::first_layers(job.model) > 0;
  ModelCost cost = differs ? of_two_kinds(stages, boundaries, job)
                   : ir::models::layers_differ(job.model)
                       ? cost_of_each(stages)
                       : cost_of_layers(stages.data(), static_cast<int>(ir::models::layer_period(job.model)));
  if (cost.layers.empty()) {
    cost.boundary_bytes = boundaries.front(), cost.before_gradient = before;
    cost.behind_boundary = behind.kernels, cost.waiting_behind_boundary = behind.waiting;
  } else if (!differs)
    cost.boundaries = std::move(boundaries);
  if (ir::models::has_tied_head(job.model)) {
    const auto elements =
        static_cast<double>(ir::models::padded_vocab(*planner::padded_model(probe.job).transformer()) *
                            job.model->hidden / key.hints.tp);
    const size_t half = stages_of_a_kind.size();
    cost.tied.push_back(tied_use(-1, less(stages[0], stages[1]), elements));
    if (decodes)
      cost.tied.push_back(
          tied_use(job.model.layers() - decoder, less(stages[half], stages[half + 1]), elements));
    cost.tied.push_back(
        tied_use(job.model.layers(), less(stages.back(), stages[stages.size() - 3]), elements));
  }
  return cost;
}

ModelCost measure(const Job& job, const ActSeconds& seconds) {
  return Measuring(job, seconds).of(cost_key(job));
}

}  // namespace boxcar::search
