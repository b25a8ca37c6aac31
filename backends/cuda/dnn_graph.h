// A graph of cuDNN's operations, built one by one, and the plan that runs it.
//
//   DnnGraph graph(library, "a convolution");
//   const auto x = graph.tensor(type, {n, c, h, w}), ...;   // what run() is given, in this order
//   const auto p = graph.between(type, {n, c, h, w});        // never in memory
//   graph.pointwise(CUDNN_POINTWISE_MUL, {x, graph.constant(0.5F)}, p);
//   auto plan = graph.plan(suits, most_workspace);           // null if no engine does
#pragma once

#include <cudnn.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/dnn.h"

namespace boxcar::backends::cuda {

struct DnnLibrary {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendSetAttribute) set;
  decltype(&cudnnBackendGetAttribute) get;
  decltype(&cudnnBackendExecute) execute;
  cudnnHandle_t handle = nullptr;             // null if the GPU is described
  cudnnBackendDescriptor_t device = nullptr;  // the description
  std::mutex mutex;                           // of the handle, whose stream is set before each act
};

cudnnDataType_t dnn_type(Type type);
// Strides of an image [n, c, h, w] that lies in memory as [n, h, w, c].
std::vector<int64_t> channels_last(const std::vector<int64_t>& extents);

// cuDNN's descriptors: made, given attributes, finalized, used. Errors name `what`.
class DnnDescriptor {
 public:
  DnnDescriptor(const DnnLibrary& dnn, cudnnBackendDescriptorType_t type, const char* what);
  DnnDescriptor(DnnDescriptor&& other) noexcept;
  DnnDescriptor& operator=(DnnDescriptor&& other) noexcept;
  ~DnnDescriptor();

  template <class T>
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     const std::vector<T>& values) {
    check(dnn_->set(descriptor_, name, type, static_cast<int64_t>(values.size()), values.data()),
          "is described");
    return *this;
  }
  template <class T>
  DnnDescriptor& one(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) {
    check(dnn_->set(descriptor_, name, type, 1, &value), "is described");
    return *this;
  }
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const DnnDescriptor& other) {
    return one(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.descriptor_);
  }
  DnnDescriptor& whole(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
    return set(name, CUDNN_TYPE_INT64, values);
  }
  // False: cuDNN does not support it.
  bool finalize() { return dnn_->finalize(descriptor_) == CUDNN_STATUS_SUCCESS; }
  DnnDescriptor& ready() {
    check(dnn_->finalize(descriptor_), "is finalized");
    return *this;
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }
  void check(cudnnStatus_t status, const char* how) const;

 private:
  const DnnLibrary* dnn_;
  const char* what_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

class DnnGraph {
 public:
  using Tensor = const DnnDescriptor*;
  using Shape = std::vector<int64_t>;  // of four extents

  DnnGraph(DnnLibrary& dnn, const char* what) : dnn_(dnn), what_(what) {}

  // In memory; without strides, row-major.
  Tensor tensor(Type type, const Shape& extents, const Shape& strides = {});
  // In the workspace.
  Tensor scratch(Type type, const Shape& extents);
  Tensor between(cudnnDataType_t type, const Shape& extents, const Shape& strides = {});
  Tensor constant(float value) { return constant(CUDNN_DATA_FLOAT, value); }
  Tensor constant(int32_t value) { return constant(CUDNN_DATA_INT32, value); }

  // y from x, b and a mask, as far as the mode reads them. `axis`: that of an index.
  void pointwise(cudnnPointwiseMode_t mode, const std::vector<Tensor>& x, Tensor y,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT, int64_t axis = -1);
  void product(Tensor a, Tensor b, Tensor c);
  void reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y);
  // The memory of x with y's extents and strides.
  void view(Tensor x, Tensor y);
  DnnDescriptor& operation(cudnnBackendDescriptorType_t type);
  DnnDescriptor descriptor(cudnnBackendDescriptorType_t type) const { return {dnn_, type, what_}; }

  // The first engine, in the order of the heuristics, that `suits` accepts and that needs at most this many
  // bytes. Engines whose bits do not repeat are excluded. Null if there is none.
  using Suits = std::function<bool(cudnnBackendNumericalNote_t note)>;
  std::unique_ptr<DnnPlan> plan(const Suits& suits, int64_t most_workspace);

 private:
  struct Constant {
    int64_t id;
    std::array<std::byte, 4> value;
  };
  class Plan;

  Tensor make(cudnnDataType_t type, const Shape& extents, const Shape& strides,
              cudnnBackendAttributeName_t kind);
  template <class T>
  Tensor constant(cudnnDataType_t type, T value);
  std::vector<DnnDescriptor> engines(const DnnDescriptor& graph, cudnnBackendHeurMode_t mode);
  bool repeats(const DnnDescriptor& configuration, const Suits& suits);

  DnnLibrary& dnn_;
  const char* const what_;
  std::deque<DnnDescriptor> tensors_, operations_;
  std::vector<int64_t> given_;                        // ids
  std::vector<std::pair<int64_t, int64_t>> scratch_;  // ids, and where in the workspace
  int64_t scratch_bytes_ = 0;
  std::vector<Constant> constants_;
};

}  // namespace boxcar::backends::cuda
