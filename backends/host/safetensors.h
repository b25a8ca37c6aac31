// Files in the safetensors format (huggingface/safetensors, "Format"): eight bytes of header length
// (little-endian), a JSON header {name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}, then the
// tensors' bytes.
//
//   write_safetensors("w.safetensors", {{{"w", {f32[2], bytes}}}, {{"format", "pt"}}});
//   read_safetensors("w.safetensors").tensors.at("w").bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/types.h"

namespace boxcar::backends::host {

// Row-major elements as this machine has them (little-endian): type.bytes() of them.
struct StoredTensor {
  ir::TensorType type;
  std::vector<std::byte> bytes;
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};
struct StoredFile {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  friend bool operator==(const StoredFile&, const StoredFile&) = default;
};

// Writes path.tmp, syncs and renames it: readers see the old file or the whole new one. Data begins at a
// multiple of 8 bytes and wider types come first, so that every tensor is aligned to its elements. Throws
// Error (fault) if it cannot be written, with the system's reason, or if a tensor's bytes do not fit its
// type.
void write_safetensors(const std::string& path, const StoredFile& file);
// Throws Error (bad input) naming the file and its fault: missing, truncated, header not JSON, a name twice,
// offsets that overlap, leave gaps or lie outside, sizes that do not match shapes, unknown types.
StoredFile read_safetensors(const std::string& path);

}  // namespace boxcar::backends::host
