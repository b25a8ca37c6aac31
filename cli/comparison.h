// Two plans side by side, and a plan beside one with other keys.
//
//   placed_text(best, with_tp_4)   "1.35 s, 9.4 % slower; 40.1 GB on stage0, 12.3 GB less"
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/variation.h"

namespace boxcar::cli {

// The variation's step and memory compared with those of `base`, or why it cannot be.
std::string placed_text(const explain::Report& base, const Variation& variation);
nlohmann::ordered_json placed_json(const explain::Report& base, const Variation& variation);

// Keys that differ between plans A and B and are changed together: a model's keys, and degrees, form one
// difference each, and every other key its own.
struct Difference {
  GivenKeys a, b;        // by path; a key at its default is missing
  bool layouts = false;  // the layouts that were found, instead of keys
  Variation alone = {};  // plan A with only this difference
};
std::vector<Difference> differences_of(const GivenKeys& a, const GivenKeys& b);

// "--dp 8 --tp 4"; a key that is missing is left out.
std::string flags_text(const GivenKeys& keys);

}  // namespace boxcar::cli
