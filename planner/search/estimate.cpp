#include "planner/search/estimate.h"

#include <algorithm>
#include <string_view>

#include "planner/verify.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Job;

size_t at(int index) { return static_cast<size_t>(index); }

Job probe_job(const Job& job, int layers) {
  Job probe = job;
  planner::Hints& h = probe.parallel;
  probe.model.layers = 2 * layers;
  h.dp = h.ep;
  h.pp = 2;
  h.virtual_stages = 1;
  h.stage_layers.clear();
  h.zero = h.fsdp_group = 0;
  h.schedule = "1f1b";
  probe.train.recompute_layers = -1;
  probe.gpus = h.dp * h.pp * h.tp * h.cp;
  probe.global_batch = int64_t{2} * h.micro_batch * h.dp;
  const int nodes = (probe.gpus + probe.cluster.node.gpus - 1) / probe.cluster.node.gpus;
  probe.cluster.nodes = std::max(probe.cluster.nodes, nodes);
  return planner::resolve(probe);
}

bool is_update(const ir::Actor& actor) {
  return actor.op == "adam" || actor.op == "sgd" || actor.op == "momentum";
}

double update_elements(const ir::Program& program) {
  double elements = 0;
  for (const ir::Actor& actor : program.actors)
    if (is_update(actor))
      elements += static_cast<double>(program.registers[at(actor.inputs[0].reg)].type.elements());
  return elements;
}

StageCost stage_cost(const ir::Plan& plan, int cls, const std::vector<double>& seconds) {
  const ir::Program& program = plan.programs[at(plan.classes[at(cls)].program)];
  StageCost cost;
  for (int phase = 0; phase < static_cast<int>(program.phases.size()); ++phase) {
    const char kind = program.phases[at(phase)][0];
    double& sum = kind == 'F' ? cost.forward : kind == 'B' ? cost.backward : cost.update;
    sum += phase_seconds(program, phase, seconds);
  }
  cost.elements = update_elements(program);
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
              0,
              {}};
  for (size_t kind = 0; kind < c.bytes.size(); ++kind) c.bytes[kind] = f(a.bytes[kind], b.bytes[kind]);
  return c;
}

struct Probe {
  StageCost first, last;
  double boundary_bytes = 0;
};

Probe probe(const Job& job, int layers, const ActSeconds& seconds) {
  const Job small = probe_job(job, layers);
  const ir::Plan plan = planner::compile(small);
  Probe result;
  for (int cls = 0; cls < static_cast<int>(plan.classes.size()); ++cls) {
    const std::string& name = plan.programs[at(plan.classes[at(cls)].program)].name;
    (name == "stage0" ? result.first : result.last) =
        stage_cost(plan, cls, seconds(plan, small.cluster, cls));
  }
  for (const ir::Program& program : plan.programs)
    for (const ir::Actor& actor : program.actors)
      if (actor.kind == ir::ActorKind::pull && program.phases[at(actor.phase)][0] == 'F')
        result.boundary_bytes += static_cast<double>(actor.comm_bytes);
  return result;
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
  const Probe one = probe(job, 1, seconds), two = probe(job, 2, seconds);
  const auto less = [](double a, double b) { return std::max(0.0, a - b); };
  ModelCost cost;
  cost.layer = combine(two.last, one.last, less);
  cost.first = combine(one.first, cost.layer, less);
  cost.last = combine(one.last, cost.layer, less);
  // The first stage holds two micro-batches.
  const auto kind = static_cast<size_t>(ir::MemoryKind::activations);
  cost.first.bytes[kind] = less(one.first.bytes[kind], 2 * cost.layer.bytes[kind]);
  cost.boundary_bytes = one.boundary_bytes;
  return cost;
}

}  // namespace boxcar::search
