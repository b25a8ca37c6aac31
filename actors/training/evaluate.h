// The loss of a model on held-out text: its forward pass alone, on one device of this process.
#pragma once

#include <cstdint>

#include "backends/host/checkpoint.h"
#include "backends/host/data.h"
#include "ir/models/transformer.h"

namespace boxcar::training {

// Mean over `sequences` drawn from `data`, always the same ones (all of them where it has fewer), without
// dropout, in float32; as many as divide them, and at most `rows`, at once. `weights` by our names; others
// among them are not read.
double evaluate(const ir::models::Transformer& model, const backends::host::GlobalTensors& weights,
                const backends::host::TokenData& data, int64_t sequences, int64_t rows);

}  // namespace boxcar::training
