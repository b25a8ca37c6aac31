#include "sim/host_time.h"

#include <algorithm>
#include <map>

#include "backends/machines/framework.h"
#include "sbp/at.h"
#include "sim/act_view.h"

namespace boxcar::sim {
namespace {

// The acts of one layer in one phase.
struct Part {
  int kernels = 0;
  double launches = 0;
  double shortfall = 0;  // s for each kernel, by which its launches take longer than all acts
};
using Parts = std::map<std::pair<int, int>, Part>;  // by phase, layer

std::pair<int, int> part_of(const ir::Actor& actor) { return {actor.phase, actor.layer}; }

bool pulls_in_a_pass(const ir::Program& program) {
  return std::any_of(program.actors.begin(), program.actors.end(), [&](const ir::Actor& actor) {
    return actor.kind == ir::ActorKind::pull && program.phase_of(actor).is_pass();
  });
}

// By phase: its first kernel. With pulls in the phase, the first one that needs the pulled tensor: recomputed
// kernels may come before it.
std::map<int, size_t> first_kernels(const ir::Program& program, const std::vector<HostAct>& acts) {
  std::map<int, size_t> first, behind_pull;
  std::vector<bool> needs_pull(acts.size());
  for (size_t a = 0; a < acts.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    const std::vector<size_t> read = read_in_phase(program, actor);
    needs_pull[a] =
        actor.kind == ir::ActorKind::pull ||
        std::any_of(read.begin(), read.end(), [&](size_t from) -> bool { return needs_pull[from]; });
    if (acts[a].delays) (needs_pull[a] ? behind_pull : first).emplace(actor.phase, a);
  }
  for (const auto& [phase, kernel] : behind_pull) first[phase] = kernel;
  return first;
}

// Passes and, if one process launches for all devices, the update too, tensor by tensor.
bool is_launch_bound(const ir::PlanPhase& phase, const backends::Framework& framework) {
  return phase.is_pass() ||
         (phase.kind == ir::PhaseKind::update && framework.one_process && !framework.update_in_one);
}

Parts parts_of(const ir::Program& program, const backends::Framework& framework,
               const std::vector<HostAct>& acts) {
  Parts parts;
  for (size_t a = 0; a < acts.size(); ++a) {
    if (!is_launch_bound(program.phase_of(program.actors[a]), framework)) continue;
    Part& part = parts[part_of(program.actors[a])];
    part.launches += acts[a].launches;
    part.kernels += acts[a].delays ? 1 : 0;
  }
  return parts;
}

// Whether any part is shorter than its launches by more than a thousandth of them.
bool update_shortfalls(const ir::Program& program, Parts& parts, const std::vector<double>& advances,
                       double launch) {
  std::map<std::pair<int, int>, double> busy;
  for (size_t a = 0; a < advances.size(); ++a) busy[part_of(program.actors[a])] += advances[a];
  bool any = false;
  for (auto& [key, part] : parts) {
    if (part.kernels == 0) continue;
    const double missing = std::max(0.0, part.launches * launch - busy[key]);
    part.shortfall = missing / part.kernels;
    any = any || missing > 1e-3 * part.launches * launch;
  }
  return any;
}

}  // namespace

std::vector<double> host_delays(const ir::Program& program, const backends::Cluster& cluster,
                                const std::vector<HostAct>& acts, int turns, const Advances& advances) {
  std::vector<double> delays(acts.size());
  const double launch = turns * cluster.node.host_per_op / cluster.node.host_speed;
  if (launch <= 0) return delays;
  const std::map<int, size_t> first = first_kernels(program, acts);
  // The framework's launches once a pass belong to the layer of the pass's first kernel. In a pipeline the
  // host has first waited for a transfer, and has no lead then.
  const bool in_pipeline = pulls_in_a_pass(program);
  Parts parts = parts_of(program, cluster.framework, acts);
  if (!in_pipeline)
    for (const auto& [phase, kernel] : first)
      parts[part_of(program.actors[kernel])].launches += cluster.framework->pass_launches;
  const auto may_wait = [&](size_t a) {
    return acts[a].delays && is_launch_bound(program.phase_of(program.actors[a]), cluster.framework);
  };
  // A delay beside a collective hides behind it, so that parts stay shorter than their launches at first. The
  // remainder after the last round is ignored.
  constexpr int most_rounds = 8;
  for (int round = 0; round < most_rounds && update_shortfalls(program, parts, advances(delays), launch);
       ++round)
    for (size_t a = 0; a < acts.size(); ++a)
      if (may_wait(a)) delays[a] += parts.at(part_of(program.actors[a])).shortfall;
  for (size_t a = 0; a < acts.size(); ++a)
    if (may_wait(a)) delays[a] += acts[a].waits * launch;
  if (!in_pipeline) return delays;
  for (const auto& [index, kernel] : first)  // except in the pass that no stage waits for
    if (const ir::PlanPhase& phase = at(program.phases, index);
        phase.is_pass() && phase.kind != ir::PhaseKind::weight)
      delays[kernel] += cluster.framework->pass_launches * launch;
  return delays;
}

}  // namespace boxcar::sim
