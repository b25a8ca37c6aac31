#include "sim/explain/stays_best.h"

#include <cmath>
#include <utility>

#include "backends/machines/cluster.h"
#include "backends/machines/named_constants.h"

namespace boxcar::explain {
namespace {

constexpr double least_gain = 0.005;  // below it two plans count as equally good
constexpr int halvings = 5;           // of the range in which another plan becomes better, by its logarithm

struct Contender {
  const search::Candidate& candidate;
  const ir::Plan& plan;
  const search::SearchOptions& options;

  // Seconds or a price; infinite if the constant leaves its bounds, or the step is too long.
  double value(const Constant& constant, double factor) const {
    const std::optional<double> seconds = step_with(plan, candidate.job.cluster, constant, factor);
    if (!seconds || *seconds > options.max_step_seconds) return search::infinity;
    return search::value_of(options.goal, candidate.job, *seconds, 0);
  }
};

// The factor at which the rival becomes the better one, between 1 and `end`.
double crossing(const Contender& ours, const Contender& rival, const Constant& constant, double end) {
  double better = 0, worse = std::log2(end);  // for ours
  for (int i = 0; i < halvings; ++i) {
    const double middle = (better + worse) / 2, factor = std::exp2(middle);
    (ours.value(constant, factor) <= rival.value(constant, factor) ? better : worse) = middle;
  }
  return std::exp2(better);
}

RangeEnd end_of(const Contender& ours, const search::Outcome& outcome, const Constant& constant,
                double factor) {
  const double value = ours.value(constant, factor);
  if (outcome.best.empty()) return {factor};
  const search::Candidate& found = outcome.best.front();
  const double gain = 1 - search::simulated(ours.options.goal, found) / value;
  if (gain < least_gain) return {factor};
  search::Candidate described = found;  // on the cluster without the change; the factor is a power of two
  backends::scale(described.job.cluster, constant.name, 1 / factor);
  const ir::Plan plan = found.plan ? *found.plan : search::plan_of(found);
  return {crossing(ours, {described, plan, ours.options}, constant, factor), found.job,
          std::isfinite(value) ? std::optional(gain) : std::nullopt};
}

}  // namespace

std::vector<StaysBest> stays_best(const search::Candidate& best, const ir::Plan& plan,
                                  const search::SearchOptions& options, const SearchAgain& again) {
  const Contender ours{best, plan, options};
  std::vector<StaysBest> rows;
  for (const Constant& constant : constants_of(plan, best.job.cluster)) {
    StaysBest row{constant, std::nullopt, std::nullopt};
    for (const auto& [end, factor] : {std::pair{&row.half, 0.5}, std::pair{&row.twice, 2.0}}) {
      backends::Cluster changed = best.job.cluster;
      if (!backends::scale(changed, constant.name, factor)) continue;
      const std::optional<search::Outcome> outcome = again(constant, factor);
      if (!outcome) return rows;
      *end = end_of(ours, *outcome, constant, factor);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace boxcar::explain
