// Names of the tensors that training makes of a model's and that are laid out as it is: gradients, copies in
// 16 bits, sums, values of the next step. These endings are written and read here alone. Others lead nowhere:
// moments ("w.m"), copies in float32 ("x.float").
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
