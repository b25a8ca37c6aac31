// Results of a simulated job, as a table for people or a document for programs.
#pragma once

#include <map>
#include <string>

#include "sim/explain/report.h"

namespace boxcar::cli {

// The verdict, all numbers, and last the resolved configuration.
std::string to_table(const explain::Report& report);
std::string to_json(const explain::Report& report);  // one document, schema_version 1, SI units in key names
// The same for a job with something too large to be counted: the stage's peak is a lower bound for one
// device, and unknown values are null or missing.
std::string to_json(const std::map<std::string, std::string>& configuration, const planner::Job& job,
                    const planner::TooLarge& error);

// Parts of the table, for others that begin or end like it.
std::string result_text(const explain::Report& report);         // "\nresult\n...\ncommunication\n..."
std::string numbers_text(const explain::Report& report);        // with memory by stage, plan and simulator
std::string configuration_text(const explain::Report& report);  // "\nconfiguration\n..."

}  // namespace boxcar::cli
