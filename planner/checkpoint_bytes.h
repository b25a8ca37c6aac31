// The bytes of a checkpoint of a job: weights and moments, each tensor once and whole, in its stored type, as
// `boxcar train` writes them (docs/checkpoints.md). 16-bit copies of weights and the file's header are not
// counted.
//
//   checkpoint_bytes(job)   // of a model of 1e9 parameters with adam in fp16: 12e9, three numbers of float32
//   each
//
// They depend on the model, the optimizer and the precision, and on no degree of parallelism: files have no
// padding of the vocabulary.
#pragma once

#include <cstdint>

#include "planner/planner.h"

namespace boxcar::planner {

int64_t checkpoint_bytes(const ResolvedJob& job);

}  // namespace boxcar::planner
