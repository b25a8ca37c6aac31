// Tensors that are boxed in one collective: they take the same steps and have one type.
//
//   gradients of three weights, P -> S(0) on dp, and of an expert's, P -> S(0) on ep:
//     buckets_of(...)                      {w0, w1, w2} {expert}
//     each of 20 MB, grad_bucket_mb 25     {w0, w1} when it is full, then {w2} and {expert}
#pragma once

#include <string>
#include <vector>

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"

namespace boxcar::planner {

// Each tensor is in one bucket. Buckets come in the order in which they fill; those that never fill come
// last. `by_size`: a bucket is full with Hints::grad_bucket_mb.
std::vector<Bucket> buckets_of(const Stage& stage, const Bucket& all, bool by_size);

// Equal for tensors that may share a bucket.
std::string bucket_key(const Stage& stage, const Boxed& boxed);

}  // namespace boxcar::planner
