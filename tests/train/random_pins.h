// Layouts drawn at random for the tensors of a training graph; signatures and boxing follow by deduction.
#pragma once

#include <random>

#include "planner/laid_out.h"

namespace boxcar::tests {

// Weights, their moments and summed gradients are kept in a layout of splits and copies, and read in it or in
// one that gathers part of it, as their readers allow. Two thirds of the other tensors of the forward and
// backward passes are pinned to random splits and copies, uneven and empty parts included.
planner::Pins random_pins(const ir::Graph& training_graph, const planner::Mesh& mesh, std::mt19937& random);

}  // namespace boxcar::tests
