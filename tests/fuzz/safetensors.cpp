// Files in the safetensors format.
#include "backends/host/safetensors.h"

#include <fstream>
#include <sstream>

#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {
namespace {

backends::host::StoredFile parse(std::string_view bytes) {
  return backends::host::read_safetensors(put("w.safetensors", bytes));
}

std::string write(const backends::host::StoredFile& file) {
  const std::string path = folder() + "/written.safetensors";
  backends::host::write_safetensors(path, file);
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

}  // namespace

void fuzz_safetensors(std::string_view input) { reads_back(input, parse, write); }

}  // namespace boxcar::fuzz
