// A chain of elementwise ops as one kernel: the text of its steps, and code shared by the row, the pass and
// the kernels.
//
//   fused(x, bias, r) {program="add(0, 1); gelu(3); add(4, 2)"}  is  gelu(x + bias) + r
//
// Numbers name values: the inputs first, then one result per step; the last is the result. Inputs may be
// broadcast; every step has the shape of the result.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace boxcar::ir {

struct FusedStep {
  std::string op;
  std::vector<int> operands;
  Attrs attrs = {};  // complete
  friend bool operator==(const FusedStep&, const FusedStep&) = default;
};
using FusedProgram = std::vector<FusedStep>;

std::string to_text(const FusedProgram& program);  // attributes that are not defaults
// The program of a part. Offsets in the whole are written even if they are defaults, so that the texts of all
// parts differ only in their numbers (ir/rank_attrs.h).
//   causal_mask(0)  of the first part of the rows is  causal_mask(0) {column_offset=0, row_offset=0}
std::string part_text(const FusedProgram& program);
// Throws Error (bad input) quoting the text, for unknown ops and for values not yet defined.
FusedProgram parse_fused(std::string_view text, size_t inputs);

// Whether an op may be a step: elementwise, one result, of floats.
bool is_fusable(std::string_view op);

}  // namespace boxcar::ir
