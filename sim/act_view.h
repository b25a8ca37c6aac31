// An actor of a plan as cost models see it: its operands and results.
#pragma once

#include "ir/plan.h"

namespace boxcar::sim {

// Types of operands and of results, without control edges.
ir::Types input_types(const ir::Program& program, const ir::Actor& actor);
ir::Types output_types(const ir::Program& program, const ir::Actor& actor);
// The actors of the same phase that it reads from.
std::vector<size_t> read_in_phase(const ir::Program& program, const ir::Actor& actor);

}  // namespace boxcar::sim
