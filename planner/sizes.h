// Sizes beyond any cluster are refused before they are summed:
//
//   does not fit: %h0.attn.core.scores of stage0 has 1.28 EB, more than any cluster has
//
// After these checks, all byte counts fit in 64 bits.
#pragma once

#include <string>

#include "ir/graph.h"
#include "ir/plan.h"
#include "planner/planner.h"
#include "sbp/error.h"

namespace boxcar::planner {

// A tensor or a program's registers of more than ir::most_bytes.
class TooLarge : public Error {
 public:
  TooLarge(std::string name, int stage, double bytes, double device_bytes);

  std::string name;     // "%h0.attn.core.scores"
  int stage;            // of the pipeline
  double bytes;         // in total
  double device_bytes;  // at least this much is on one device of the stage
};

// Both throw TooLarge, for a tensor or for the registers of a program together. `hints` are complete;
// `stages` are the pipeline's.
void check_sizes(const ir::Graph& graph, const Hints& hints);
void check_sizes(const ir::Plan& plan, int stages);

}  // namespace boxcar::planner
