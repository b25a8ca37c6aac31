// Limits of a search's keys: ranges that a user gives, and what a framework runs.
//
//   FrameworkLimits limits = restrict_to("deepspeed", given);   // given has parallel.zero 0..3
//   take_ranges(given)                                      // {"zero", {0, 3}}, and given has none
//   rules_of(limits, request)                               // zero 0..1 if pp is 2 or more
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/framework.h"
#include "cli/job.h"
#include "planner/search/rules.h"

namespace boxcar::cli {

// Takes keys of section parallel that are given as a range, "1..4", or switches that are "any", out of
// `given`. By the names of SearchOptions::ranges. Throws Error (bad input) for a range of a key that takes
// none, or beyond its limits.
std::map<std::string, std::pair<int, int>> take_ranges(GivenKeys& given);

// A rule of searched keys, in jobs in which keys that are not searched have these values.
struct LimitWhere {
  std::map<std::string, std::string> where;  // by path: "bf16|fp8", "1..64"
  search::Rule rule;
};

// Limits of a framework, in addition to the keys that restrict_to puts into the given ones.
struct FrameworkLimits {
  backends::Framework framework;
  std::vector<LimitWhere> rules;
  std::map<std::string, std::string> values;  // of keys that are not searched, by path: "bf16|fp8"
};

// Names of the frameworks whose files list what they run, in order.
std::vector<std::string> frameworks_with_runs();

// Restricts `given` to what a framework runs. Throws Error (bad input) if a given key is outside.
FrameworkLimits restrict_to(const std::string& framework, GivenKeys& given);

// The rules that hold for the request.
std::vector<search::Rule> rules_of(const FrameworkLimits& limits, const Request& request);

// Throws Error (bad input) if a key of the request that is not searched has a value that the framework does
// not run. `given`: before restrict_to.
void check_values(const FrameworkLimits& limits, const GivenKeys& given, const Request& request);

}  // namespace boxcar::cli
