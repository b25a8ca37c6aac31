// Whether a path is a device, such as /dev/zero, which may be read for ever. A pipe is none: it has an end.
#pragma once

#include <filesystem>
#include <system_error>

namespace boxcar::backends {

inline bool is_device(const std::filesystem::path& path) {
  std::error_code none;  // a missing file is no device
  return std::filesystem::is_character_file(path, none) || std::filesystem::is_block_file(path, none);
}

}  // namespace boxcar::backends
