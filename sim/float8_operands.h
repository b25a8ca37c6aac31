// Products of a plan that run in 8 bits, and the sources of their operands.
#pragma once

#include <array>

#include "backends/machines/cluster.h"
#include "ir/plan.h"
#include "sim/models/float8_casts.h"

namespace boxcar::sim {

// Whether a kernel of `program` is a product of a layer on devices that run those in 8 bits (use_float8).
bool runs_in_float8(const backends::Cluster& cluster, const ir::Program& program, const ir::Actor& actor);

// Operands of such a product: gathered if a collective gathered them, fused with a producer as the framework
// does, and a weight with the micro-batches that read the same copy.
std::array<Float8Operand, 2> float8_operands(const backends::Framework& framework, const ir::Program& program,
                                             const ir::Actor& product);

// Whether an actor gathers tensors that only such products read, as activations or gradients: they are cast
// first.
bool gathers_in_float8(const backends::Cluster& cluster, const ir::Program& program, const ir::Actor& actor);

}  // namespace boxcar::sim
