// Names of tensors that training derives from a model's tensors and lays out in the same way: gradients,
// copies in 16 bits, sums, values of the next step. Only this file writes and reads their endings. Other
// endings have no base name: moments ("w.m"), copies in float32 ("x.float").
//
//   derived_name("h0.ln1", Derived::gradient)         // "h0.ln1.grad"
//   base_name("h0.attn.qkv.weight.half.grad")         // "h0.attn.qkv.weight"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace boxcar::ir {

enum class Derived : uint8_t { gradient, half, sum, next, recomputed, replica };

std::string derived_name(std::string_view of, Derived what);
std::string derived_name(std::string_view of, Derived what, int number);  // "embedding.word.replica7"

// The name without all these endings and without numbers of parts ("x.grad.1" gives "x").
std::string_view base_name(std::string_view name);

}  // namespace boxcar::ir
