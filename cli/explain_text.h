// Explanations of a plan, as text for people and as documents for programs.
//
//   boxcar explain best.txt --op h3.attn.qkv
//
//   tp, 2 devices
//       signature                                     kernel    boxing  what moves
//     * B, S(1) -> S(2)                             422.7 us         -
//       S(2), S(0) -> P(sum)                        436.1 us  543.5 us  ...
//     the boxing of %h3.attn.qkv decided: with S(2), S(0) -> P(sum), the next, it goes from P(sum) to S(2)
//     (...)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/explain/op_explanation.h"
#include "sim/explain/plan_explanation.h"
#include "sim/explain/sensitivity.h"
#include "sim/explain/tensor_explanation.h"

namespace boxcar::cli {

// `slow_stages`: a line for people; empty if no device is slow.
std::string to_text(const explain::PlanExplanation& explanation, const std::string& slow_stages);
std::string to_text(const explain::OpExplanation& explanation);
std::string to_text(const explain::TensorExplanation& explanation);
// `step_seconds`: of the plan on the unchanged cluster.
std::string to_text(const std::vector<explain::Sensitivity>& rows, double step_seconds);

nlohmann::ordered_json to_json(const explain::PlanExplanation& explanation);
nlohmann::ordered_json to_json(const explain::OpExplanation& explanation);
nlohmann::ordered_json to_json(const explain::TensorExplanation& explanation);
nlohmann::ordered_json to_json(const std::vector<explain::Sensitivity>& rows);

}  // namespace boxcar::cli
