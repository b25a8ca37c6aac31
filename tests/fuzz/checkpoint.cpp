// A checkpoint's `latest` and state.json, beside correct weights.
#include "backends/host/checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {
namespace {

namespace host = backends::host;

ir::models::Transformer small_model() {
  ir::models::Transformer model = ir::models::defaults("gpt");
  model.layers = model.heads = 1;
  model.hidden = model.seq = model.ffn = 2;
  model.vocab = 3;
  model.pad_vocab_to = 1;
  return ir::models::complete(model);
}

// Weights and moments of zeros in step 20, made once.
const ir::models::Transformer& model() {
  static const ir::models::Transformer written = [] {
    host::Checkpoint checkpoint{small_model(), {20, 320, 7, "a.txt", "settings"}, {}};
    for (const auto& [name, type] : host::parameter_types(checkpoint.model))
      for (const char* part : {"", ".m", ".v"})
        checkpoint.tensors[name + part] = {type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))};
    host::write_checkpoint(folder() + "/run", checkpoint);
    return *checkpoint.model.transformer();
  }();
  return written;
}

}  // namespace

void fuzz_checkpoint(std::string_view input) {
  const ir::models::Transformer& expected = model();
  const size_t zero = std::min(input.find('\0'), input.size());
  put("run/latest", input.substr(0, zero));
  put("run/step-000020/state.json", input.substr(std::min(zero + 1, input.size())));
  const auto read = allowed([&] { return host::read_checkpoint(folder() + "/run", expected); });
  if (!read || !*read) return;
  host::write_checkpoint(folder() + "/again", **read);
  const auto back = host::read_checkpoint(folder() + "/again", expected);
  if (!back || back->state != (*read)->state || back->tensors != (*read)->tensors)
    throw Broken("what was written reads as another checkpoint");
  std::filesystem::remove_all(folder() + "/again");
}

}  // namespace boxcar::fuzz
