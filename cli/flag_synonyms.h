// Flags as other frameworks and users name them, for messages: `--tensor-parallel` is `--tp` here.
//
//   flag_meant("--tensor-model-parallel-size") == "--tp";  flag_meant("--colour") == ""
//   flag_meant("--parallelism.tensor_parallel_degree") == "--tp"
//   flag_meant("--gpu", "h100") == "--cluster";  flag_meant("--gpu", "8") == "--gpus"
//   advice_in_place_of("sweep", "--json") == "`boxcar table FILE --json` prints the rows that it wrote"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace boxcar::cli {

// torchtitan's "--training.seq_len" and "--Seq_Len" as "--seq-len".
std::string spelled_here(std::string_view flag);
// The flag of some command that is meant, followed by a value or words; or empty.
std::string_view flag_meant(std::string_view flag, std::string_view value = {});
// Advice if a command has no such flag; or empty.
std::string_view advice_in_place_of(std::string_view command, std::string_view flag);
std::vector<std::string_view> flag_synonyms();  // all that flag_meant() knows

}  // namespace boxcar::cli
