#include "cli/advice_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "cli/search_report.h"
#include "ir/units.h"
#include "planner/search/fitting.h"
#include "sim/simulate.h"

namespace boxcar::cli {

std::string advice_text(const planner::ResolvedJob& job, const backends::Cluster& described) {
  std::vector<std::string> ways;
  for (const search::Alternative& way : search::ways_to_fit(job, described, sim::act_seconds))
    ways.push_back(fmt::format("{} ({})", change_text(way),
                               ir::format_bytes(static_cast<double>(way.candidate.peak_bytes))));
  if (ways.empty())
    return "; no change of one key or two fits, nor do more GPUs alone; `boxcar search` changes all keys "
           "together";
  const std::string last = ways.back();
  ways.pop_back();
  return fmt::format("; it would fit {}{}{}", fmt::join(ways, ", "), ways.empty() ? "" : " or ", last);
}

}  // namespace boxcar::cli
