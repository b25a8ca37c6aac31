// Checkpoints of a training run: a folder per step, model weights under Hugging Face's names, and what is
// needed to go on from there bit for bit.
//
//   out/step-000020/model.safetensors      GPT-2 or Llama names and layouts (weights in their own type)
//   out/step-000020/config.json            as Hugging Face's transformers reads it
//   out/step-000020/optimizer.safetensors  "<our parameter name>.m" and ".v", global
//   out/step-000020/state.json             schema_version, step, samples seen, seed, data files and size
//   out/latest                             the name of the last whole one; written last, beside and renamed
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/host/safetensors.h"
#include "ir/models/transformer.h"

namespace boxcar::backends::host {

// Global tensors by our names: "embedding.word", "h0.attn.qkv.weight", "h0.attn.qkv.weight.m".
using GlobalTensors = std::map<std::string, StoredTensor>;

struct TrainState {
  int64_t step = 0;     // optimizer steps done
  int64_t samples = 0;  // sequences read
  int64_t seed = 0;
  std::string data;  // the data files, for refusing to resume on others
};

struct Checkpoint {
  ir::models::Transformer model;
  TrainState state;
  GlobalTensors tensors;  // weights and moments
};

// Our weights under Hugging Face's names and layouts, and back. `family` gpt: GPT2LMHeadModel (Conv1D weights
// are [in, out] as ours; c_attn has q, k, v side by side, ours a q, k, v group per key head); llama:
// LlamaForCausalLM (Linear weights are [out, in]; q, k, v and gate, up apart; rotary halves as transformers
// has them). Throws Error (bad input) naming a tensor that is missing, superfluous or of another shape, with
// both shapes.
StoredFile to_hugging_face(const ir::models::Transformer& model, const GlobalTensors& weights);
GlobalTensors from_hugging_face(const ir::models::Transformer& model, const StoredFile& file);
// config.json <-> model. Reading throws Error (bad input) for architectures that are not GPT-2 or Llama.
std::string hugging_face_config(const ir::models::Transformer& model);
ir::models::Transformer read_hugging_face_config(const std::string& path);

// Writes folder/step-N wholly, then `latest`, then removes older ones than the last `keep` (0: none).
void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint, int keep = 2);
// The last whole checkpoint in the folder; none where there is none. Throws Error (bad input) where one is
// named and cannot be read, or is of another model than `expected`, saying which key differs.
std::optional<Checkpoint> read_checkpoint(const std::string& folder, const ir::models::Transformer& expected);

}  // namespace boxcar::backends::host
