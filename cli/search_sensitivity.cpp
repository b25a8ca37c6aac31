#include "cli/search_sensitivity.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/search_report.h"

namespace boxcar::cli {
namespace {

using explain::RangeEnd;
using explain::StaysBest;
using nlohmann::ordered_json;

// Flags of the better plan.
std::string flags_at(const RangeEnd& end, const planner::Job& ours) {
  const std::string flags = flags_of(*end.better);
  return flags == flags_of(ours) ? flags + ", other layouts" : flags;
}

std::string better_text(const RangeEnd& end) {
  return end.better_part ? fmt::format("{:.1f} % better", 100 * *end.better_part)
                         : "too slow, in place of it";
}

std::string factor_text(double factor) { return fmt::format("{:.3g}x", factor); }

}  // namespace

std::string to_text(const std::vector<StaysBest>& rows, const planner::Job& ours) {
  std::string text = fmt::format("  {:<18} {:>7} {:>7}  {}\n", "constant", "from", "to", "beyond");
  for (const StaysBest& row : rows) {
    std::string beyond;
    for (const auto& [end, factor] : {std::pair{&row.half, 0.5}, std::pair{&row.twice, 2.0}})
      if (*end && (*end)->better)
        beyond += fmt::format("{}at {} {}: {}", beyond.empty() ? "" : "; ", factor_text(factor),
                              better_text(**end), flags_at(**end, ours));
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

ordered_json to_json(const std::vector<StaysBest>& rows, const planner::Job& ours) {
  const auto end_json = [&](const std::optional<RangeEnd>& end) -> ordered_json {
    if (!end) return nullptr;
    ordered_json doc{{"factor", end->factor}, {"better", nullptr}, {"better_part", nullptr}};
    if (end->better) doc["better"] = flags_at(*end, ours);
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
