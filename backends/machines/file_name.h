// A preset's name and the path of a file are given in one place: this tells them apart.
#pragma once

#include <string_view>

namespace boxcar::backends {

// "mine.yaml", "./mine"; not "dgx-h100".
inline bool is_file_name(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".yaml") || name.ends_with(".yml");
}

}  // namespace boxcar::backends
