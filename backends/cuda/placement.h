// The GPU that each of a process's devices gets, or the error if there is none. Needs no CUDA.
//
//   place({.driver = 13000, .runtime = 13000, .names = {"H200", "H200"}}, {.devices = 2}) == {0, 1}
//   place(... one H200, {.devices = 2})     throws "cuda: 2 devices for 1 GPU (...)"
//   place(... one H200, {.devices = 2, .share = true}) == {0, 0}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace boxcar::backends::cuda {

// The driver's view of this machine. Versions as CUDA writes them: 13.1 is 13010; 0: there is none.
struct Gpus {
  int driver = 0, runtime = 0;
  std::vector<std::string> names = {};
  std::vector<std::string> ids = {};  // globally unique
};
struct Wanted {
  int devices = 1;     // of this process
  int processes = 1;   // that see the same GPUs
  int process = 0;     // which of them
  bool share = false;  // several devices may share a GPU
};
// The GPU of each device. GPUs are dealt to the processes that see them in even blocks, in order. Throws
// Error (cannot run) if there is no GPU, the driver is older than the runtime, GPUs differ, or there are too
// few.
std::vector<int> place(const Gpus& gpus, const Wanted& wanted);

// Processes that share GPUs with `process`: those that see the same ones, all of a machine's, or none if each
// has its own (CUDA_VISIBLE_DEVICES). `ids`: GPU ids of each process, separated by spaces. Throws Error
// (cannot run) if two processes share only some GPUs.
Wanted sharers(std::span<const std::string> ids, int process);

// Throws Error (cannot run) if `needed` bytes do not fit into the free ones. `who` begins the message.
void check_memory(int gpu, int64_t needed, int64_t free, int64_t total,
                  std::string_view who = "the plan needs");
// Bytes of a GPU for its devices' arenas and scratch memory, for modules and workspaces of libraries, and for
// NCCL's buffers.
struct Needed {
  int64_t plan = 0, libraries = 0, nccl = 0;
};
void check_memory(int gpu, const Needed& needed, int64_t free, int64_t total);
// Throws it if enough is free, but not in one piece.
[[noreturn]] void no_piece(int gpu, int64_t needed, int64_t free);

}  // namespace boxcar::backends::cuda
