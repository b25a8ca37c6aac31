// The loss of a model on held-out data: only its forward pass, on one device of this process.
#pragma once

#include <cstdint>

#include "backends/host/checkpoint.h"
#include "backends/host/data.h"
#include "ir/models/model.h"

namespace boxcar::training {

// Mean over the first `count` of `samples`, without dropout, in float32. Batches have at most `rows` samples,
// a number that divides `count`. Batch norm takes the running averages among `weights`, or means and
// variances of a batch if there are none. `weights` have Boxcar's names; others are ignored.
double evaluate(const ir::models::Model& model, const backends::host::GlobalTensors& weights,
                const backends::host::Samples& samples, int64_t count, int64_t rows);

}  // namespace boxcar::training
