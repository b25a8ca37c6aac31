// Checkpoints of a training run: a folder per step, with model weights under Hugging Face's names and all
// state needed to resume bit for bit.
//
//   out/step-000020/model.safetensors      names and layouts of GPT-2, Llama, Mistral or Qwen3 (weights in
//                                          their own type)
//   out/step-000020/config.json            as Hugging Face's transformers reads it; only for transformers
//   out/step-000020/optimizer.safetensors  "<our parameter name>.m" and ".v", global
//   out/step-000020/state.json             step, samples seen, seed, data, settings, the model's keys
//   out/lock                               held by the run that writes there
//   out/latest                             the name of the last complete one; written last
//
// Transformers that none of these formats can hold (experts, BERT, a mixture of both) are written under our
// own names, as architecture "BoxcarTransformer"; so are networks of images and users' own graphs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/host/safetensors.h"
#include "ir/models/model.h"

namespace boxcar::backends::host {

// Global tensors by our names: "embedding.word", "h0.attn.qkv.weight", "h0.attn.qkv.weight.m".
using GlobalTensors = std::map<std::string, StoredTensor>;

struct TrainState {
  int64_t step = 0;     // optimizer steps done
  int64_t samples = 0;  // sequences read
  int64_t seed = 0;
  std::string data = {};      // what it trains on, and
  std::string settings = {};  // how, in its caller's words: a run refuses to resume on others
  friend bool operator==(const TrainState&, const TrainState&) = default;
};

struct Checkpoint {
  ir::models::Model model;
  TrainState state;
  // Weights, running averages and moments: every name that is neither of the first two is a moment.
  GlobalTensors tensors;
};

// Format of a model's stored weights. gpt2 needs layer norm, learned positions, GELU, biases and a key head
// per head, which share `hidden`; llama RMS norm, rotary positions and SwiGLU; mistral the same with a
// window in all layers, qwen3 with norms of queries and keys, both without biases; all a causal dense model.
enum class Architecture : uint8_t { gpt2, llama, mistral, qwen3, own };
Architecture architecture_of(const ir::models::Transformer& model);

// The model's parameters by our names, with their types (float32, padded vocabulary).
std::map<std::string, ir::TensorType> parameter_types(const ir::models::Model& model);
// Running averages of its batch norms, which model.safetensors has beside the parameters.
std::map<std::string, ir::TensorType> running_average_types(const ir::models::Model& model);

// Our weights under Hugging Face's names and layouts, and back. gpt2: GPT2LMHeadModel (Conv1D weights are
// [in, out] as ours; c_attn has q, k, v side by side, ours a q.., k, v group per key head); llama:
// LlamaForCausalLM (Linear weights are [out, in]; q, k, v and gate, up apart; rotary halves as transformers
// has them). Padding of the vocabulary is dropped, and zero on the way back. Throws Error (bad input) naming
// a tensor that is missing, superfluous or of another shape, with both shapes.
//
// Files from elsewhere may omit the prefixes "transformer." and "model.", and may have the buffers of masks
// and rotary frequencies, a copy of a tied head, and more learned positions than the model, which takes the
// first ones.
StoredFile to_hugging_face(const ir::models::Transformer& model, const GlobalTensors& weights);
GlobalTensors from_hugging_face(const ir::models::Transformer& model, const StoredFile& file);
// Reads a safetensors file, which its errors name: in Hugging Face's form for a transformer, otherwise with a
// tensor for each parameter by our names, and possibly running averages. A model with adapters reads the
// weights of the model without them too; the result then lacks adapters.
GlobalTensors read_weights(const std::string& path, const ir::models::Model& model);

// config.json <-> model. Keys that the file lacks (`flash`, vocabulary padding) are off: false, 1. Reading
// throws Error (bad input) naming the file and key: for other architectures, and for features that our ops
// lack (scaled rotary positions, biases in a part of the layers, ...).
std::string hugging_face_config(const ir::models::Transformer& model);
ir::models::Transformer read_hugging_face_config(const std::string& path);

// A run's hold on a folder, made if missing: while it lives, no other run can hold the folder. It ends with
// the process, however that ends. It is a lock on a file "lock" in the folder, which stays and names the
// holder. Throws Error (bad input) if another run has it, FileError if it cannot be made or written.
//
//   HeldFolder folder("out");
//   HeldFolder other("out");   // throws: out: process 1234 on alpha writes its checkpoints there (wait ...)
class HeldFolder {
 public:
  explicit HeldFolder(const std::string& folder);
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  // If the folder was moved or removed meanwhile, makes and holds another in its place. Throws as above.
  void keep();

 private:
  void hold();

  std::string path_;
  int descriptor_ = -1;
};

// Whether there is a checkpoint to resume from.
bool has_checkpoint(const std::string& folder);
// Writes folder/step-N completely, then `latest`, then removes checkpoints before the last `keep` (0: none)
// and remains of a killed writer. Whenever it is killed, `latest` names a complete checkpoint. One writer at
// a time. Throws Error (fault) with the system's reason; the last checkpoint then stays the last.
void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint, int keep = 2);
// The last complete checkpoint in the folder, if any. Throws Error (bad input) if the one that is named
// cannot be read, or is of another model than `expected`, saying which key differs.
std::optional<Checkpoint> read_checkpoint(const std::string& folder, const ir::models::Model& expected);

}  // namespace boxcar::backends::host
