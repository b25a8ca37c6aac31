#include "backends/cuda/cuda_backend.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {

namespace {

Error without() {
  return Error::cannot_run(
      "cuda",
      "this program was built without CUDA; build it where nvcc is found, with -DBOXCAR_CUDA=ON, "
      "or use --backend cpu");
}

}  // namespace

void prepare_environment(int) {}

int count_gpus() { throw without(); }

std::unique_ptr<Backend> make_cuda_backend(int, const CudaOptions&, std::unique_ptr<Transport>&&) {
  throw without();
}

}  // namespace boxcar::backends::cuda
