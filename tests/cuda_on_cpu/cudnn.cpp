// Convolutions by cuDNN's graph interface. A descriptor is what was set of it, each attribute once, with the
// types and counts that belong to it; it is whole when it is finalized, and what it refers to was finalized
// before. Heuristics name three engines: one whose bits do not repeat, one that wants more memory than
// anybody gives, and one that works.
#include "cudnn.h"

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "elements.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

enum Engine : int64_t { unsteady, greedy, sound, engines };
constexpr int64_t workspace_used = 1000;

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, std::vector<int64_t>> numbers;  // bits of others than whole numbers
  std::map<cudnnBackendAttributeName_t, std::shared_ptr<Descriptor>> descriptors;
  int64_t engine = -1;

  const std::vector<int64_t>& at(cudnnBackendAttributeName_t name) const { return numbers.at(name); }
};

struct Row {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t count;
};
using Rows = std::vector<Row>;

constexpr auto descriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR;

Rows operation(cudnnBackendAttributeName_t convolution, cudnnBackendAttributeName_t x,
               cudnnBackendAttributeName_t w, cudnnBackendAttributeName_t y,
               cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta) {
  return {{convolution, descriptor, 1}, {x, descriptor, 1},           {w, descriptor, 1},
          {y, descriptor, 1},           {alpha, CUDNN_TYPE_FLOAT, 1}, {beta, CUDNN_TYPE_FLOAT, 1}};
}

// What each kind must be given. Floats stand for doubles too.
const std::map<cudnnBackendDescriptorType_t, Rows> kinds = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
     {{CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
      {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4},
      {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4},
      {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1},
      {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1}}},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
     {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
      {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1},
      {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1},
      {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2},
      {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2},
      {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2},
      {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2}}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     operation(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     operation(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA)},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     operation(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA)},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
     {{CUDNN_ATTR_OPERATIONGRAPH_OPS, descriptor, 1},
      {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1}}},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
     {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, descriptor, 1},
      {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1}}},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
     {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1},
      {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, descriptor, 1}}},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
     {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3},
      {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3},
      {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1}}},
};

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
      return 8;
    default:
      return 4;
  }
}

struct Tensor {
  explicit Tensor(const Descriptor& d, const Descriptor& pack) {
    const auto kind = static_cast<cudnnDataType_t>(d.at(CUDNN_ATTR_TENSOR_DATA_TYPE)[0]);
    type = kind == CUDNN_DATA_DOUBLE     ? CUDA_R_64F
           : kind == CUDNN_DATA_HALF     ? CUDA_R_16F
           : kind == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
                                         : CUDA_R_32F;
    extent = d.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
    stride = d.at(CUDNN_ATTR_TENSOR_STRIDES);
    const auto& ids = pack.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] == d.at(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0])
        data = reinterpret_cast<void*>(pack.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[i]);
  }
  int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3];
  }
  int64_t count() const { return extent[0] * extent[1] * extent[2] * extent[3]; }

  cudaDataType_t type;
  std::vector<int64_t> extent, stride;
  void* data = nullptr;
};

// y[n, k, p, q] = sum of x[n, c, p stride + r - padding, q stride + s - padding] w[k, c, r, s], or the
// gradients.
struct Convolution {
  cudnnBackendDescriptorType_t kind;
  Tensor x, w, y;
  std::array<int64_t, 2> stride, padding;
  void* workspace;

  void run() const {
    std::memset(workspace, 0xff, workspace_used);
    const bool forward = kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool to_x = kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    const Tensor& result = forward ? y : to_x ? x : w;
    std::vector<double> sums(static_cast<size_t>(result.count()));  // the tensors are dense
    for (int64_t n = 0; n < y.extent[0]; ++n)
      for (int64_t k = 0; k < y.extent[1]; ++k)
        for (int64_t p = 0; p < y.extent[2]; ++p)
          for (int64_t q = 0; q < y.extent[3]; ++q) taps(n, k, p, q, forward, to_x, sums);
    for (size_t i = 0; i < sums.size(); ++i)
      cuda_on_cpu::write(result.data, result.type, static_cast<int64_t>(i), sums[i]);
  }
  void taps(int64_t n, int64_t k, int64_t p, int64_t q, bool forward, bool to_x,
            std::vector<double>& sums) const {
    const int64_t at_y = y.at(n, k, p, q), groups = x.extent[1] / w.extent[1];
    const int64_t first = k / (w.extent[0] / groups) * w.extent[1];  // of the group's channels
    for (int64_t c = 0; c < w.extent[1]; ++c)
      for (int64_t r = 0; r < w.extent[2]; ++r)
        for (int64_t s = 0; s < w.extent[3]; ++s) {
          const int64_t row = p * stride[0] + r - padding[0], column = q * stride[1] + s - padding[1];
          if (row < 0 || row >= x.extent[2] || column < 0 || column >= x.extent[3]) continue;
          const int64_t at_x = x.at(n, first + c, row, column), at_w = w.at(k, c, r, s);
          const auto value = [](const Tensor& t, int64_t at) {
            return cuda_on_cpu::read(t.data, t.type, at);
          };
          if (forward)
            sums[static_cast<size_t>(at_y)] += value(x, at_x) * value(w, at_w);
          else if (to_x)
            sums[static_cast<size_t>(at_x)] += value(y, at_y) * value(w, at_w);
          else
            sums[static_cast<size_t>(at_w)] += value(y, at_y) * value(x, at_x);
        }
  }
  static void act(void* convolution) {
    const std::unique_ptr<Convolution> owned(static_cast<Convolution*>(convolution));
    owned->run();
  }
};

// Of an operation: its convolution, x, w and y, in the order in which its kind lists them.
const Descriptor& part(const Descriptor& operation, size_t i) {
  return *operation.descriptors.at(kinds.at(operation.type)[i].name);
}

// Output extents that convolutions of these operands have.
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

Descriptor& of(cudnnBackendDescriptor_t handle) {
  return **static_cast<std::shared_ptr<Descriptor>*>(handle);
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
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
  if (d.finalized) return CUDNN_STATUS_BAD_PARAM;
  for (const Row& row : kinds.at(d.type)) {
    const bool same = row.type == type || (row.type == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE);
    if (row.name != name || !same || row.count != count) continue;
    if (type == descriptor) {
      const auto& other = **static_cast<std::shared_ptr<Descriptor>* const*>(values);
      if (!other->finalized) return CUDNN_STATUS_BAD_PARAM;
      return d.descriptors.emplace(name, other).second ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    }
    std::vector<int64_t> numbers(static_cast<size_t>(count));
    for (size_t i = 0; i < numbers.size(); ++i)
      std::memcpy(&numbers[i], static_cast<const char*>(values) + i * size_of(type), size_of(type));
    return d.numbers.emplace(name, numbers).second ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
  }
  return CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle) {
  Descriptor& d = of(handle);
  const Rows& rows = kinds.at(d.type);
  for (const Row& row : rows)
    if (!d.numbers.contains(row.name) && !d.descriptors.contains(row.name)) return CUDNN_STATUS_BAD_PARAM;
  if (rows.size() == 6 && !fits(d)) return CUDNN_STATUS_BAD_PARAM;
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
      *count = engines;
      for (int64_t i = 0; i < wanted && i < engines; ++i) {
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
      const Descriptor& engine = *d.descriptors.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      *static_cast<int64_t*>(values) = engine.engine == greedy ? int64_t{1} << 40 : workspace_used;
      return CUDNN_STATUS_SUCCESS;
    }
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variants) {
  const Descriptor& engine = *of(plan).descriptors.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Descriptor& pack = of(variants);
  if (engine.engine != sound || !of(plan).finalized || !pack.finalized) return CUDNN_STATUS_NOT_SUPPORTED;
  const Descriptor& graph = *engine.descriptors.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const Descriptor& operation = *graph.descriptors.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const auto two = [&](cudnnBackendAttributeName_t name) {
    const std::vector<int64_t>& values = part(operation, 0).at(name);
    return std::array<int64_t, 2>{values[0], values[1]};
  };
  auto* const convolution =
      new Convolution{operation.type,
                      Tensor(part(operation, 1), pack),
                      Tensor(part(operation, 2), pack),
                      Tensor(part(operation, 3), pack),
                      two(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
                      two(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                      reinterpret_cast<void*>(pack.at(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)[0])};
  return cudaLaunchHostFunc(handle->stream, Convolution::act, convolution) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_BAD_PARAM;
}
}
