// Batch norm of images with channels last, as one operation of cuDNN's: statistics are sums of float32 in one
// order, and x is read twice at most.
#if __has_include(<cudnn.h>)  // else dnn.cpp says that it was not there

#include "backends/cuda/dnn_graph.h"

namespace boxcar::backends::cuda {
namespace {

using Tensor = DnnGraph::Tensor;
using Shape = DnnGraph::Shape;

// Tensors are given in the order of the op's operands; cuDNN writes extents as if channels came first.
class NormGraph {
 public:
  NormGraph(DnnLibrary& dnn, const BatchNormShape& s)
      : graph_(dnn, "batch norm"),
        s_(s),
        image_{s.images, s.channels, s.height, s.width},
        channels_{1, s.channels, 1, 1} {}

  std::unique_ptr<DnnPlan> forward() {
    const Tensor x = image(), gamma = scale(), beta = scale(), y = image(), mean = statistic(),
                 rstd = statistic(), eps = graph_.constant(static_cast<float>(s_.eps));
    graph_.operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)
        .one(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM)
        .one(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, *x)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, *gamma)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, *beta)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, *eps)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, *y)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, *mean)
        .set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, *rstd)
        .ready();
    return plan();
  }

  std::unique_ptr<DnnPlan> gradient() {
    const Tensor dy = image(), x = image(), gamma = scale(), mean = statistic(), rstd = statistic(),
                 dx = image(), dgamma = scale(), dbeta = scale();
    graph_.operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)
        .one(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM)
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, *dy)
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, *x)
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, *gamma)
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, *mean)
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, *rstd)
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, *dx)
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, *dgamma)
        .set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, *dbeta)
        .ready();
    return plan();
  }

 private:
  Tensor image() { return graph_.tensor(s_.type, image_, channels_last(image_)); }
  Tensor scale() { return graph_.tensor(s_.scale_type, channels_); }
  Tensor statistic() { return graph_.tensor(Type::float32, channels_); }
  std::unique_ptr<DnnPlan> plan() {
    return graph_.plan([](cudnnBackendNumericalNote_t) { return true; }, Dnn::most_workspace);
  }

  DnnGraph graph_;
  const BatchNormShape& s_;
  const Shape image_, channels_;
};

}  // namespace

std::unique_ptr<DnnPlan> Dnn::batch_norm(const BatchNormShape& shape) {
  return NormGraph(*library_, shape).forward();
}
std::unique_ptr<DnnPlan> Dnn::batch_norm_grad(const BatchNormShape& shape) {
  return NormGraph(*library_, shape).gradient();
}

}  // namespace boxcar::backends::cuda

#endif
