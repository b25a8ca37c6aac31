#include "backends/cuda/cuda_backend.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {

std::unique_ptr<Backend> make_cuda_backend(int, const CudaOptions&, std::unique_ptr<Transport>&&) {
  throw Error::cannot_run(
      "cuda",
      "this program was built without CUDA; build it where nvcc is found, with -DBOXCAR_CUDA=ON, "
      "or train with --backend cpu");
}

}  // namespace boxcar::backends::cuda
