// The loss of a model on held-out data: its forward pass alone, on one device of this process.
#pragma once

#include <cstdint>

#include "backends/host/checkpoint.h"
#include "backends/host/data.h"
#include "ir/models/model.h"

namespace boxcar::training {

// Mean over the first `count` of `samples`, without dropout, in float32; as many as divide them, and at most
// `rows`, at once. Batch norm takes means and variances of those at once: no running ones are kept. `weights`
// by our names; others among them are not read.
double evaluate(const ir::models::Model& model, const backends::host::GlobalTensors& weights,
                const backends::host::Samples& samples, int64_t count, int64_t rows);

}  // namespace boxcar::training
