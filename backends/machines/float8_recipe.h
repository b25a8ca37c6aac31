// How products in 8 bits, or in 4, get their operands: the bytes and launches of a recipe's casts.
//
//   const Float8Recipe& delayed = float8_recipe("delayed");
//   delayed.operand.bytes;   // 4: each element is read in 16 bits, and written in 8 twice, once transposed
//   delayed.weight.launches; // 1
//
// A cast is made once for all products that read the tensor: an activation's for the forward product and the
// weight's gradient, a gradient's for both products of the backward pass, a weight's for the forward product
// and the input's gradient. docs/devices.md has the recipes, and where each number was counted.
#pragma once

#include <string>
#include <vector>

namespace boxcar::backends {

// Kernels beside a product, for one of its tensors.
struct Float8Cast {
  double bytes = 0;     // read and written, for each element
  double launches = 0;  // of the device and the host
  friend bool operator==(const Float8Cast&, const Float8Cast&) = default;
};

struct Float8Recipe {
  std::string name;
  Float8Cast operand = {};     // an activation or a gradient in 16 bits
  Float8Cast fused = {};       // an operand whose cast is fused with its producer (Framework::float8_fuses)
  Float8Cast weight = {};      // a whole weight
  Float8Cast ungathered = {};  // a rank's part of an operand that is gathered in 8 bits
  Float8Cast fused_part = {};  // the same, fused with its producer
  Float8Cast gathered = {};    // then, if the whole lies in one order only: its transposed copy
  Float8Cast product = {};     // of each operand again, before each product
  bool four_bits = false;      // of operands
  bool full_forward_sums = false;  // forward products sum in float32, as those of the backward pass do
  friend bool operator==(const Float8Recipe&, const Float8Recipe&) = default;
};

// By name. Throws Error (bad input, place "fp8_recipe") naming the nearest.
const Float8Recipe& float8_recipe(const std::string& name);
std::vector<std::string> float8_recipe_names();

}  // namespace boxcar::backends
