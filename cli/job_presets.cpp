#include "cli/job_presets.h"

namespace boxcar::cli {
namespace {

// bf16 and FlashAttention as every report of a large run since 2023 has them (Llama 2, Llama 3, DeepSeek-V3).
// Megatron-LM and torchtitan compute the loss on 16-bit logits in one kernel. The CUDA context, NCCL's
// buffers and the allocator's fragments take the margin.
constexpr PresetValue modern[] = {
    {"train.precision", "bf16"}, {"parallel.attention", "flash"},   {"train.fused_loss", "true"},
    {"train.logits", "half"},    {"cluster.memory_margin", "0.08"},
};

struct Preset {
  const char* name;
  std::span<const PresetValue> values;
};
constexpr Preset presets[] = {{"none", {}}, {"modern", modern}};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets) names.emplace_back(preset.name);
  return names;
}

std::span<const PresetValue> preset_values(std::string_view name) {
  for (const Preset& preset : presets)
    if (preset.name == name) return preset.values;
  return {};
}

}  // namespace boxcar::cli
