// Layouts drawn at random for the tensors of a training graph; signatures and boxing follow by deduction.
#pragma once

#include <random>

#include "planner/laid_out.h"

namespace boxcar::tests {

// Weights with their moments and summed gradients are kept in a layout of splits and copies, and read in it
// or in one that gathers some of it, as the ops that read it can. Of all other tensors of the forward and
// backward passes, two in three are pinned to splits and copies of their own; uneven and empty parts
// included.
planner::Pins random_pins(const ir::Graph& training_graph, const planner::Mesh& mesh, std::mt19937& random);

}  // namespace boxcar::tests
