// Flags as other frameworks and people name them, for messages: `--tensor-parallel` is `--tp` here.
//
//   flag_meant("--tensor-model-parallel-size") == "--tp";  flag_meant("--colour") == ""
#pragma once

#include <string_view>
#include <vector>

namespace boxcar::cli {

std::string_view flag_meant(std::string_view flag);  // a flag of the table of keys, or empty
std::vector<std::string_view> flag_synonyms();       // all of them

}  // namespace boxcar::cli
