// GPUs of this machine. Each device is a GPU or a share of one; a transport joins several processes.
//
//   auto backend = make_cuda_backend(8, {});                          // 8 GPUs here
//   auto backend = make_cuda_backend(8, {.share_gpus = true});        // 8 devices on any number of GPUs
//   auto backend = make_cuda_backend(8, {}, make_mpi_transport());    // under mpirun -n 8: one of 8 here
//
// Groups communicate by NCCL or, if devices share GPUs of one process, by copies and kernels in rank order,
// with the CPU backend's results. Devices, communicators and abort() may be used from any thread; all
// communicators end before the backend does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace boxcar::backends::cuda {

struct CudaOptions {
  bool share_gpus = false;
  // The fastest algorithms, by timing, and sums in any order: two runs may differ in their last bits.
  bool fast = false;
  std::string algorithms = {};      // with fast: a file that keeps timed choices; empty: none
  double collective_seconds = 600;  // a collective that takes longer ends the run
  // Memory that a device keeps free for libraries' modules and workspaces. NCCL's buffers come on top.
  int64_t library_bytes = 1'500'000'000;
};

// Sets the environment variables that CUDA and NCCL read when they start, unless the user has set them.
// Called before anything (MPI too) may start them, while there is one thread. `members`: processes or devices
// that may communicate by NCCL.
void prepare_environment(int members);

// GPUs that this process may use, one or more. Throws Error (cannot run) as make_cuda_backend does.
int count_gpus();

// Throws Error (cannot run) if this program was built without CUDA or this machine cannot run it
// (placement.h); the transport then remains the caller's.
std::unique_ptr<Backend> make_cuda_backend(int devices, const CudaOptions& options,
                                           std::unique_ptr<Transport>&& transport = nullptr);

}  // namespace boxcar::backends::cuda
