// Named sets of values for keys of a job: `--preset modern` is what a run of today would have. A preset is
// the weakest word: the framework's own defaults come over it, and over those what is given.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace boxcar::cli {

using PresetValue = std::pair<const char*, const char*>;  // {"train.precision", "bf16"}

std::vector<std::string> preset_names();  // "none" first
// Empty for "none", and for a name that is not there.
std::span<const PresetValue> preset_values(std::string_view name);

}  // namespace boxcar::cli
