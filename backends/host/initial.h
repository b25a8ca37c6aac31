// The values that training begins with: GPT-2's initialisation, drawn by position, so that every plan starts
// alike.
//
//   "h0.attn.qkv.weight"    normal, deviation 0.02
//   "h0.attn.qkv.lora_a.weight"  normal, deviation 1 / sqrt(3 x rows), as PEFT's uniform one; lora_b: zeros
//   "h0.mlp.fc2.weight"     normal, deviation 0.02 / sqrt(2 x layers): it adds to the residual stream
//   "h0.ln1.weight", "h0.norm1.gamma"   1
//   "h0.conv1.weight"       normal, deviation sqrt(2 / (channels x kernel)), after He et al.
//   "h0.attn.qkv.bias", "h0.ln1.bias", moments ("embedding.word.m")     0
//
// (Radford et al. 2019, section 2.3.) Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/host/safetensors.h"
#include "ir/types.h"
#include "sbp/sbp.h"

namespace boxcar::backends::host {

// A normal distribution; a constant if deviation is 0.
struct InitialRule {
  double mean = 0, deviation = 0;
};
// `shape` identifies weights of convolutions, which have four axes, and has the rows of adapters (absent: 1).
InitialRule initial_rule(std::string_view tensor, int64_t layers, const ir::Shape& shape = {});

// The part of the global tensor `tensor` of this shape that lies in `ranges` (one per axis), row-major. Draws
// depend on seed, name and the element's place in the global tensor alone. `out` has as many elements.
void fill_initial(std::string_view tensor, const ir::Shape& shape, std::span<const sbp::Range> ranges,
                  InitialRule rule, int64_t seed, std::span<double> out);

// The whole tensor, in elements of `type`.
StoredTensor initial_tensor(std::string_view tensor, const ir::TensorType& type, InitialRule rule,
                            int64_t seed);

}  // namespace boxcar::backends::host
