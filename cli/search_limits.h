// Limits of a search's keys: ranges that a user gives, and what a framework runs.
//
//   restrict_to("deepspeed", given)   given has parallel.zero 0..3; the rules: 0..1 where pp is 2 or more
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

// Keeps `given` within what a framework runs, and returns the rules for several keys together. Throws Error
// (bad input) where a given key is outside of it.
std::vector<search::Rule> restrict_to(const std::string& framework, GivenKeys& given);

}  // namespace boxcar::cli
