// A graph of cuDNN's, run operation by operation, in double and rounded as its tensors say.
#pragma once

#include <functional>
#include <memory>

#include "cudnn_descriptor.h"

namespace cudnn_on_cpu {

constexpr int64_t workspace_used = 1000;

// What runs it, again and again, on what a variant pack names.
std::function<void()> run_of(std::shared_ptr<Descriptor> graph, const Descriptor& pack);

}  // namespace cudnn_on_cpu
