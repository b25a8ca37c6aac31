#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "sbp/at.h"
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

// No class holds more than its arena has, nor its device. If an allocator gives memory, the order of the
// schedule has decided whether it fits (planner/holdings.h): queues that run ahead may hold more here.
void check_memory(const ir::Plan& plan, const backends::Cluster& cluster, const ClassResult& result) {
  const ir::Program& program = at(plan.programs, result.program);
  int64_t device = cluster.device->memory_bytes;
  int64_t bytes = result.peak_bytes + program.workspace_bytes;
  if (device > 0 && bytes > device && !cluster.framework->allocator) {
    throw Error::cannot_run(program.name,
                            fmt::format("holds {} bytes in registers and workspace, {} more than the {} "
                                        "of {}",
                                        bytes, bytes - device, device, cluster.device->name));
  }
  if (program.arena_bytes > 0 && bytes > program.arena_bytes) {
    throw Error::cannot_run(program.name,
                            fmt::format("holds {} bytes in registers and workspace, its arena has {}", bytes,
                                        program.arena_bytes));
  }
}

ClassResult measure(const Wiring& wiring, Meter& meter, int unit_index, int step) {
  const Unit& unit = at(wiring.units, unit_index);
  const StepMeter& measured = meter.step(unit_index, step);
  ClassResult result;
  result.program = unit.program;
  result.devices = at(wiring.plan->classes, unit.cls).devices;
  for (Ticks busy : measured.busy) result.queue_busy.push_back(to_seconds(busy));
  if (unit.compute_queue >= 0) {
    result.busy = at(result.queue_busy, unit.compute_queue - unit.first_queue);
    result.span = measured.first < 0 ? 0 : to_seconds(measured.last - measured.first);
    result.exposed_comm = to_seconds(measured.exposed);
  }
  result.peak_bytes = meter.peak(unit_index);
  return result;
}

// The plan with other classes; none if they are its own.
std::optional<ir::Plan> with_classes(const ir::Plan& plan, const std::vector<ir::RankClass>& classes) {
  if (classes == plan.classes) return std::nullopt;
  std::optional<ir::Plan> changed = plan;
  changed->classes = classes;
  return changed;
}

// By unit: whether its acts are kept.
std::vector<char> kept(const Wiring& wiring, const Options& options) {
  if (!options.timeline) return std::vector<char>(wiring.units.size(), 0);
  int64_t acts = 0;
  for (const WiredActor& actor : wiring.actors) acts += actor.per_step;
  std::vector<char> result;
  std::set<int> seen;
  for (const Unit& unit : wiring.units) {
    const bool first = seen.insert(unit.program).second;
    result.push_back(first || acts <= options.timeline_acts);
  }
  return result;
}

// Continues a regime of `period` steps until `steps`: their ends and, if kept, their acts, by arithmetic.
class Continuation {
 public:
  Continuation(const Wiring& wiring, const Machine& machine, int steps)
      : wiring_(wiring),
        machine_(machine),
        ends_(machine.step_ends()),
        known_(static_cast<int>(ends_.size())),
        period_(machine.period()),
        steps_(steps > 0 ? steps : known_) {
    ends_.resize(std::min(ends_.size(), static_cast<size_t>(steps_)));
    if (known_ > steps_) known_ = steps_;
    for (int step = known_; step < steps_; ++step) ends_.push_back(end(step - period_) + length());
  }

  const std::vector<Ticks>& ends() const { return ends_; }

  // The index of a step that was run and is like the last one.
  int last_like() const {
    int beyond = steps_ - known_;
    return beyond == 0 ? known_ - 1 : steps_ - 1 - (beyond + period_ - 1) / period_ * period_;
  }

  // Mean time of a step: over a period if one is known, otherwise over the later half of the steps.
  double step_seconds() const {
    if (steps_ == 0) return 0;
    int last = steps_ - 1;
    int over = period_ > 0 && period_ <= last ? period_ : last >= 4 ? last / 2 : std::min(last, 1);
    if (over == 0) return to_seconds(ends_.front());
    return to_seconds(end(last) - end(last - over)) / over;
  }

  // All acts of the steps asked for, by actor and index. Acts of the last period end again a period later.
  std::vector<Act> timeline(std::vector<Act> acts) const {
    double period = steps_ > known_ ? to_seconds(length()) : 0;
    for (int times = 1; known_ + (times - 1) * period_ < steps_; ++times) {
      for (size_t i = machine_.timeline_mark(known_ - 1 - period_); i < machine_.timeline_mark(known_ - 1);
           ++i) {
        Act act = acts[i];
        act.index += times * period_ * wired(act).per_step;
        act.start += times * period;
        act.end += times * period;
        acts.push_back(act);
      }
    }
    std::vector<size_t> starts(wiring_.actors.size() + 1);  // by actor
    for (const Act& act : acts)
      if (asked(act)) ++starts[number(act) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    std::vector<Act> sorted(starts.back());
    for (const Act& act : acts)  // those of one actor are in order
      if (asked(act)) sorted[starts[number(act)]++] = act;
    return sorted;
  }

 private:
  Ticks end(int step) const { return at(ends_, step); }
  Ticks length() const { return end(known_ - 1) - end(known_ - 1 - period_); }
  size_t number(const Act& act) const {
    return static_cast<size_t>(at(wiring_.units, act.cls).first_actor + act.actor);
  }
  const WiredActor& wired(const Act& act) const { return wiring_.actors[number(act)]; }
  bool asked(const Act& act) const { return act.index < steps_ * wired(act).per_step; }

  const Wiring& wiring_;
  const Machine& machine_;
  std::vector<Ticks> ends_;
  int known_, period_, steps_;
};

}  // namespace

Result simulate(const ir::Plan& plan, const backends::Cluster& cluster, const Options& options) {
  double wall = wall_now();
  check_fits(plan, cluster);
  Platform platform(cluster);
  const bool cores = cluster.node.cores > 0;  // every act waits for its share of them by itself
  const std::vector<ir::RankClass> classes =
      options.fold && !options.every_flow && !cores ? refine(plan, cluster) : unfold(plan);
  const std::optional<ir::Plan> changed = with_classes(plan, classes);
  const ir::Plan& folded = changed ? *changed : plan;
  ActCosts act_costs(folded, cluster);
  std::vector<std::vector<ActCost>> costs;
  for (const ir::RankClass& cls : folded.classes)
    costs.push_back(act_costs.of(cls.program, cls.devices.front()));
  std::vector<Merging> mergings = options.merge && !cores ? merge(folded) : no_merging(folded);
  const bool gradients_stay = cluster.framework->allocator && cluster.framework->allocator->gradients_stay;
  Wiring wiring = wire(folded, platform, costs, mergings, options.every_flow, gradients_stay);
  const double slowdown = cores ? 0 : cluster.device->overlap_slowdown;
  Machine machine(wiring, slowdown, kept(wiring, options), options.periodic);
  machine.run(options.steps, options.look);

  Result result;
  Continuation steps(wiring, machine, options.steps);
  for (Ticks end : steps.ends()) result.step_ends.push_back(to_seconds(end));
  if (!result.step_ends.empty()) result.first_step_seconds = result.step_ends.front();
  result.step_seconds = steps.step_seconds();
  for (int unit = 0; unit < static_cast<int>(wiring.units.size()); ++unit) {
    result.classes.push_back(measure(wiring, machine.meter(), unit, std::max(steps.last_like(), 0)));
    check_memory(plan, cluster, result.classes.back());
  }
  result.timeline = steps.timeline(machine.take_timeline());
  result.folded = folded.devices > static_cast<int>(folded.classes.size());
  result.events = machine.events();
  result.wall_seconds = wall_now() - wall;
  return result;
}

}  // namespace boxcar::sim
