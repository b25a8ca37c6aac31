// A job that is searched, as far as keys leave it open.
//
//   const Request request = open_request(given);
//   search::SearchOptions options{.pinned = pinned_keys(given), .described = as_described(request)};
//   search::search(request.job, options, simulating_oracle());
#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/job.h"
#include "planner/search/search.h"

namespace boxcar::cli {

// Keys that a user gave, by dimension: they are not searched.
std::set<std::string> pinned_keys(const GivenKeys& given);

// Paths of the keys that are searched.
std::vector<std::string> open_keys(const GivenKeys& given);

// The job's cluster with whole nodes, of which it may have a part of one.
backends::Cluster as_described(const Request& request);

// Candidates are simulated; a step's record is its sim::Result.
search::Oracle simulating_oracle();

}  // namespace boxcar::cli
