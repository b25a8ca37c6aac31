#include "planner/search/estimate.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "ir/models/conv_net.h"
#include "planner/laid_out.h"
#include "planner/search/layout_request.h"
#include "planner/verify.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;
using planner::Mesh;

size_t at(int index) { return static_cast<size_t>(index); }

Job probe_job(const Job& job, const std::vector<int>& stage_layers, int micro_batches) {
  Job probe = job;
  Hints& h = probe.parallel;
  probe.model.layers = std::accumulate(stage_layers.begin(), stage_layers.end(), 0);
  h.dp = h.ep;
  h.pp = static_cast<int>(stage_layers.size());
  h.virtual_stages = 1;
  h.stage_layers = stage_layers;
  h.zero = h.fsdp_group = 0;
  h.schedule = "1f1b";
  h.mesh_order = Hints().mesh_order;
  probe.train.recompute_layers = -1;
  probe.gpus = h.dp * h.pp * h.tp * h.cp;
  probe.global_batch = int64_t{micro_batches} * h.micro_batch * h.dp;
  const int nodes = (probe.gpus + probe.cluster.node.gpus - 1) / probe.cluster.node.gpus;
  probe.cluster.nodes = std::max(probe.cluster.nodes, nodes);
  return planner::resolve(probe);
}

// A probe's plan and the cluster that its acts' times are asked on.
struct Probe {
  ir::Plan plan;
  backends::Cluster cluster;
};

// Where groups inside a stage reach other nodes, those of a node share its NICs: each has a part of them.
void share_nics(backends::Node& node, const Mesh& mesh) {
  double times = 1;
  for (size_t d = 0; d < mesh.dims(); ++d) {
    if (mesh.names[d] == "dp" || mesh.names[d] == "replica") continue;
    const int64_t beside = std::max<int64_t>(1, node.gpus / mesh.strides[d]);  // of a group, on a node
    if (beside >= mesh.extents[d]) continue;
    times = std::max(
        times, static_cast<double>(node.gpus) / static_cast<double>(std::max<int64_t>(beside, node.nics)));
  }
  node.nic_bandwidth /= times;
}

// The probe's devices where those of the job's stages are, each stage beginning on a node of its own.
void stand_as(Probe& probe, const Mesh& from, const Mesh& to, int gpus) {
  const int node = probe.cluster.node.gpus, apart = (gpus + node - 1) / node * node;
  const int stages = probe.plan.devices / from.devices();
  Mesh mesh = from;
  mesh.stage_stride = apart;
  for (size_t d = 0; d < mesh.dims(); ++d)
    mesh.strides[d] = to.dim(mesh.names[d]) < 0 ? 1 : to.strides[at(to.dim(mesh.names[d]))];
  const auto place = [&](int& device) {
    device = mesh.device(device % from.devices(), device / from.devices());
  };
  probe.plan.devices = stages * apart;
  for (ir::RankClass& cls : probe.plan.classes) {
    for (int& device : cls.devices) place(device);
    std::sort(cls.devices.begin(), cls.devices.end());
  }
  for (ir::Comm& comm : probe.plan.comms)
    for (std::vector<int>& group : comm.groups)
      for (int& device : group) place(device);
  for (ir::Peers& peers : probe.plan.peers) {
    const std::vector<int> sources = std::exchange(peers.source, std::vector<int>(at(stages * apart), -1));
    for (int device = 0; device < static_cast<int>(sources.size()); ++device) {
      int there = device, source = sources[at(device)];
      place(there);
      if (source >= 0) place(source);
      peers.source[at(there)] = source;
    }
  }
  probe.cluster.nodes = std::max(probe.cluster.nodes, stages * apart / node);
  share_nics(probe.cluster.node, mesh);
}

Probe probe_of(const Job& job, const Job& small, ir::Plan plan) {
  Probe probe{std::move(plan), small.cluster};
  if (job.parallel.mesh_order != small.parallel.mesh_order)
    stand_as(probe, planner::mesh_of(small.parallel), planner::mesh_of(job.parallel), job.gpus);
  return probe;
}

bool is_update(const ir::Actor& actor) {
  return actor.op == "adam" || actor.op == "sgd" || actor.op == "momentum";
}

// Weights of experts have an axis for them in front.
void add_elements(const ir::Program& program, StageCost& cost) {
  for (const ir::Actor& actor : program.actors) {
    if (!is_update(actor)) continue;
    const ir::TensorType& type = program.registers[at(actor.inputs[0].reg)].type;
    const auto elements = static_cast<double>(type.elements());
    cost.elements += elements;
    if (type.shape.size() == 3) cost.expert_elements += elements;
  }
}

StageCost stage_cost(const ir::Plan& plan, int cls, const std::vector<double>& seconds) {
  const ir::Program& program = plan.programs[at(plan.classes[at(cls)].program)];
  StageCost cost;
  for (int phase = 0; phase < static_cast<int>(program.phases.size()); ++phase) {
    const char kind = program.phases[at(phase)][0];
    double& sum = kind == 'F' ? cost.forward : kind == 'B' || kind == 'W' ? cost.backward : cost.update;
    sum += phase_seconds(program, phase, seconds);
  }
  add_elements(program, cost);
  const planner::MemoryUse memory = planner::memory_use(plan)[at(cls)];
  for (size_t kind = 0; kind < cost.bytes.size(); ++kind)
    cost.bytes[kind] = static_cast<double>(memory.by_kind[kind]);
  return cost;
}

// f applied to every number of a and b.
template <typename F>
StageCost combine(const StageCost& a, const StageCost& b, const F& f) {
  StageCost c{f(a.forward, b.forward),
              f(a.backward, b.backward),
              f(a.update, b.update),
              f(a.elements, b.elements),
              f(a.expert_elements, b.expert_elements),
              0,
              0,
              {}};
  for (size_t kind = 0; kind < c.bytes.size(); ++kind) c.bytes[kind] = f(a.bytes[kind], b.bytes[kind]);
  return c;
}

double pulled_forward(const ir::Program& program) {
  double bytes = 0;
  for (const ir::Actor& actor : program.actors)
    if (actor.kind == ir::ActorKind::pull && program.phases[at(actor.phase)][0] == 'F')
      bytes += static_cast<double>(actor.comm_bytes);
  return bytes;
}

// By layer, each on a stage of its own. What a second micro-batch under way adds is what each one keeps.
ModelCost measure_each(const Job& job, const ActSeconds& seconds) {
  const auto layers = static_cast<int>(job.model.layers);
  const auto plan_of = [&](const Job& apart) {
    planner::Choose choose;
    if (needs_layouts(apart)) choose = chooser(apart, {}, nullptr);
    return planner::compile(planner::lay_out(apart, choose), apart);
  };
  const std::vector<int> each(at(layers), 1);
  Job one = probe_job(job, each, 1), two = probe_job(job, each, 2);
  two.parallel.schedule = "gpipe";
  const Probe probe = probe_of(job, one, plan_of(one));
  const ir::Plan &plan = probe.plan, more = plan_of(two);
  const std::vector<planner::MemoryUse> with_more = planner::memory_use(more);
  const size_t classes = plan.classes.size() / at(layers);
  const auto kind = static_cast<size_t>(ir::MemoryKind::activations);
  ModelCost cost;
  for (int l = 0; l < layers; ++l) {  // of each stage the first class
    const auto cls = static_cast<int>(at(l) * classes);
    StageCost layer = stage_cost(plan, cls, seconds(plan, probe.cluster, cls));
    const double kept = static_cast<double>(with_more[at(cls)].by_kind[kind]) - layer.bytes[kind];
    layer.transient = layer.bytes[kind] - kept;
    layer.bytes[kind] = kept;
    cost.layers.push_back(layer);
    if (l > 0) cost.boundaries.push_back(pulled_forward(plan.programs[at(plan.classes[at(cls)].program)]));
  }
  return cost;
}

}  // namespace

double phase_seconds(const ir::Program& program, int phase, const std::vector<double>& seconds) {
  std::vector<double> ready(program.registers.size()), queue(program.queues.size());
  double end = 0;
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (actor.phase != phase) continue;
    double& now = queue[at(actor.queue)];
    for (const ir::Input& input : actor.inputs)
      if (input.program < 0) now = std::max(now, ready[at(input.reg)]);
    if (actor.kind != ir::ActorKind::pull) now += seconds[a];
    for (int reg : actor.outputs) ready[at(reg)] = now;
    end = std::max(end, now);
  }
  return end;
}

ModelCost measure(const Job& job, const ActSeconds& seconds) {
  if (ir::models::is_conv_net(job.model.family)) return measure_each(job, seconds);
  const auto period = static_cast<int>(job.model.expert_every);
  const Job small = probe_job(job, {period, period, 2 * period, period}, 2);
  const Probe probe = probe_of(job, small, planner::compile(small));
  const ir::Plan& plan = probe.plan;
  const size_t classes = plan.classes.size() / 4;
  std::array<StageCost, 4> stages;  // of each the first class
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const auto cls = static_cast<int>(stage * classes);
    stages[stage] = stage_cost(plan, cls, seconds(plan, probe.cluster, cls));
  }
  ModelCost cost;
  cost.boundary_bytes = pulled_forward(plan.programs[at(plan.classes[classes].program)]);
  const auto less = [](double a, double b) { return std::max(0.0, a - b); };
  StageCost some = combine(stages[2], stages[1], less);
  // All stages but the last hold two micro-batches.
  const auto kind = static_cast<size_t>(ir::MemoryKind::activations);
  const double both = some.bytes[kind];
  cost.first = combine(stages[0], some, less);
  some.bytes[kind] = both / 2;
  cost.last = combine(stages[3], some, less);
  cost.layer = combine(some, some, [&](double a, double) { return a / period; });
  return cost;
}

}  // namespace boxcar::search
