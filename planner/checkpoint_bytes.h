// The bytes of a checkpoint of a job: weights and moments, each tensor once and whole, in the type in which
// it is kept, as `boxcar train` writes them (docs/checkpoints.md). 16-bit copies of weights are not in it,
// and neither is a file's header.
//
//   checkpoint_bytes(job)   // of a model of 1e9 parameters with adam in fp16: 12e9, three numbers of float32
//   each
//
// It goes by the model, the optimizer and the precision. Of the degrees of parallelism only tp counts, whose
// multiple the vocabulary is padded to.
#pragma once

#include <cstdint>

#include "planner/planner.h"

namespace boxcar::planner {

int64_t checkpoint_bytes(const ResolvedJob& job);

}  // namespace boxcar::planner
