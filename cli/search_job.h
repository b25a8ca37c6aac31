// A job that is searched, as far as keys leave it open.
//
//   OpenJob open = open_job(given, "megatron");
//   open.options.described = as_described(open.request);
//   search::search(open.request.job, open.options, simulating_oracle());
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/job.h"
#include "planner/search/search.h"

namespace boxcar::cli {

struct OpenJob {
  Request request;
  GivenKeys given;                // with what the framework leaves of them, without ranges
  search::SearchOptions options;  // its keys: which are given, their ranges and rules
};

// The job as far as it is given. `max_stack`: the framework that has to run it, empty for any. Throws Error
// (bad input) as open_request, restrict_to and check_effects do.
OpenJob open_job(const GivenKeys& given, const std::string& max_stack);

// The flag --max-stack. `when`: "with --search: ", or nothing.
void add_max_stack(CLI::App& command, std::string& max_stack, const std::string& when = "");

// The note that steps are simulated as another framework runs them than plans are kept within, because nobody
// named one; else nothing.
void tell_stack(const GivenKeys& given, const std::string& max_stack);

// Paths of the keys that are searched.
std::vector<std::string> open_keys(const GivenKeys& given);

// The job's cluster with whole nodes, of which it may have a part of one.
backends::Cluster as_described(const Request& request);

// Candidates are simulated; a step's record is its sim::Result.
search::Oracle simulating_oracle();

}  // namespace boxcar::cli
