// Attention over a sequence that ranks share, run in a ring (Liu et al. 2023, arXiv 2310.01889; Megatron-LM's
// context parallelism): keys and values go round, and each part is attended to while the next is in flight.
//
//   in the plan                                      in a ring of c ranks
//   gather keys, gather values, attention over all   c attentions over a part each, beside c - 1 exchanges
//
// Both move the same bytes over the same links and compute the same products. In a ring the exchanges are
// exposed as far as they take longer than the attentions beside them: over all parts but a rank's own. In the
// backward pass, the gradients of keys and values go round with them. Causal sequences are cut so that ranks
// have equal work, as Megatron-LM cuts them: a rank's own part is causal; in the others half of the queries
// or half of the keys count.
#pragma once

#include "backends/machines/forward.h"
#include "ir/op.h"
#include "sim/rings.h"

namespace boxcar::sim {

// Adds the rings of a program whose attention reads gathered keys and values: with their gathers, and with
// the reduce-scatters of their gradients.
void add_attention_rings(const ir::Program& program, KernelRings& rings);

// Whether an actor is a fused attention or its gradient.
bool is_attention(const ir::Actor& actor);

// Turns the operand and result types of an attention (or its gradient) over whole keys and values into those
// over one of `ranks` parts.
void take_part(bool backward, int ranks, ir::Types& inputs, ir::Types& outputs);

// Seconds of a ring's attentions.
PartSeconds part_seconds(const backends::DeviceProfile& device, const ir::Actor& attention, int ranks,
                         ir::Types inputs, ir::Types outputs);

}  // namespace boxcar::sim
