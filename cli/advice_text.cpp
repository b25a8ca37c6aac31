#include "cli/advice_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "cli/search_report.h"
#include "ir/units.h"
#include "planner/search/fitting.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

// To be added to the job's own flags: dp too, which the job may have given.
std::string flags_text(const search::Alternative& way, const planner::Job& from) {
  std::vector<std::string> flags = change_flags(way);
  const planner::Job& to = way.candidate.job;
  if (way.gpus > 0) flags.push_back(fmt::format("--gpus {}", way.gpus));
  if (to.parallel.dp != from.parallel.dp) flags.push_back(fmt::format("--dp {}", to.parallel.dp));
  return fmt::format("{}", fmt::join(flags, " "));
}

}  // namespace

std::string advice_text(const planner::ResolvedJob& job, const backends::Cluster& described) {
  std::vector<std::string> ways;
  for (const search::Alternative& way : search::ways_to_fit(job, described, sim::act_seconds))
    ways.push_back(fmt::format("with {} ({})", flags_text(way, job),
                               ir::format_bytes(static_cast<double>(way.candidate.peak_bytes))));
  if (ways.empty())
    return "; no change of one key or two fits, nor do more GPUs, alone or with one key; `boxcar search` "
           "changes "
           "all keys together";
  const std::string last = ways.back();
  ways.pop_back();
  return fmt::format("; it would fit {}{}{}", fmt::join(ways, ", "), ways.empty() ? "" : " or ", last);
}

}  // namespace boxcar::cli
