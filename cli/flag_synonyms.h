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

#include "cli/keys.h"

namespace boxcar::cli {

// torchtitan's "--training.seq_len" and "--Seq_Len" as "--seq-len".
std::string spelled_here(std::string_view flag);
// The flag of some command that is meant, followed by a value or words; or empty.
std::string_view flag_meant(std::string_view flag, std::string_view value = {});
// The key of that flag: the name "tensor_parallel" means parallel.tp, and "micro_batch" itself. Null: none.
const Key* key_meant(std::string_view name);
// " (did you mean tp?)", or "global_batch under train": the key that is meant by an unknown name in a
// section, else the nearest one of the section.
std::string did_you_mean_key(std::string_view section, std::string_view name);
// Advice if a command has no such flag; or empty.
std::string_view advice_in_place_of(std::string_view command, std::string_view flag);
std::vector<std::string_view> flag_synonyms();  // all that flag_meant() knows

}  // namespace boxcar::cli
