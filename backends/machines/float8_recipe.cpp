#include "backends/machines/float8_recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::backends {
namespace {

// Counted in github.com/NVIDIA/TransformerEngine, on Hopper, whose products take operands in one order only,
// so that each tensor is written twice, once transposed. A launch is one kernel.
//
// - delayed (module/linear.py, layernorm_linear.py, base.py of release 1): fp8_cast_transpose_fused reads 2
//   bytes and writes 1 and 1. The norm writes 1 byte in place of 2, and fp8_transpose reads 1 and writes 1 in
//   the backward pass. Before a gather cast_to_fp8 reads 2 and writes 1; fp8_transpose follows the gather.
// - current (csrc/extensions/cast.cpp, normalization.cpp of release 2): one kernel reads 2 bytes for the
//   largest magnitude, a second one makes a scale of it, then the cast as before. The norm finds the
//   magnitude, and writes 2 bytes, which the cast reads. torchao/testing/training/roofline_utils.py of
//   github.com/pytorch/ao counts the same for its tensorwise recipe.
// - blocks (common/transpose/quantize_transpose_vector_blockwise.cu): one kernel, and a float32 scale for
//   every 128 elements of both copies. Both copies are gathered. Float8BlockScaling sums all products in
//   float32.
// - mxfp8 (common/util/cast_kernels.cuh): one kernel, and a byte for every 32 elements of both copies. Scales
//   are put in the order of the tensor cores before each product (common/swizzle/swizzle.cu).
// - nvfp4 (NVFP4BlockScaling of common/recipe, csrc/extensions/cast.cpp of release 2.8): a kernel reads 2
//   bytes for the tensor's largest magnitude, another makes a scale of it, then the cast reads 2 and writes
//   half a byte and a sixteenth for scales of both copies. The transposed copy goes through a Hadamard
//   transform, a kernel of its own except for weights.
const std::vector<Float8Recipe>& recipes() {
  constexpr double block = 4 + 2 * 4 / 128.0, mx = 4 + 2 / 32.0, half_byte = 0.5 + 1 / 16.0;
  constexpr double nv = 2 + 2 + 2 * half_byte, transform = 2;  // which reads again
  static const std::vector<Float8Recipe> all = {
      {.name = "delayed",
       .operand = {4, 1},
       .fused = {-1 + 2, 1},
       .weight = {4, 1},
       .ungathered = {3, 1},
       .fused_part = {-1, 0},
       .gathered = {2, 1}},
      {.name = "current",
       .operand = {2 + 4, 3},
       .fused = {4, 2},
       .weight = {2 + 4, 3},
       .ungathered = {2 + 3, 3},
       .fused_part = {3, 2},
       .gathered = {2, 1}},
      {.name = "blocks",
       .operand = {block, 1},
       .fused = {block, 1},
       .weight = {block, 1},
       .ungathered = {block, 1},
       .fused_part = {block, 1},
       .full_forward_sums = true},
      {.name = "mxfp8",
       .operand = {mx, 1},
       .fused = {mx, 1},
       .weight = {mx, 1},
       .ungathered = {mx, 1},
       .fused_part = {mx, 1},
       .product = {2 / 32.0, 1}},
      {.name = "nvfp4",
       .operand = {nv + transform, 4},
       .fused = {nv + transform, 4},
       .weight = {nv, 3},
       .ungathered = {nv + transform, 4},
       .fused_part = {nv + transform, 4},
       .product = {2 / 16.0, 1},
       .four_bits = true},
  };
  return all;
}

}  // namespace

const Float8Recipe& float8_recipe(const std::string& name) {
  for (const Float8Recipe& recipe : recipes())
    if (recipe.name == name) return recipe;
  const std::vector<std::string> known = float8_recipe_names();
  throw Error::input("fp8_recipe", fmt::format("\"{}\": no such recipe{}; known are {}", name,
                                               did_you_mean(name, known), fmt::join(known, ", ")));
}

std::vector<std::string> float8_recipe_names() {
  std::vector<std::string> names;
  for (const Float8Recipe& recipe : recipes()) names.push_back(recipe.name);
  return names;
}

}  // namespace boxcar::backends
