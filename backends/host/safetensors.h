// Files in the safetensors format (huggingface/safetensors, "Format"): eight bytes of header length
// (little-endian), a JSON header {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}, then the
// tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/types.h"

namespace boxcar::backends::host {

struct StoredTensor {
  ir::TensorType type;
  std::vector<std::byte> bytes;
};
struct StoredFile {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Written beside (path.tmp), synced and renamed: readers see the old file or the whole new one. Throws Error
// (fault) where it cannot be written, with the system's reason.
void write_safetensors(const std::string& path, const StoredFile& file);
// Throws Error (bad input) naming the file and what is wrong: missing, truncated, header not JSON, offsets
// that overlap or lie outside, sizes that do not match shapes, unknown types.
StoredFile read_safetensors(const std::string& path);

}  // namespace boxcar::backends::host
