#include "planner/estimate/fewest_recomputed.h"

#include <algorithm>
#include <numeric>

#include "planner/estimate/slow_stages.h"
#include "planner/resolve.h"
#include "planner/solve/cost.h"
#include "sbp/at.h"

namespace boxcar::search {
namespace {

using planner::Job;

// From counts by stage to counts by virtual stage.
std::vector<int> in_front(const Job& job, std::vector<int> counts) {
  const planner::PartPlaces places = planner::part_places(job.parallel);
  std::vector<int> result;
  for (const int layers : job.parallel.stage_layers) {
    int& left = at(counts, places.stage(static_cast<int>(result.size())));
    result.push_back(std::min(left, layers));
    left -= result.back();
  }
  return result;
}

}  // namespace

// Bisects all stages at once. The first recomputed layer may need more memory than it frees, so a single one
// is not tried.
std::optional<Job> with_fewest_recomputed(Job job, const KindCosts& costs, const InFlight& in_flight,
                                          const std::vector<double>& bytes) {
  std::vector<int> most = planner::layers_by_stage(job.parallel), least(most.size(), 1);
  const auto fit = [&](const std::vector<int>& counts) {
    job.train.recompute_layers = in_front(job, counts);
    const std::vector<double> needed = bytes_by_stage(job, costs, in_flight);
    std::vector<char> result;
    for (size_t s = 0; s < needed.size(); ++s) result.push_back(needed[s] <= bytes[s]);
    return result;
  };
  const std::vector<char> all = fit(most), none = fit(std::vector<int>(most.size(), 0));
  for (size_t s = 0; s < most.size(); ++s) {
    if (none[s]) least[s] = most[s] = 0;
    if (!none[s] && !all[s]) return std::nullopt;
  }
  while (least != most) {
    std::vector<int> middle;
    for (size_t s = 0; s < most.size(); ++s) middle.push_back((least[s] + most[s]) / 2);
    const std::vector<char> fits = fit(middle);
    for (size_t s = 0; s < most.size(); ++s) {
      if (least[s] == most[s]) continue;
      if (fits[s])
        most[s] = middle[s];
      else
        least[s] = middle[s] + 1;
    }
  }
  job.train.recompute_layers = in_front(job, most);
  if (most == planner::layers_by_stage(job.parallel)) {
    job.train.recompute_layers.clear();
    job.train.recompute_others = ir::Recompute::none;
  }
  return job;
}

// Gives each layer to the stage that is then fastest. This chooses the least of the times of stages with 1,
// 2, 3, ... layers, so no other cut has a faster slowest stage. Ties go to the last stage, because the first
// stages hold the most micro-batches.
std::vector<int> level_layers(const Job& job, const KindCosts& costs, const InFlight& in_flight,
                              const std::vector<double>& bytes) {
  const int stages = job.parallel.pp;
  const std::vector<double> slowness = slowness_by_stage(job.parallel, job.cluster);
  struct Stage {
    int layers = 0, recomputed = 0;  // with one more layer
    double seconds = 0;
  };
  std::vector<Stage> next(static_cast<size_t>(stages));
  const auto add_layer = [&](int s) {
    Stage& stage = at(next, s);
    for (++stage.layers; stage.recomputed <= stage.layers; ++stage.recomputed) {
      const StageNeeds needs =
          needs_of(job, costs, in_flight, s, stage.layers, stage.recomputed, at(slowness, s));
      stage.seconds = needs.seconds;
      if (needs.bytes <= at(bytes, s)) return;
    }
    stage.seconds = infinity;
  };
  for (int s = 0; s < stages; ++s) add_layer(s);
  const auto lacks = [&](int s) { return at(next, s).layers <= planner::least_layers(job.model, s, stages); };
  for (int64_t left = job.model.layers(); left > 0; --left) {
    bool any_lacks = false;
    for (int s = 0; s < stages; ++s) any_lacks |= lacks(s);
    int fastest = -1;
    for (int s = 0; s < stages; ++s) {
      const Stage& stage = at(next, s);
      if (any_lacks && !lacks(s)) continue;
      if (fastest < 0 || stage.seconds <= at(next, fastest).seconds) fastest = s;
    }
    if (at(next, fastest).seconds == infinity) return {};
    add_layer(fastest);
  }
  std::vector<int> result;
  for (const Stage& stage : next) result.push_back(stage.layers - 1);
  return result;
}

}  // namespace boxcar::search
