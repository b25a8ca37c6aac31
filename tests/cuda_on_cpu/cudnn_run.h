// Runs a cuDNN graph operation by operation: in double, rounded to its tensors' types.
#pragma once

#include <functional>
#include <memory>

#include "cudnn_descriptor.h"

namespace cudnn_on_cpu {

constexpr int64_t workspace_used = 1000;

// A function that runs the graph on the variant pack's memory, any number of times.
std::function<void()> run_of(std::shared_ptr<Descriptor> graph, const Descriptor& pack);

}  // namespace cudnn_on_cpu
