// Convolutions, batch norm and attention by cuDNN's graph interface. A descriptor holds attributes, each set
// once, with the types and counts of its kind. It must be complete when it is finalized, and the descriptors
// to which it refers must be finalized before. A graph runs operation by operation, in double and rounded to
// its tensors' types; each operation must read tensors already written. Heuristics name three engines: one
// whose bits do not repeat, one that needs more memory than anybody gives, and one that works. Batch norm has
// engines only for images whose channels are last and fill 16 bytes, attention only for 16-bit heads of 8,
// 16, ... up to 128 elements.
#include "cudnn.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cudnn_descriptor.h"
#include "cudnn_run.h"
#include "tally.h"

using namespace cudnn_on_cpu;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

enum Engine : int64_t { unsteady, greedy, sound, engines };

// Whether the output has the extents that this convolution gives.
bool fits(const Descriptor& operation) {
  const auto extent = [&](size_t i) { return part(operation, i).at(CUDNN_ATTR_TENSOR_DIMENSIONS); };
  const auto x = extent(1), w = extent(2), y = extent(3);
  const Descriptor& convolution = part(operation, 0);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t padded = x[2 + i] + convolution.at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[i] +
                           convolution.at(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)[i];
    if ((padded - w[2 + i]) / convolution.at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[i] + 1 != y[2 + i])
      return false;
  }
  return x[0] == y[0] && x[1] % w[1] == 0 && w[0] % (x[1] / w[1]) == 0 && w[0] == y[1] &&
         convolution.at(CUDNN_ATTR_CONVOLUTION_CONV_MODE)[0] == CUDNN_CROSS_CORRELATION;
}

// Images whose channels are last and fill 16 bytes, statistics in float32.
bool norms(const Descriptor& op) {
  const bool forward = op.type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR;
  const auto of = [&](cudnnBackendAttributeName_t ahead,
                      cudnnBackendAttributeName_t back) -> const Descriptor& {
    return op.of(forward ? ahead : back);
  };
  const Descriptor &x = of(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC),
                   &y = of(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC),
                   &mean =
                       of(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
  const auto mode = forward ? CUDNN_ATTR_OPERATION_NORM_FWD_MODE : CUDNN_ATTR_OPERATION_NORM_BWD_MODE;
  const auto& extent = x.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const int64_t c = extent[1], h = extent[2], w = extent[3];
  const int64_t filled = type_of(x) == CUDA_R_32F ? 4 : 8;
  return op.at(mode)[0] == CUDNN_BATCH_NORM && type_of(x) != CUDA_R_64F && type_of(x) == type_of(y) &&
         type_of(mean) == CUDA_R_32F && c % filled == 0 &&
         x.at(CUDNN_ATTR_TENSOR_STRIDES) == std::vector<int64_t>{h * w * c, 1, w * c, c} &&
         x.at(CUDNN_ATTR_TENSOR_STRIDES) == y.at(CUDNN_ATTR_TENSOR_STRIDES);
}

// Whether there are engines: for convolutions, batch norm, and attention on tensor cores. Attention's
// tensors in memory have 16 bits, except row sums and one accumulated tensor.
bool is_supported(const Descriptor& graph) {
  const auto& operations = graph.descriptors.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (is_convolution(*operations[0])) return operations.size() == 1;
  if (is_norm(*operations[0])) return operations.size() == 1 && norms(*operations[0]);
  for (const auto& operation : operations) {
    if (operation->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    for (const auto name : {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC}) {
      const Descriptor& operand = operation->of(name);
      if (operand.numbers.contains(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) continue;
      const auto& extent = operand.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
      const int64_t width = operand.at(CUDNN_ATTR_TENSOR_STRIDES)[3] == 1 ? extent[3] : extent[2];
      const cudaDataType_t type = type_of(operand);
      if (width % 8 != 0 || width > 128 || (type != CUDA_R_16F && type != CUDA_R_16BF)) return false;
    }
  }
  return true;
}

Descriptor& of(cudnnBackendDescriptor_t handle) {
  return **static_cast<std::shared_ptr<Descriptor>*>(handle);
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (!cuda_on_cpu::pretended().cudnn) return CUDNN_STATUS_NOT_SUPPORTED;
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS     ? "success"
         : status == CUDNN_STATUS_BAD_PARAM ? "bad parameter"
                                            : "not supported";
}
size_t cudnnGetVersion() { return 91900; }
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* result) {
  auto made = std::make_shared<Descriptor>();
  made->type = type;
  *result = new std::shared_ptr<Descriptor>(std::move(made));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle) {
  delete static_cast<std::shared_ptr<Descriptor>*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Descriptor& d = of(handle);
  if (d.finalized || d.has(name)) return CUDNN_STATUS_BAD_PARAM;
  for (const Row& row : kinds.at(d.type)) {
    const bool same = row.type == type || (row.type == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE);
    if (row.name != name || !same || (row.count == any ? count < 1 : row.count != count)) continue;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      if (type == descriptor) {
        const auto& other = *static_cast<std::shared_ptr<Descriptor>* const*>(values)[i];
        if (!other->finalized) return CUDNN_STATUS_BAD_PARAM;
        d.descriptors[name].push_back(other);
      } else {
        std::memcpy(&d.numbers[name].emplace_back(), static_cast<const char*>(values) + i * size_of(type),
                    size_of(type));
      }
    }
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  Descriptor& d = of(handle);
  for (const Row& row : kinds.at(d.type))
    if (row.needed && !d.has(row.name)) return CUDNN_STATUS_BAD_PARAM;
  if (is_convolution(d) && !fits(d)) return CUDNN_STATUS_BAD_PARAM;
  if (d.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
      d.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() != d.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size())
    return CUDNN_STATUS_BAD_PARAM;
  d.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t* count,
                                       void* values) {
  const Descriptor& d = of(handle);
  const auto at = [&](int64_t i) { return static_cast<cudnnBackendDescriptor_t*>(values)[i]; };
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      *count = is_supported(d.of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)) ? +engines : 0;
      for (int64_t i = 0; i < wanted && i < *count; ++i) {
        of(at(i)).engine = i;
        of(at(i)).finalized = true;
        of(at(i)).descriptors[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
            d.descriptors.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      of(at(0)).engine = d.engine;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = d.engine == unsteady ? 1 : 0;
      if (*count > 0 && wanted > 0)
        *static_cast<cudnnBackendNumericalNote_t*>(values) = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: {
      const Descriptor& engine = d.of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      *static_cast<int64_t*>(values) = engine.engine == greedy ? int64_t{1} << 40 : workspace_used;
      return CUDNN_STATUS_SUCCESS;
    }
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variants) {
  const Descriptor& engine = of(plan).of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Descriptor& pack = of(variants);
  if (engine.engine != sound || !of(plan).finalized || !pack.finalized) return CUDNN_STATUS_NOT_SUPPORTED;
  const auto run = run_of(engine.descriptors.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)[0], pack);
  const std::string kernel = "cudnn " + std::to_string(reinterpret_cast<uintptr_t>(plan));
  const bool launched = cuda_on_cpu::put(handle->stream, run, kernel) == cudaSuccess;
  return launched ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
}
