#include "backends/cuda/dnn.h"

#include "sbp/error.h"

#if __has_include(<cudnn.h>)  // else the message below

#include <fmt/format.h>

#include <string>
#include <vector>

#include "backends/cuda/dnn_graph.h"
#include "backends/cuda/shared_library.h"

namespace boxcar::backends::cuda {
namespace {

const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
constexpr const char* needed =
    "convolutions on GPUs need it: install cuDNN, or name its folder in LD_LIBRARY_PATH";

std::unique_ptr<DnnLibrary> load() {
  const SharedLibrary library(name, needed, BOXCAR_CUDA_LIBRARIES);
  auto dnn = std::make_unique<DnnLibrary>();
  library.find("cudnnCreate", dnn->create);
  library.find("cudnnDestroy", dnn->destroy);
  library.find("cudnnSetStream", dnn->set_stream);
  library.find("cudnnGetErrorString", dnn->error_string);
  library.find("cudnnGetVersion", dnn->version);
  library.find("cudnnBackendCreateDescriptor", dnn->create_descriptor);
  library.find("cudnnBackendDestroyDescriptor", dnn->destroy_descriptor);
  library.find("cudnnBackendFinalize", dnn->finalize);
  library.find("cudnnBackendSetAttribute", dnn->set);
  library.find("cudnnBackendGetAttribute", dnn->get);
  library.find("cudnnBackendExecute", dnn->execute);
  return dnn;
}

// Names of each kind, and which of x, weight and y are its operands.
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

}  // namespace

Dnn::Dnn() : library_(load()) {
  if (const cudnnStatus_t status = library_->create(&library_->handle); status != CUDNN_STATUS_SUCCESS)
    throw Error::cannot_run(name,
                            fmt::format("does not start: {}; {}", library_->error_string(status), needed));
}

Dnn::Dnn(const std::string& gpu) : library_(load()) {
#if CUDNN_VERSION >= 90800
  DnnLibrary& dnn = *library_;
  cudnnStatus_t status = dnn.create_descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &dnn.device);
  if (status == CUDNN_STATUS_SUCCESS)
    status = dnn.set(dnn.device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                     static_cast<int64_t>(gpu.size()) + 1, gpu.c_str());
  if (status == CUDNN_STATUS_SUCCESS) status = dnn.finalize(dnn.device);
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error::cannot_run(
        name, fmt::format("does not take the description of a GPU: {}", dnn.error_string(status)));
#else
  throw Error::cannot_run(name, fmt::format("takes no description of a GPU ({}): it is older than 9.8", gpu));
#endif
}

Dnn::~Dnn() {
  if (library_->handle) library_->destroy(library_->handle);
  if (library_->device) library_->destroy_descriptor(library_->device);
}

int64_t Dnn::version() const { return static_cast<int64_t>(library_->version()); }

std::unique_ptr<DnnPlan> Dnn::convolution(const ConvolutionShape& s) {
  DnnGraph graph(*library_, "a convolution");
  const auto image = [&](const std::array<int64_t, 4>& array) {
    const DnnGraph::Shape extents(array.begin(), array.end());
    return graph.tensor(s.type, extents, s.channels_last ? channels_last(extents) : DnnGraph::Shape{});
  };
  const DnnGraph::Tensor x = image(s.x), weight = graph.tensor(s.type, {s.weight.begin(), s.weight.end()}),
                         y = image(s.y);
  DnnDescriptor convolution = graph.descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const bool wide = s.type == Type::float64;
  convolution
      .one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
           wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)
      .one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .whole(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2})
      .whole(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {s.padding, s.padding})
      .whole(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {s.padding, s.padding})
      .whole(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1})
      .whole(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {s.stride, s.stride})
      .ready();
  const Names names = names_of(s.kind);
  DnnDescriptor& operation = graph.operation(names.operation);
  operation.set(names.convolution, convolution).set(names.x, *x).set(names.weight, *weight).set(names.y, *y);
  if (wide)
    operation.one(names.alpha, CUDNN_TYPE_DOUBLE, 1.0).one(names.beta, CUDNN_TYPE_DOUBLE, 0.0);
  else
    operation.one(names.alpha, CUDNN_TYPE_FLOAT, 1.0F).one(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  operation.ready();
  // No fewer bits than the type has.
  const auto suits = [&](cudnnBackendNumericalNote_t note) {
    return note != CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS &&
           note != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
           (note != CUDNN_NUMERICAL_NOTE_TENSOR_CORE || s.type != Type::float32);  // TF32
  };
  std::unique_ptr<DnnPlan> plan = graph.plan(suits, most_workspace);
  if (!plan)
    throw Error::fault(
        "cuDNN",
        fmt::format("no engine for a convolution of {} x {} by {} x {} to {} x {}, {} channels to {}", s.x[2],
                    s.x[3], s.weight[2], s.weight[3], s.y[2], s.y[3], s.x[1], s.y[1]));
  return plan;
}

}  // namespace boxcar::backends::cuda

#else

namespace boxcar::backends::cuda {

struct DnnLibrary {};
Dnn::Dnn() {
  throw Error::cannot_run(
      "cuDNN", "was not there when this was built; convolutions on GPUs need its headers and library");
}
Dnn::Dnn(const std::string&) : Dnn() {}
Dnn::~Dnn() = default;
int64_t Dnn::version() const { return 0; }
std::unique_ptr<DnnPlan> Dnn::convolution(const ConvolutionShape&) { return nullptr; }
std::unique_ptr<DnnPlan> Dnn::batch_norm(const BatchNormShape&) { return nullptr; }
std::unique_ptr<DnnPlan> Dnn::batch_norm_grad(const BatchNormShape&) { return nullptr; }
std::unique_ptr<DnnPlan> Dnn::attention(const AttentionShape&) { return nullptr; }
std::unique_ptr<DnnPlan> Dnn::attention_grad(const AttentionShape&, bool) { return nullptr; }

}  // namespace boxcar::backends::cuda

#endif
