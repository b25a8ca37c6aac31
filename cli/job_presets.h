// Named sets of values for keys of a job: `--preset modern` is what a run of today would have. A preset has
// the lowest precedence: the framework's own defaults override it, and given values override both.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace boxcar::cli {

using PresetValue = std::pair<const char*, const char*>;  // {"train.precision", "bf16"}

std::vector<std::string> preset_names();  // "none" first
// Empty for "none", and for an unknown name.
std::span<const PresetValue> preset_values(std::string_view name);

}  // namespace boxcar::cli
