// The answer to "may I run this, and how fast is it?" in three lines, which begin the report of a job.
//
//   fits      26.3 GB of 85.1 GB on stage0, 58.8 GB free
//   step      30.14 s, 22.5 to 45.7 s by published runs; 1.044e+05 tokens/s, MFU 35.2 %
//   bound by  kernels of stage7, 83.8 % of the step; waiting 14.3 %, exposed communication 1.9 %
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/explain/report.h"

namespace boxcar::cli {

// {"fits", "26.3 GB of ..."} and so on; only the first for a report that was not simulated.
std::vector<std::pair<std::string, std::string>> verdict_lines(const explain::Report& report);
std::string verdict_text(const explain::Report& report);
std::string bound_text(const explain::Report& report);  // its last line, of a simulated report
// How much a job misses and where: "does not fit: stage0 needs 90 GB of 85.1 GB, 4.9 GB too much".
std::string why_not_text(const explain::Report& report);
nlohmann::ordered_json binding_json(const explain::Report& report);
// Adds the step's range and its bound, of a simulated report.
void add_verdict(nlohmann::ordered_json& doc, const explain::Report& report);
// The keys of the error, the same wherever one is printed.
nlohmann::ordered_json error_json(const campaign::ErrorBar& bar);

}  // namespace boxcar::cli
