#include "cli/search_sensitivity.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/machines/cluster.h"
#include "backends/machines/named_constants.h"
#include "cli/search_report.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

constexpr double least_gain = 0.005;  // below it two plans count as equally good
constexpr int halvings = 5;           // of the range in which another plan becomes better, by its logarithm

struct Contender {
  const search::Candidate& candidate;
  const ir::Plan& plan;
  const search::SearchOptions& options;

  // Seconds or a price; infinite if the constant leaves its bounds, or the step is too long.
  double value(const explain::Constant& constant, double factor) const {
    const std::optional<double> seconds = explain::step_with(plan, candidate.job.cluster, constant, factor);
    if (!seconds || *seconds > options.max_step_seconds) return search::infinity;
    return search::value_of(options.goal, candidate.job, *seconds, 0);
  }
};

// The factor at which the rival becomes the better one, between 1 and `end`.
double crossing(const Contender& ours, const Contender& rival, const explain::Constant& constant,
                double end) {
  double better = 0, worse = std::log2(end);  // for ours
  for (int i = 0; i < halvings; ++i) {
    const double middle = (better + worse) / 2, factor = std::exp2(middle);
    (ours.value(constant, factor) <= rival.value(constant, factor) ? better : worse) = middle;
  }
  return std::exp2(better);
}

RangeEnd end_of(const Contender& ours, const search::Outcome& outcome, const explain::Constant& constant,
                double factor) {
  const double value = ours.value(constant, factor);
  if (outcome.best.empty()) return {factor, ""};
  const search::Candidate& found = outcome.best.front();
  const double gain = 1 - search::simulated(ours.options.goal, found) / value;
  if (gain < least_gain) return {factor, ""};
  search::Candidate described = found;  // on the cluster without the change; the factor is a power of two
  backends::scale(described.job.cluster, constant.name, 1 / factor);
  const ir::Plan plan = found.plan ? *found.plan : search::plan_of(found);
  std::string flags = flags_of(found.job);
  if (flags == flags_of(ours.candidate.job)) flags += ", other layouts";
  return {crossing(ours, {described, plan, ours.options}, constant, factor), flags,
          std::isfinite(value) ? std::optional(gain) : std::nullopt};
}

std::string better_text(const RangeEnd& end) {
  return end.better_part ? fmt::format("{:.1f} % better", 100 * *end.better_part)
                         : "too slow, in place of it";
}

std::string factor_text(double factor) { return fmt::format("{:.3g}x", factor); }

}  // namespace

std::vector<StaysBest> stays_best(const search::Candidate& best, const ir::Plan& plan,
                                  const search::SearchOptions& options, const SearchAgain& again) {
  const Contender ours{best, plan, options};
  std::vector<StaysBest> rows;
  for (const explain::Constant& constant : explain::constants_of(best.job.cluster)) {
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

std::string to_text(const std::vector<StaysBest>& rows) {
  std::string text = fmt::format("  {:<18} {:>7} {:>7}  {}\n", "constant", "from", "to", "beyond");
  for (const StaysBest& row : rows) {
    std::string beyond;
    for (const auto& [end, factor] : {std::pair{&row.half, 0.5}, std::pair{&row.twice, 2.0}})
      if (*end && !(*end)->better.empty())
        beyond += fmt::format("{}at {} {}: {}", beyond.empty() ? "" : "; ", factor_text(factor),
                              better_text(**end), (*end)->better);
    const auto end_text = [](const std::optional<RangeEnd>& end) {
      return end ? factor_text(end->factor) : std::string("-");
    };
    std::string line = fmt::format("  {:<18} {:>7} {:>7}  {}", row.constant.name, end_text(row.half),
                                   end_text(row.twice), beyond);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

ordered_json to_json(const std::vector<StaysBest>& rows) {
  const auto end_json = [](const std::optional<RangeEnd>& end) -> ordered_json {
    if (!end) return nullptr;
    ordered_json doc{{"factor", end->factor}, {"better", nullptr}, {"better_part", nullptr}};
    if (!end->better.empty()) doc["better"] = end->better;
    if (end->better_part) doc["better_part"] = *end->better_part;
    return doc;
  };
  ordered_json all = ordered_json::array();
  for (const StaysBest& row : rows)
    all.push_back({{"name", row.constant.name},
                   {"what", row.constant.what},
                   {"half", end_json(row.half)},
                   {"double", end_json(row.twice)}});
  return all;
}

}  // namespace boxcar::cli
