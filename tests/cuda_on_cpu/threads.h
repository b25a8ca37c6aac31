// Runs a kernel: its blocks one after the other, the threads of a block as fibers of the calling thread.
#pragma once

#include <functional>

#include "cuda_runtime_api.h"

namespace cuda_on_cpu {

// Calls `thread` for each thread of each block. Each runs until it waits for others, a warp until it waits
// for other warps: every second time from the last thread of the last block to the first, so that what leans
// on an order fails in one of two runs. Ends the program, saying why, where threads of a block wait for each
// other for ever.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);

}  // namespace cuda_on_cpu
