// Limits of a search's keys: ranges that a user gives, and what a framework runs.
//
//   restrict_to("deepspeed", given)   given has parallel.zero 0..3; rules: 0..1 where pp is 2 or more; words:
//   none restrict_to("torchtitan", given)  words: {"train.precision", {"bf16", "fp32", "fp8"}}, ...
//   take_ranges(given)                {"zero", {0, 3}}, and given has no parallel.zero
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/job.h"
#include "planner/search/rules.h"

namespace boxcar::cli {

// Takes keys of section parallel that are given as a range, "1..4", out of `given`. By the names of
// SearchOptions::ranges. Throws Error (bad input) for a range of a key that takes none, or beyond its limits.
std::map<std::string, std::pair<int, int>> take_ranges(GivenKeys& given);

// Limits of what a framework runs, beside the keys that restrict_to puts into those that are given.
struct StackLimits {
  std::string framework;                                  // its name
  std::vector<search::Rule> rules;                        // of several keys together
  std::map<std::string, std::vector<std::string>> words;  // keys that are not searched, by path: their values
};

// Names of the frameworks that say what they run, in order.
std::vector<std::string> frameworks_with_runs();

// Keeps `given` within what a framework runs. Throws Error (bad input) where a given key is outside of it.
StackLimits restrict_to(const std::string& framework, GivenKeys& given);

// Throws Error (bad input) where a key of the request that is not searched has a value that the framework
// does not run.
void check_words(const StackLimits& limits, const GivenKeys& given, const Request& request);

}  // namespace boxcar::cli
