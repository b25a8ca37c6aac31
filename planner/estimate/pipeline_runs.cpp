#include "planner/estimate/pipeline_runs.h"

#include <algorithm>
#include <cstddef>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Pipeline;

constexpr int followed = 4;  // times as many micro-batches as stages

// The progress of one stage through its order.
struct Walk {
  std::vector<ir::PhaseRun> order;
  size_t next = 0;
  double now = 0;   // when its last run ended
  double sent = 0;  // when its last transfer ended
};

class Runs {
 public:
  Runs(const Pipeline& pipeline, const std::vector<RunTimes>& times)
      : p_(pipeline), times_(times), forward_(times.size() * batches(), -1), backward_(forward_) {
    for (int s = 0; s < p_.stages; ++s) walks_.push_back({planner::stage_order(p_, s)});
  }

  std::vector<double> ends() {
    for (bool any = true, up = true; any; up = !up) {
      any = false;
      for (int i = 0; i < p_.stages; ++i) {
        const int stage = up ? i : p_.stages - 1 - i;
        while (run_next(stage)) any = true;
      }
    }
    std::vector<double> all;
    for (const Walk& walk : walks_) {
      if (walk.next < walk.order.size()) throw Error::fault("pipeline", "its stages wait for each other");
      all.push_back(walk.now);
    }
    return all;
  }

 private:
  size_t batches() const { return static_cast<size_t>(p_.micro_batches); }
  double& of(std::vector<double>& arrivals, int part, int micro_batch) {
    return arrivals[static_cast<size_t>(part) * batches() + static_cast<size_t>(micro_batch)];
  }

  // False if the run's inputs are not made yet, or if no run is left.
  bool run_next(int stage) {
    Walk& walk = at(walks_, stage);
    if (walk.next == walk.order.size()) return false;
    const auto [phase, micro_batch] = walk.order[walk.next];
    const ir::PhaseKind kind = planner::kind_of_phase(p_, phase);
    const int part = planner::part_places(p_).part(stage, planner::chunk_of_phase(p_, phase));
    const RunTimes& own = at(times_, part);
    const bool last = part + 1 == static_cast<int>(times_.size());
    if (kind == ir::PhaseKind::weight) {
      walk.now += own.weight;
    } else if (kind == ir::PhaseKind::forward) {
      const double input = part > 0 ? of(forward_, part - 1, micro_batch) : 0;
      if (input < 0) return false;
      walk.now = std::max(walk.now + own.before_input, input) + own.forward - own.before_input;
      of(forward_, part, micro_batch) = last ? walk.now : sent(walk, walk.now, own.send);
    } else {
      const double gradient = last ? 0 : of(backward_, part + 1, micro_batch);
      if (gradient < 0) return false;
      walk.now = std::max(walk.now + own.before_gradient, gradient) + own.backward - own.before_gradient;
      if (part > 0)
        of(backward_, part, micro_batch) =
            sent(walk, walk.now - own.behind_gradient, at(times_, part - 1).send);
    }
    ++walk.next;
    return true;
  }

  // The end of a transfer out of a stage; without one, its results stay there.
  static double sent(Walk& walk, double made, double seconds) {
    if (seconds == 0) return made;
    return walk.sent = std::max(walk.sent, made) + seconds;
  }

  const Pipeline& p_;
  const std::vector<RunTimes>& times_;
  // By part and micro-batch: when its results have reached their reader; -1: not yet.
  std::vector<double> forward_, backward_;
  std::vector<Walk> walks_;
};

}  // namespace

std::vector<double> runs_ends(const Pipeline& pipeline, const std::vector<RunTimes>& times) {
  const int groups_left = pipeline.micro_batches / pipeline.stages - followed;
  if (groups_left <= 0) return Runs(pipeline, times).ends();
  Pipeline some = pipeline;
  some.micro_batches -= groups_left * pipeline.stages;
  std::vector<double> ends = Runs(some, times).ends();
  some.micro_batches -= pipeline.stages;
  const std::vector<double> before = Runs(some, times).ends();
  for (size_t s = 0; s < ends.size(); ++s) ends[s] += groups_left * (ends[s] - before[s]);
  return ends;
}

double runs_seconds(const Pipeline& pipeline, const std::vector<RunTimes>& times) {
  return std::ranges::max(runs_ends(pipeline, times));
}

}  // namespace boxcar::search
