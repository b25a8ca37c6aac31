// A job that is searched, as far as its keys are open.
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
  GivenKeys given;                // as restricted by the framework, without ranges
  search::SearchOptions options;  // its keys: which are given, their ranges and rules
};

// The job as far as it is given. `max_stack`: the framework that has to be able to run it, empty for any.
// Throws Error (bad input) as open_request, restrict_to and check_effects do.
OpenJob open_job(const GivenKeys& given, const std::string& max_stack);

// The flag --max-stack. `when`: "with --search: ", or nothing.
void add_max_stack(CLI::App& command, std::string& max_stack, const std::string& when = "");

// Tells the user if steps are simulated as one framework runs them and plans are restricted to another that
// nobody named.
void tell_stack(const GivenKeys& given, const std::string& max_stack);

// Paths of the keys that are searched.
std::vector<std::string> open_keys(const GivenKeys& given);

// The job's cluster with whole nodes; the job may have a part of one.
backends::Cluster as_described(const Request& request);

// Candidates are simulated; a step's record is its sim::Result.
search::Oracle simulating_oracle();

}  // namespace boxcar::cli
