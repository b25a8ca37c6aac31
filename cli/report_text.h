// What a simulated job came to, as a table for people or a document for programs.
#pragma once

#include <map>
#include <string>

#include "sim/explain/report.h"

namespace boxcar::cli {

std::string to_table(const explain::Report& report);
std::string configuration_and_result(
    const explain::Report& report);                  // its beginning, without memory by stage
std::string to_json(const explain::Report& report);  // one document, schema_version 1, SI units in key names
// The same of a job with something too large to be counted: its stage's peak is what one device has at least,
// and what is not known is null or not there.
std::string to_json(const std::map<std::string, std::string>& configuration, const planner::Job& job,
                    const planner::TooLarge& error);

}  // namespace boxcar::cli
