#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "sbp/error.h"
#include "sim/durations.h"
#include "sim/fold.h"
#include "sim/machine.h"
#include "sim/platform.h"
#include "sim/wiring.h"

namespace boxcar::sim {
namespace {

double wall_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void check_fits(const ir::Plan& plan, const backends::Cluster& cluster) {
  if (plan.devices <= cluster.devices()) return;
  throw Error::cannot_run(plan.name, fmt::format("the plan needs {} devices, {} has {}", plan.devices,
                                                 cluster.name, cluster.devices()));
}

// No class holds more than its device or its arena has.
void check_memory(const ir::Plan& plan, const backends::Cluster& cluster, const ClassResult& result) {
  const ir::Program& program = plan.programs[static_cast<size_t>(result.program)];
  int64_t device = cluster.device.memory_bytes;
  int64_t bytes = result.peak_bytes + program.workspace_bytes;
  if (device > 0 && bytes > device) {
    throw Error::cannot_run(program.name,
                            fmt::format("holds {} bytes in registers and workspace, {} more than the {} "
                                        "of {}",
                                        bytes, bytes - device, device, cluster.device.name));
  }
  if (program.arena_bytes > 0 && bytes > program.arena_bytes) {
    throw Error::cannot_run(program.name,
                            fmt::format("holds {} bytes in registers and workspace, its arena has {}", bytes,
                                        program.arena_bytes));
  }
}

ClassResult measure(const Wiring& wiring, Meter& meter, int unit_index, int step) {
  const Unit& unit = wiring.units[static_cast<size_t>(unit_index)];
  const StepMeter& measured = meter.step(unit_index, step);
  ClassResult result;
  result.program = unit.program;
  result.devices = wiring.plan->classes[static_cast<size_t>(unit.cls)].devices;
  for (Ticks busy : measured.busy) result.queue_busy.push_back(to_seconds(busy));
  if (unit.compute_queue >= 0) {
    result.busy = result.queue_busy[static_cast<size_t>(unit.compute_queue - unit.first_queue)];
    result.span = measured.first < 0 ? 0 : to_seconds(measured.last - measured.first);
    result.exposed_comm = to_seconds(measured.exposed);
  }
  result.peak_bytes = meter.peak(unit_index);
  return result;
}

// Acts of the steps that are over, by start.
std::vector<Act> timeline_of(const Wiring& wiring, const Machine& machine, int steps) {
  std::vector<Act> timeline = machine.timeline();
  std::erase_if(timeline, [&](const Act& act) {
    const Unit& unit = wiring.units[static_cast<size_t>(act.cls)];
    return act.index >= steps * wiring.actors[static_cast<size_t>(unit.first_actor + act.actor)].per_step;
  });
  std::stable_sort(timeline.begin(), timeline.end(), [](const Act& a, const Act& b) {
    return std::tie(a.start, a.cls, a.actor, a.index) < std::tie(b.start, b.cls, b.actor, b.index);
  });
  return timeline;
}

}  // namespace

Result simulate(const ir::Plan& plan, const backends::Cluster& cluster, const Options& options) {
  double wall = wall_now();
  check_fits(plan, cluster);
  Platform platform(cluster);
  ir::Plan folded = options.fold ? refine(plan, cluster) : unfold(plan);
  Costing costing(folded, cluster);
  std::vector<std::vector<ActCost>> costs;
  for (const ir::RankClass& cls : folded.classes)
    costs.push_back(costing.of(cls.program, cls.devices.front()));
  std::vector<Merging> mergings = options.merge ? merge(folded) : no_merging(folded);
  Wiring wiring = wire(folded, cluster, platform, costs, mergings);
  Machine machine(wiring, cluster.device.overlap_slowdown, options.timeline);
  machine.run(options.steps);

  Result result;
  for (Ticks end : machine.step_ends()) result.step_ends.push_back(to_seconds(end));
  if (!result.step_ends.empty()) {
    result.first_step_seconds = result.step_ends.front();
    size_t last = result.step_ends.size() - 1;
    result.step_seconds =
        last == 0 ? result.step_ends[0] : result.step_ends[last] - result.step_ends[last - 1];
  }
  auto step = static_cast<int>(result.step_ends.size()) - 1;
  for (int unit = 0; unit < static_cast<int>(wiring.units.size()); ++unit) {
    result.classes.push_back(measure(wiring, machine.meter(), unit, std::max(step, 0)));
    check_memory(plan, cluster, result.classes.back());
  }
  result.timeline = timeline_of(wiring, machine, step + 1);
  result.folded = folded.devices > static_cast<int>(folded.classes.size());
  result.events = machine.events();
  result.wall_seconds = wall_now() - wall;
  return result;
}

}  // namespace boxcar::sim
