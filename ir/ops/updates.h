// The operands of an optimizer's op, for one tensor or for many at once:
//
//   adam_all(w, g, m, v, w', g', m', v', scale?, finite?) {tensors=2, copies=[1], to=bfloat16}
//     -> w, m, v, w', m', v', and a copy of the last w' in bfloat16
//
//   updates_of("adam_all", attrs) == {.rule = "adam", .operands = 4, .tensors = 2, .copies = {1}}
//   updates_of("lamb", attrs) == {.rule = "lamb", .operands = 5, .has_norms = true}      w, g, m, v, norms
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types.h"

namespace boxcar::ir {

struct Updates {
  std::string rule;  // the op for one tensor
  size_t operands = 0, tensors = 1;
  std::vector<size_t> copies = {};  // tensors whose new w is also written in the type `to`, ascending
  bool has_norms = false;           // the last operand of a tensor

  size_t states() const { return operands - (has_norms ? 2 : 1); }
  size_t scalars_at() const { return tensors * operands; }
  // State 0 is w; g lies between w and the others.
  size_t input(size_t tensor, size_t state) const { return tensor * operands + (state == 0 ? 0 : state + 1); }
  size_t gradient(size_t tensor) const { return tensor * operands + 1; }
  size_t norms(size_t tensor) const { return (tensor + 1) * operands - 1; }
  size_t output(size_t tensor, size_t state) const { return tensor * states() + state; }
  size_t copy_at(size_t which) const { return tensors * states() + which; }
  // The inputs of one tensor, then the scalars: operands of the op for one tensor.
  template <class Inputs>
  Inputs of_tensor(const Inputs& all, size_t tensor) const {
    const auto at = [&](size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); };
    Inputs own(at(tensor * operands), at((tensor + 1) * operands));
    own.insert(own.end(), at(scalars_at()), all.end());
    return own;
  }
};

// For optimizers (optimizer_rows.h) and their forms for many tensors, with complete attributes; nothing for
// other ops.
std::optional<Updates> updates_of(std::string_view op, const Attrs& attrs);

}  // namespace boxcar::ir
