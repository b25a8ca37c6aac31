// Whether there is a GPU for a test, and the reason if not.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/cuda_backend.h"
#include "sbp/error.h"

namespace boxcar::tests {

// `devices` devices on the available GPUs; null, with the reason in `why`, if there is none.
inline std::unique_ptr<backends::Backend> gpus(int devices, std::string& why) {
  try {
    return backends::cuda::make_cuda_backend(devices, {.share_gpus = true});
  } catch (const Error& error) {
    if (error.code() != Exit::cannot_run) throw;
    why = error.what();
    return nullptr;
  }
}

}  // namespace boxcar::tests
