#include "backends/cuda/cuda_backend.h"
#include "ir/op.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {

std::unique_ptr<Backend> make_cuda_backend(int, const CudaOptions&, std::unique_ptr<Transport>&&) {
  throw Error::cannot_run(
      "cuda",
      "this program was built without CUDA; build it where nvcc is found, with -DBOXCAR_CUDA=ON, "
      "or train with --backend cpu");
}

std::vector<std::string> ops_without_kernel() {
  std::vector<std::string> all;
  for (const ir::OpDef& def : ir::all_ops()) all.push_back(def.name);
  return all;
}

}  // namespace boxcar::backends::cuda
