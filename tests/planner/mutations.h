// Single mistakes in a plan: every kind of thing that a plan holds dropped, doubled, put elsewhere or
// changed.
//
//   for (const Mutation& kind : mutations())
//     if (ir::Plan plan = good; kind.change(plan, random)) ...   // a plan of which one thing is otherwise
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
  // What acts compute does not depend on it: where the plan is accepted, its numbers are the good plan's.
  bool keeps_numbers;
  std::function<bool(ir::Plan&, Random&)> change;  // false: there was nothing to change, try again
};
const std::vector<Mutation>& mutations();

// The same on the plan's text: a line dropped, doubled or swapped with another, a number or a name replaced.
std::string mutated_text(const std::string& text, Random& random);

}  // namespace boxcar::planner
