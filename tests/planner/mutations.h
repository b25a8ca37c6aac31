// Single mistakes in a plan: each part of a plan dropped, doubled, moved or changed.
//
//   for (const Mutation& kind : mutations())
//     if (ir::Plan plan = good; kind.change(plan, random)) ...   // a plan with one mistake
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ir/plan.h"

namespace boxcar::planner {

using Random = std::mt19937;

struct Mutation {
  const char* name;
  // No computed value depends on the change: if the plan is accepted, its numbers are the good plan's.
  bool keeps_numbers;
  std::function<bool(ir::Plan&, Random&)> change;  // false: nothing to change, try again
};
const std::vector<Mutation>& mutations();

// The same on the plan's text: a line dropped, doubled or swapped with another, a number or a name replaced.
std::string mutated_text(const std::string& text, Random& random);

}  // namespace boxcar::planner
