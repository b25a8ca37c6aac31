#include "sim/host_time.h"

#include <algorithm>
#include <map>

#include "backends/machines/framework.h"
#include "sbp/at.h"
namespace boxcar::sim {
namespace {

// The acts of one layer in one phase.
struct Part {
  int kernels = 0;
  double launches = 0, busy = 0;
};
using Parts = std::map<std::pair<int, int>, Part>;  // by phase, layer

std::pair<int, int> part_of(const ir::Actor& actor) { return {actor.phase, actor.layer}; }

bool pulls_in_a_pass(const ir::Program& program) {
  return std::any_of(program.actors.begin(), program.actors.end(), [&](const ir::Actor& actor) {
    return actor.kind == ir::ActorKind::pull && program.phase_of(actor).is_pass();
  });
}

// By phase: its first kernel.
std::map<int, size_t> first_kernels(const ir::Program& program, const std::vector<HostAct>& acts) {
  std::map<int, size_t> first;
  for (size_t a = 0; a < acts.size(); ++a)
    if (acts[a].delays) first.emplace(program.actors[a].phase, a);
  return first;
}

Parts parts_of(const ir::Program& program, const std::vector<HostAct>& acts) {
  Parts parts;
  for (size_t a = 0; a < acts.size(); ++a) {
    Part& part = parts[part_of(program.actors[a])];
    part.busy += acts[a].advances;
    part.launches += acts[a].launches;
    part.kernels += acts[a].delays ? 1 : 0;
  }
  return parts;
}

// Passes, and where one process launches for all devices the update too, tensor by tensor.
bool is_launch_bound(const ir::PlanPhase& phase, const backends::Framework& framework) {
  return phase.is_pass() ||
         (phase.kind == ir::PhaseKind::update && framework.one_process && !framework.update_in_one);
}

}  // namespace

std::vector<double> host_delays(const ir::Program& program, const backends::Cluster& cluster,
                                const std::vector<HostAct>& acts, int turns) {
  std::vector<double> delays(acts.size());
  const double launch = turns * cluster.node.host_per_op / cluster.node.host_speed;
  if (launch <= 0) return delays;
  const std::map<int, size_t> first = first_kernels(program, acts);
  // The framework's work once a pass comes with the layer of the pass's first kernel. In a pipeline the host
  // has waited for a transfer before, and has no lead then.
  const bool in_pipeline = pulls_in_a_pass(program);
  Parts parts = parts_of(program, acts);
  if (!in_pipeline)
    for (const auto& [phase, kernel] : first)
      parts[part_of(program.actors[kernel])].launches += cluster.framework->pass_launches;
  for (size_t a = 0; a < acts.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (!acts[a].delays || !is_launch_bound(program.phase_of(actor), cluster.framework)) continue;
    const Part& part = parts.at(part_of(actor));
    delays[a] = std::max(0.0, part.launches * launch - part.busy) / part.kernels + acts[a].waits * launch;
  }
  if (!in_pipeline) return delays;
  for (const auto& [index, kernel] : first)  // but in the pass that no stage waits for
    if (const ir::PlanPhase& phase = at(program.phases, index);
        phase.is_pass() && phase.kind != ir::PhaseKind::weight)
      delays[kernel] += cluster.framework->pass_launches * launch;
  return delays;
}

}  // namespace boxcar::sim
