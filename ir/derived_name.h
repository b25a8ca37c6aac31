// Names of the tensors that training makes of a model's: gradients, copies in another type, sums, values of
// the next step. Here alone they are written and read.
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

// The name that all these were derived from, with numbers of parts ("x.grad.1").
std::string_view base_name(std::string_view name);

}  // namespace boxcar::ir
