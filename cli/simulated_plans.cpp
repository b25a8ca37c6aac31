#include "cli/simulated_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <regex>

#include "ir/read_number.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

constexpr const char* simulated_section = "search.simulated.";
constexpr const char* by_hints = "by hints";
constexpr const char* found_by_search = "found";

}  // namespace

void add_labels(const std::vector<SimulatedPlan>& plans, std::map<std::string, std::string>& labels) {
  for (size_t i = 0; i < std::min(plans.size(), most_simulated_plans); ++i) {
    const SimulatedPlan& p = plans[i];
    labels[fmt::format("{}{:02}", simulated_section, i)] =
        fmt::format("{} s, {} bytes, {} GPUs, layouts {}: {}", p.step_seconds, p.peak_bytes, p.gpus,
                    p.layouts_found ? found_by_search : by_hints, p.flags);
  }
}

std::vector<SimulatedPlan> simulated_plans(const std::map<std::string, std::string>& labels) {
  static const std::regex form("([^ ]+) s, ([^ ]+) bytes, ([^ ]+) GPUs, layouts (by hints|found): (.*)");
  std::vector<SimulatedPlan> plans;
  for (auto at = labels.lower_bound(simulated_section);
       at != labels.end() && at->first.starts_with(simulated_section); ++at) {
    std::smatch part;
    const bool matches = std::regex_match(at->second, part, form);
    const auto seconds = matches ? ir::read_number<double>(part[1].str()) : std::nullopt;
    const auto bytes = matches ? ir::read_number<int64_t>(part[2].str()) : std::nullopt;
    const auto gpus = matches ? ir::read_number<int>(part[3].str()) : std::nullopt;
    if (!seconds || !bytes || !gpus)
      throw Error::input(
          "label " + at->first,
          fmt::format("got \"{}\", expected \"8.87 s, 66200000000 bytes, 512 GPUs, layouts {}: "
                      "--dp 32\"",
                      at->second, by_hints));
    plans.push_back({*seconds, *bytes, *gpus, part[4] == found_by_search, part[5]});
  }
  return plans;
}

}  // namespace boxcar::cli
