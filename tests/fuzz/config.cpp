// Hugging Face's config.json, as read beside weights.
#include "backends/host/checkpoint.h"
#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {

void fuzz_config(std::string_view input) {
  reads_back(
      input,
      [](std::string_view text) {
        return backends::host::read_hugging_face_config(put("config.json", text));
      },
      [](const ir::models::Transformer& model) { return backends::host::hugging_face_config(model); });
}

}  // namespace boxcar::fuzz
