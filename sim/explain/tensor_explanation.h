// Which device holds which block of a tensor of a plan.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/laid_out.h"

namespace boxcar::explain {

struct TensorExplanation {
  std::string name, type;
  int stage = 0;
  std::vector<int> devices;
  std::vector<std::string> layout;  // "dp 2: S(0)", by mesh dimension
  std::map<std::vector<sbp::Range>, std::vector<int>> blocks;
};

// Which device of a stage holds which block of a tensor. Throws as explain_op.
TensorExplanation explain_tensor(const planner::LaidOut& laid, const std::string& name);

// "0-3, 8"
std::string ranges_text(const std::vector<int>& numbers);

// "h3.attn.proj.all_reduce" -> "h*.attn.proj.all_reduce": layers are reported together.
std::string without_layer(const std::string& name);

}  // namespace boxcar::explain
