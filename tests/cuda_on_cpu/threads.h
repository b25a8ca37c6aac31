// Runs a kernel: blocks one after the other, the threads of a block as fibers of the calling thread.
#pragma once

#include <functional>

#include "cuda_runtime_api.h"

namespace cuda_on_cpu {

// Calls `thread` for each thread of each block. A thread runs until it waits for others, a warp until it
// waits for other warps. Every second run goes from the last thread of the last block to the first, so that
// code that depends on an order fails in one of two runs. Ends the program with a message on deadlock within
// a block.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);

}  // namespace cuda_on_cpu
