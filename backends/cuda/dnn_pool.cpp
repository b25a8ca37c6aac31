// Pools of images as one operation of cuDNN's. Its gradient of a maximum reads each maximum's place in its
// window. Plans keep no register for places: the forward pass is run once more and writes them into the
// workspace.
#if __has_include(<cudnn.h>)  // else dnn.cpp says that it was not there

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cuda/dnn_graph.h"

namespace boxcar::backends::cuda {
namespace {

using Tensor = DnnGraph::Tensor;
using Shape = DnnGraph::Shape;

int64_t count(const Shape& extents) { return extents[0] * extents[1] * extents[2] * extents[3]; }
int64_t lines(int64_t bytes) { return (bytes + 511) / 512 * 512; }

// Tensors are given in the order of the arguments.
class PoolGraph {
 public:
  PoolGraph(DnnLibrary& dnn, const PoolShape& s)
      : graph_(dnn, "a pool"), s_(s), how_(graph_.descriptor(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR)) {
    how_.one(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE,
             s.max ? CUDNN_RESAMPLE_MAXPOOL : CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING)
        .one(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
        .one(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE,
             s.max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD)
        .whole(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, {2})
        .whole(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, {s.kernel, s.kernel})
        .whole(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, {s.padding, s.padding})
        .whole(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, {s.padding, s.padding})
        .whole(CUDNN_ATTR_RESAMPLE_STRIDES, {s.stride, s.stride})
        .ready();
  }

  // x, y, and with `places` the places of maxima.
  std::unique_ptr<DnnPlan> forward(bool places) {
    const Tensor x = image(s_.type, s_.x), y = image(s_.type, s_.y);
    DnnDescriptor& op = graph_.operation(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, how_)
        .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, *x)
        .set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, *y);
    if (places) op.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, *image(Type::int8, s_.y));
    return plan(op);
  }
  // dy, for maxima their places, dx.
  std::unique_ptr<DnnPlan> gradient() {
    const Tensor dy = image(s_.type, s_.y), places = s_.max ? image(Type::int8, s_.y) : nullptr,
                 dx = image(s_.type, s_.x);
    DnnDescriptor& op = graph_.operation(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, how_)
        .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, *dy)
        .set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, *dx);
    if (places) op.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC, *places);
    return plan(op);
  }

 private:
  Tensor image(Type type, const std::array<int64_t, 4>& array) {
    const Shape extents(array.begin(), array.end());
    return graph_.tensor(type, extents, s_.channels_last ? channels_last(extents) : Shape{});
  }
  std::unique_ptr<DnnPlan> plan(DnnDescriptor& operation) {
    if (!operation.finalize()) return nullptr;
    return graph_.plan([](cudnnBackendNumericalNote_t) { return true; }, Dnn::most_workspace);
  }

  DnnGraph graph_;
  const PoolShape& s_;
  DnnDescriptor how_;
};

class MaxPoolGrad : public DnnPlan {
 public:
  MaxPoolGrad(std::unique_ptr<DnnPlan> forward, std::unique_ptr<DnnPlan> gradient, int64_t y_bytes,
              int64_t places_bytes)
      : forward_(std::move(forward)), gradient_(std::move(gradient)), y_(y_bytes), places_(places_bytes) {}

  void run(std::span<const void* const> tensors, void* workspace, Stream stream) override {
    auto* const y = static_cast<std::byte*>(workspace);
    std::byte *const places = y + y_, *const rest = places + places_;
    const void *const dy = tensors[0], *const x = tensors[1], *const dx = tensors[2];
    forward_->run(std::array{x, static_cast<const void*>(y), static_cast<const void*>(places)}, rest, stream);
    gradient_->run(std::array{dy, static_cast<const void*>(places), dx}, rest, stream);
  }
  int64_t workspace() const override {
    return y_ + places_ + std::max(forward_->workspace(), gradient_->workspace());
  }

 private:
  const std::unique_ptr<DnnPlan> forward_, gradient_;
  const int64_t y_, places_;
};

}  // namespace

std::unique_ptr<DnnPlan> Dnn::pool(const PoolShape& shape) {
  return PoolGraph(*library_, shape).forward(false);
}

std::unique_ptr<DnnPlan> Dnn::pool_grad(const PoolShape& shape) {
  auto gradient = PoolGraph(*library_, shape).gradient();
  if (!gradient || !shape.max) return gradient;
  auto forward = PoolGraph(*library_, shape).forward(true);
  if (!forward) return nullptr;
  const int64_t elements = count({shape.y.begin(), shape.y.end()});
  const int64_t bytes = shape.type == Type::float32 ? 4 : 2;
  auto both = std::make_unique<MaxPoolGrad>(std::move(forward), std::move(gradient), lines(bytes * elements),
                                            lines(elements));
  if (both->workspace() > most_workspace) return nullptr;
  return both;
}

}  // namespace boxcar::backends::cuda

#endif
