// `boxcar search --sensitivity`: the range of each constant in which the found plan stays the best, as text
// and JSON.
//
//   constant              from      to  beyond
//   flops                 0.5x   1.62x  at 2x 3.1 % better: --dp 4 --tp 4
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/explain/stays_best.h"

namespace boxcar::cli {

// `ours`: the job of the found plan, whose flags a better plan may have too, with other layouts.
std::string to_text(const std::vector<explain::StaysBest>& rows, const planner::Job& ours);
nlohmann::ordered_json to_json(const std::vector<explain::StaysBest>& rows, const planner::Job& ours);

}  // namespace boxcar::cli
