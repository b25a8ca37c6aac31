#include "backends/cuda/dnn.h"

#include "sbp/error.h"

#if __has_include(<cudnn.h>)  // else the message below

#include <cudnn.h>
#include <fmt/format.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/shared_library.h"

namespace boxcar::backends::cuda {

struct Dnn::Library {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendExecute) execute;
  cudnnHandle_t handle = nullptr;
  std::mutex mutex;  // of the handle, whose stream is set before each act
};

namespace {

cudnnDataType_t type_of(Type type) {
  switch (type) {
    case Type::float64:
      return CUDNN_DATA_DOUBLE;
    case Type::float16:
      return CUDNN_DATA_HALF;
    case Type::bfloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

// What each kind is called, and which of x, weight and y are its operands.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, weight, y;
};
Names names_of(ConvolutionKind kind) {
  switch (kind) {
    case ConvolutionKind::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case ConvolutionKind::input_grad:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  }
}

// cuDNN's descriptors: made, given attributes, finalized, used.
template <class Library>
class Descriptor {
 public:
  Descriptor(const Library& dnn, cudnnBackendDescriptorType_t type) : dnn_(&dnn) {
    check(dnn.create_descriptor(type, &descriptor_), "is made");
  }
  Descriptor(Descriptor&& other) noexcept
      : dnn_(other.dnn_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(dnn_, other.dnn_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() {
    if (descriptor_) dnn_->destroy_descriptor(descriptor_);
  }

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const std::vector<T>& values) {
    check(dnn_->set(descriptor_, name, type, static_cast<int64_t>(values.size()), values.data()),
          "is described");
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{other.descriptor_});
  }
  Descriptor& whole(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
    return set(name, CUDNN_TYPE_INT64, values);
  }
  // False: cuDNN does not support it.
  bool finalize() { return dnn_->finalize(descriptor_) == CUDNN_STATUS_SUCCESS; }
  Descriptor& ready() {
    check(dnn_->finalize(descriptor_), "is finalized");
    return *this;
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

  void check(cudnnStatus_t status, const char* what) const {
    if (status != CUDNN_STATUS_SUCCESS)
      throw Error::fault("cuDNN", fmt::format("a convolution {}: {}", what, dnn_->error_string(status)));
  }

 private:
  const Library* dnn_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

constexpr int64_t x_id = 1, weight_id = 2, y_id = 3;

template <class Library>
class GraphConvolution : public Convolution {
  using D = Descriptor<Library>;

 public:
  GraphConvolution(Library& dnn, const ConvolutionShape& s)
      : dnn_(dnn), plan_(dnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const D x = tensor(s.x, x_id, s.type), weight = tensor(s.weight, weight_id, s.type),
            y = tensor(s.y, y_id, s.type);
    const Names names = names_of(s.kind);
    D convolution(dnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const bool wide = s.type == Type::float64;
    convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                    std::vector{wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT});
    convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                    std::vector{CUDNN_CROSS_CORRELATION});
    convolution.whole(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2})
        .whole(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {s.padding, s.padding})
        .whole(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {s.padding, s.padding})
        .whole(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1})
        .whole(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {s.stride, s.stride})
        .ready();
    D operation(dnn, names.operation);
    operation.set(names.convolution, convolution).set(names.x, x).set(names.weight, weight).set(names.y, y);
    if (wide)
      operation.set(names.alpha, CUDNN_TYPE_DOUBLE, std::vector{1.0})
          .set(names.beta, CUDNN_TYPE_DOUBLE, std::vector{0.0});
    else
      operation.set(names.alpha, CUDNN_TYPE_FLOAT, std::vector{1.0F})
          .set(names.beta, CUDNN_TYPE_FLOAT, std::vector{0.0F});
    operation.ready();
    D graph(dnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{dnn.handle})
        .ready();
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
      for (const D& engine : engines(graph, mode))
        if (suits(engine, s.type) && plan(engine)) return;
    throw Error::fault(
        "cuDNN",
        fmt::format("no engine for a convolution of {} x {} by {} x {} to {} x {}, {} channels to {}", s.x[2],
                    s.x[3], s.weight[2], s.weight[3], s.y[2], s.y[3], s.x[1], s.y[1]));
  }

  void run(const void* x, const void* weight, const void* y, void* workspace, Stream stream) override {
    D pack(dnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.whole(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {x_id, weight_id, y_id})
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::vector{x, weight, y})
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{workspace})
        .ready();
    const std::lock_guard lock(dnn_.mutex);
    pack.check(dnn_.set_stream(dnn_.handle, static_cast<cudaStream_t>(stream)), "gets its stream");
    pack.check(dnn_.execute(dnn_.handle, plan_.get(), pack.get()), "is launched");
  }
  int64_t workspace() const override { return workspace_; }

 private:
  D tensor(const std::array<int64_t, 4>& d, int64_t id, Type type) {
    D result(dnn_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type_of(type)});
    result.whole(CUDNN_ATTR_TENSOR_DIMENSIONS, {d.begin(), d.end()})
        .whole(CUDNN_ATTR_TENSOR_STRIDES, {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1})
        .whole(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id})
        .whole(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16})
        .ready();
    return result;
  }

  // Configurations of engines, the most promising first; none where the heuristics say so.
  std::vector<D> engines(const D& graph, cudnnBackendHeurMode_t mode) {
    D heuristics(dnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
    std::vector<D> result;
    if (!heuristics.finalize()) return result;
    int64_t count = 0;
    if (dnn_.get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                 nullptr) != CUDNN_STATUS_SUCCESS)
      return result;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < count; ++i) {
      result.emplace_back(dnn_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      raw.push_back(result.back().get());
    }
    heuristics.check(dnn_.get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                              count, &count, raw.data()),
                     "asks for engines");
    result.erase(result.begin() + count, result.end());
    return result;
  }

  // The same bits in every run, and no fewer bits than the type has.
  bool suits(const D& configuration, Type type) {
    D engine(dnn_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = engine.get();
    int64_t count = 0;
    if (dnn_.get(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                 &raw) != CUDNN_STATUS_SUCCESS)
      return false;
    std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    if (dnn_.get(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()) != CUDNN_STATUS_SUCCESS)
      return false;
    notes.resize(static_cast<size_t>(count));
    for (const cudnnBackendNumericalNote_t note : notes) {
      if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
          note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
        return false;
      if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && type == Type::float32) return false;  // TF32
    }
    return true;
  }

  bool plan(const D& configuration) {
    D plan(dnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{dnn_.handle})
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    int64_t count = 0;
    if (!plan.finalize() || dnn_.get(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                     1, &count, &workspace_) != CUDNN_STATUS_SUCCESS)
      return false;
    if (workspace_ > Dnn::most_workspace) return false;
    plan_ = std::move(plan);
    return true;
  }

  Library& dnn_;
  D plan_;
  int64_t workspace_ = 0;
};

}  // namespace

Dnn::Dnn() : library_(std::make_unique<Library>()) {
  const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  const SharedLibrary library(
      name, "convolutions on GPUs need it: install cuDNN, or name its folder in LD_LIBRARY_PATH",
      BOXCAR_CUDA_LIBRARIES);
  Library& dnn = *library_;
  library.find("cudnnCreate", dnn.create);
  library.find("cudnnDestroy", dnn.destroy);
  library.find("cudnnSetStream", dnn.set_stream);
  library.find("cudnnGetErrorString", dnn.error_string);
  library.find("cudnnBackendCreateDescriptor", dnn.create_descriptor);
  library.find("cudnnBackendDestroyDescriptor", dnn.destroy_descriptor);
  library.find("cudnnBackendFinalize", dnn.finalize);
  library.find("cudnnBackendSetAttribute", dnn.set);
  library.find("cudnnBackendGetAttribute", dnn.get);
  library.find("cudnnBackendExecute", dnn.execute);
  if (const cudnnStatus_t status = dnn.create(&dnn.handle); status != CUDNN_STATUS_SUCCESS)
    throw Error::cannot_run(name, fmt::format("does not start: {}", dnn.error_string(status)));
}

Dnn::~Dnn() { library_->destroy(library_->handle); }

std::unique_ptr<Convolution> Dnn::convolution(const ConvolutionShape& shape) {
  return std::make_unique<GraphConvolution<Library>>(*library_, shape);
}

}  // namespace boxcar::backends::cuda

#else

namespace boxcar::backends::cuda {

struct Dnn::Library {};
Dnn::Dnn() {
  throw Error::cannot_run(
      "cuDNN", "was not there when this was built; convolutions on GPUs need its headers and library");
}
Dnn::~Dnn() = default;
std::unique_ptr<Convolution> Dnn::convolution(const ConvolutionShape&) { return nullptr; }

}  // namespace boxcar::backends::cuda

#endif
