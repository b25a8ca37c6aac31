#include "planner/estimate/estimate.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "planner/estimate/layout_request.h"
#include "planner/estimate/phase_walks.h"
#include "planner/estimate/placed_probe.h"
#include "planner/estimate/slow_stages.h"
#include "planner/estimate/stage_cost.h"
#include "planner/laid_out.h"
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

// Layers of the probe's stages, for each kind of layers.
const std::vector<int> stages_of_a_kind{1, 1, 2, 1};

// The cost of a layer does not depend on the places of its stage and replicas, nor on the sharding of states:
// estimates add these. All other hints count.
Hints of_a_layer(Hints h) {
  h.dp = planner::ep_in_dp(h), h.pp = h.virtual_stages = 1;
  h.stage_layers.clear();
  h.zero = h.fsdp_group = h.servers = 0;
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
              f(a.before_parameters, b.before_parameters),
              f(a.lead, b.lead),
              f(a.computing, b.computing),
              f(a.forward_computing, b.forward_computing),
              f(a.waiting, b.waiting),
              f(a.forward_waiting, b.forward_waiting),
              f(a.elements, b.elements),
              f(a.expert_elements, b.expert_elements),
              f(a.cp_made_elements, b.cp_made_elements),
              f(a.apart_tensors, b.apart_tensors),
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
  cost.before_parameters *= times;
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

namespace {

// The clusters on which the acts of a probe are timed, and the traffic beside them.
struct Conditions {
  backends::Cluster usual;      // no device is slow
  backends::Cluster slow;       // every device is as slow as the slowest
  backends::Cluster ahead;      // no kernel waits for its launch
  backends::Cluster launching;  // so slow a host that a pass takes only the time of its launches
  double slowest = 1;           // times as long as usual
  sim::Beside own, others;      // of groups of the same stage, and of all stages
};

constexpr double slow_host = 1e6;  // times as slow as the cluster's

// `devices`: of the probe, whose stages have this mesh on this cluster.
Conditions conditions_of(const Job& job, const CostKey& key, backends::Cluster cluster, const Mesh& mesh,
                         int devices) {
  // The probe waits for the slowest of the job's devices; with one device there is no slowest.
  if (devices > 1) cluster.device->speed_spread *= sim::slowest_of(job.gpus) / sim::slowest_of(devices);
  cluster.slowdown.clear();
  const double groups = groups_on_nic(cluster.node, mesh), of_leaf = key.neighbours.of_leaf;
  const sim::Beside own{nic_sharing(groups, {key.neighbours.stages, 0}), of_leaf};
  const sim::Beside others{nic_sharing(groups, key.neighbours), of_leaf};
  Conditions on{cluster, cluster, cluster, cluster, slowest_device(job), own, others};
  if (on.slowest > 1)
    for (int device = 0; device < devices; ++device) on.slow.slowdown[device] = on.slowest;
  on.ahead.node.host_per_op = 0;
  on.launching.node.host_per_op *= slow_host;
  return on;
}

// The cost of each stage of a probe, and how stages wait for each other (ModelCost).
struct ProbeCosts {
  Stages stages;
  std::vector<double> boundaries;
  double before_gradient = 0;
  BehindBoundary behind;
};

// `seconds`: of a class's acts on a cluster.
ProbeCosts probe_costs(const ir::Plan& plan, size_t stages, const Conditions& on, const Experts& experts,
                       const ActSeconds& seconds) {
  ProbeCosts costs;
  const size_t classes = plan.classes.size() / stages;
  const std::vector<std::vector<bool>> elsewhere = read_elsewhere(plan);
  const auto seconds_of = [&](size_t stage, const sim::Beside& others, const backends::Cluster& cluster) {
    const size_t cls = stage * classes;
    return inside(plan, cls, classes, seconds(plan, cluster, static_cast<int>(cls), others));
  };
  const auto cost_of = [&](size_t stage, const ActTimes& times) {
    const int program_at = plan.classes[stage * classes].program;
    return stage_cost(plan, program_at, on.usual.framework, times, at(elsewhere, program_at), experts);
  };
  sim::Beside others = on.others;
  if (others.on_nic > on.own.on_nic) {
    const size_t largest = stages - 2;
    const auto pass = [&](double times) {
      const std::vector<double> all = seconds_of(largest, {times * on.own.on_nic, others.of_leaf}, on.usual);
      const StageCost cost = cost_of(largest, {all, all, all, all});
      return cost.forward + cost.backward;
    };
    const double alone = pass(1), on_nic = pass(2) - alone;
    others.on_nic = on.own.on_nic * beside_computing(others.on_nic / on.own.on_nic, on_nic, alone - on_nic);
  }
  for (size_t stage = 0; stage < stages; ++stage) {
    const size_t cls = stage * classes;
    const int program_at = plan.classes[cls].program;
    const ir::Program& program = at(plan.programs, program_at);
    const auto seconds_on = [&](const backends::Cluster& cluster) {
      return seconds_of(stage, others, cluster);
    };
    ActTimes times{seconds_on(on.usual), seconds_on(on.ahead), seconds_on(on.launching), {}};
    const bool shares = others.on_nic > 1 || on.usual.fabric.oversubscription > 1;
    times.least = shares ? seconds_of(stage, {1, 0}, on.ahead) : times.alone;
    for (double& launch : times.launches) launch /= slow_host;
    costs.stages.push_back(cost_of(stage, times));
    if (on.slowest > 1) note_slower(program, seconds_on(on.slow), on.slowest, costs.stages.back());
    if (stage == 0) continue;
    costs.boundaries.push_back(pulled_forward(program));
    if (stage == 1) costs.before_gradient = before_gradient(program, times.seconds);
    const BehindBoundary own = behind_boundary(plan, program_at, times.least);
    costs.behind = {std::max(costs.behind.kernels, own.kernels), std::max(costs.behind.waiting, own.waiting)};
  }
  return costs;
}

ModelCost model_cost(ProbeCosts probe, const Job& job) {
  const auto period = static_cast<int>(ir::models::layer_period(job.model));
  if (ir::models::first_layers(job.model) > 0) return of_two_kinds(probe.stages, probe.boundaries, job);
  ModelCost cost = ir::models::layers_differ(job.model) ? cost_of_each(std::move(probe.stages))
                                                        : cost_of_layers(probe.stages.data(), period);
  if (!cost.layers.empty()) {
    cost.boundaries = std::move(probe.boundaries);
    return cost;
  }
  cost.boundary_bytes = probe.boundaries.front(), cost.before_gradient = probe.before_gradient;
  cost.behind_boundary = probe.behind.kernels, cost.waiting_behind_boundary = probe.behind.waiting;
  return cost;
}

// The uses of a tied table of `elements` elements on a device.
std::vector<TiedUse> tied_uses(const Stages& stages, const Job& job, double elements) {
  const int64_t decoder = ir::models::decoder_layers(job.model), layers = job.model.layers();
  const size_t half = stages_of_a_kind.size();
  std::vector<TiedUse> uses{tied_use(-1, less(stages[0], stages[1]), elements)};
  if (decoder > 0) uses.push_back(tied_use(layers - decoder, less(stages[half], stages[half + 1]), elements));
  uses.push_back(tied_use(layers, less(stages.back(), stages[stages.size() - 3]), elements));
  return uses;
}

}  // namespace

ModelCost Measuring::of(const CostKey& key) {
  const Probe& probe = probe_of(key);
  const int node = job_.cluster.node.gpus;
  Mesh mesh = planner::mesh_of(probe.job.parallel);
  std::optional<PlacedProbe> elsewhere;
  if (strides_on(mesh, node) != key.strides) {
    elsewhere = {probe.plan, probe.job.cluster};
    const Mesh usual = std::exchange(mesh, placed_mesh(mesh, key, node));
    place_probe(*elsewhere, usual, mesh, job_.gpus);
  }
  const ir::Plan& plan = elsewhere ? elsewhere->plan : probe.plan;
  const Conditions on =
      conditions_of(job_, key, elsewhere ? elsewhere->cluster : probe.job.cluster, mesh, plan.devices);
  ProbeCosts costs = probe_costs(plan, probe.job.parallel.stage_layers.size(), on, probe.experts, seconds_);
  std::vector<TiedUse> tied;
  if (ir::models::has_tied_head(job_.model)) {
    const auto elements =
        static_cast<double>(ir::models::padded_vocab(*planner::padded_model(probe.job).transformer()) *
                            job_.model->hidden / key.hints.tp);
    tied = tied_uses(costs.stages, job_, elements);
  }
  ModelCost cost = model_cost(std::move(costs), job_);
  cost.tied = std::move(tied);
  return cost;
}

ModelCost measure(const Job& job, const ActSeconds& seconds) {
  return Measuring(job, seconds).of(cost_key(job));
}

}  // namespace boxcar::search
