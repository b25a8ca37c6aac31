// Tells a preset's name from a file's path, which are given in the same place.
#pragma once

#include <string_view>

namespace boxcar::backends {

// "mine.yaml", "./mine"; not "dgx-h100".
inline bool is_file_name(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".yaml") || name.ends_with(".yml");
}

}  // namespace boxcar::backends
