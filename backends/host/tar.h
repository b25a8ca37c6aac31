// The files in an uncompressed tar archive (POSIX ustar and pax, GNU's long names), with their positions.
//
//   const InputFile shard("train-000.tar");
//   for (const TarEntry& entry : tar_entries(shard)) { ... shard.read(entry.offset, buffer) ... }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/host/files.h"

namespace boxcar::backends::host {

struct TarEntry {
  std::string name;  // with its folders
  int64_t offset = 0, size = 0;
};

// Regular files in their order; folders and links are left out. Reads only headers. Throws Error (bad input)
// naming the archive if it is no tar archive, is compressed or cut off, or has a sparse file.
std::vector<TarEntry> tar_entries(const InputFile& archive);

}  // namespace boxcar::backends::host
