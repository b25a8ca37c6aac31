// Pools and batch norm.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backends/cuda/kernel_table.h"
#include "ir/images.h"
#include "ir/ops/batch_statistics.h"

namespace boxcar::backends::cuda {
namespace {

Pool pool_of(const Call& call, const ir::Shape& x, const ir::Shape& y) {
  Pool p;
  p.max = call.op.starts_with("max_");
  const ir::ImageAxes axes = ir::image_axes(call.attrs);
  p.last = axes.channel == 3;
  p.images = x[0], p.channels = x[axes.channel], p.height = x[axes.height], p.width = x[axes.width];
  p.out_height = y[axes.height], p.out_width = y[axes.width];
  p.kernel = ir::attr_int(call.attrs, "kernel");
  p.stride = ir::attr_int(call.attrs, "stride");
  p.padding = ir::attr_int(call.attrs, "padding");
  if (p.stride == 0) p.stride = p.kernel;
  return p;
}

// Runs it with all inputs and then all outputs.
std::unique_ptr<Kernel> planned(const Call& call, const Place& place, const std::shared_ptr<DnnPlan>& plan) {
  place.libraries.takes("cuDNN");
  return kernel(call, place, plan->workspace(), [plan](const Act& act) {
    std::vector<const void*> tensors(act.inputs.begin(), act.inputs.end());
    tensors.insert(tensors.end(), act.outputs.begin(), act.outputs.end());
    plan->run(tensors, act.scratch, act.stream);
  });
}

// Says why the last kernel is not cuDNN's: `refused`, or if that is empty, the library's reason.
void takes_own(const Place& place, const std::string& refused) {
  std::string why = refused;
  if (why.empty() && !place.libraries.has_dnn()) why = place.libraries.why_no_dnn();
  if (why.empty()) why = "cuDNN has no engine for it (channels in eights)";
  place.libraries.takes("own kernels", why);
}

// Says why a pool's kernels take an element at a time; with channels last they take vectors of 16 bytes.
void takes_pool(const Call& call, const Place& place, const Pool& p) {
  const ir::DType type = call.outputs[0].dtype;
  std::string why;
  for (const ir::TensorType& x : call.inputs)
    if (x.dtype != type || type == ir::DType::float64) why = "its operands are float64 or of several types";
  if (!p.last) why = "channels are first (--channels-last true)";
  if (why.empty() && p.channels * ir::size_of(type) % 16 != 0)
    why = fmt::format("{} channels do not fill 16 bytes (channels in eights)", p.channels);
  if (why.empty() && p.max && p.kernel * p.kernel > most_places && call.op.ends_with("_grad"))
    why = fmt::format("a window has more than {} elements", most_places);
  place.libraries.takes("own kernels", why);
}

std::unique_ptr<Kernel> make_pool(const Call& call, const Place& place) {
  const ir::TensorType &x = call.inputs[0], &y = call.outputs[0];
  const Pool shape = pool_of(call, x.shape, y.shape);
  takes_pool(call, place, shape);
  return kernel(call, place, 0, [shape, wide = any_float64(call)](const Act& act) {
    Pool pool = shape;
    pool.x = act.in(0), pool.y = act.out(0);
    launch_pool(pool, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_pool_grad(const Call& call, const Place& place) {
  const ir::TensorType &x = call.outputs[0], &y = call.inputs[0];
  const Pool shape = pool_of(call, x.shape, y.shape);
  takes_pool(call, place, shape);
  return kernel(call, place, scratch_of_pool_grad(shape), [shape, wide = any_float64(call)](const Act& act) {
    Pool pool = shape;
    pool.dy = act.in(0), pool.dx = act.out(0);
    if (pool.max) pool.x = act.in(1);
    launch_pool_grad(pool, act.scratch, wide, act.stream);
  });
}

// cuDNN's plan if channels are last and it has one, otherwise null.
std::shared_ptr<DnnPlan> fast_norm(const Call& call, const Place& place) {
  const ir::Types &in = call.inputs, &out = call.outputs;
  const bool forward = call.op == "batch_norm";
  const ir::TensorType &image = in[forward ? 0 : 1], &scale = in[forward ? 1 : 2];
  const auto all = [](ir::DType dtype, std::initializer_list<const ir::TensorType*> types) {
    return std::all_of(types.begin(), types.end(), [&](const auto* type) { return type->dtype == dtype; });
  };
  const bool statistics =
      forward ? all(ir::DType::float32, {&out[1], &out[2]}) : all(ir::DType::float32, {&in[3], &in[4]});
  const bool scales = forward ? all(scale.dtype, {&in[2]}) : all(scale.dtype, {&out[1], &out[2]});
  const bool images = forward ? all(image.dtype, {&out[0]}) : all(image.dtype, {&in[0], &out[0]});
  const bool known = ir::attr_bool(call.attrs, "channels_last") && image.shape.size() == 4 &&
                     image.elements() > 0 && statistics && scales && images;
  takes_own(place, !ir::attr_bool(call.attrs, "channels_last") ? "channels are first (--channels-last true)"
                   : !known || any_float64(call) ? "its operands are float64, of several types or no images"
                                                 : "");
  if (!known || any_float64(call) || !place.libraries.has_dnn()) return nullptr;
  BatchNormShape s;
  s.images = image.shape[0], s.height = image.shape[1], s.width = image.shape[2], s.channels = image.shape[3];
  s.type = static_cast<Type>(image.dtype), s.scale_type = static_cast<Type>(scale.dtype);
  if (!forward) return place.libraries.dnn().batch_norm_grad(s);
  s.eps = ir::attr_float(call.attrs, "eps");
  return place.libraries.dnn().batch_norm(s);
}

BatchNorm shape_of(const ir::Shape& x, const ir::Attrs& attrs) {
  const Around channels = around(x, static_cast<int64_t>(ir::channel_axis(x, attrs)));
  BatchNorm n;
  n.batch = channels.outer, n.channels = channels.extent, n.inner = channels.inner;
  return n;
}

std::unique_ptr<Kernel> make_batch_norm(const Call& call, const Place& place) {
  if (const auto plan = fast_norm(call, place)) return planned(call, place, plan);
  BatchNorm shape = shape_of(call.inputs[0].shape, call.attrs);
  shape.eps = ir::attr_float(call.attrs, "eps");
  return kernel(call, place, 0, [shape, wide = any_float64(call)](const Act& act) {
    BatchNorm n = shape;
    n.x = act.in(0), n.gamma = act.in(1), n.beta = act.in(2);
    n.y = act.out(0), n.mean = act.out(1), n.rstd = act.out(2);
    launch_batch_norm(n, wide, act.stream);
  });
}

// cuDNN gives the gradients alone; a small kernel adds the shares of statistics if they are asked for.
std::unique_ptr<Kernel> make_batch_norm_grad(const Call& call, const Place& place) {
  const std::shared_ptr<DnnPlan> plan = fast_norm(call, place);
  if (plan) place.libraries.takes("cuDNN");
  BatchNorm shape = shape_of(call.inputs[1].shape, call.attrs);
  shape.eps = ir::attr_float(call.attrs, "eps"), shape.share = ir::attr_float(call.attrs, "share");
  const int64_t workspace = plan ? plan->workspace() : 0;
  return kernel(call, place, workspace, [plan, shape, wide = any_float64(call)](const Act& act) {
    BatchNorm n = shape;
    n.dy = act.in(0), n.x = act.in(1), n.gamma = act.in(2), n.mean = act.in(3), n.rstd = act.in(4);
    n.dx = act.out(0), n.dgamma = act.out(1), n.dbeta = act.out(2);
    if (n.share > 0)
      n.mean_share = act.out(ir::share_of_mean), n.variance_share = act.out(ir::share_of_variance);
    if (!plan) return launch_batch_norm_grad(n, wide, act.stream);
    std::vector<const void*> tensors(act.inputs.begin(), act.inputs.end());
    tensors.insert(tensors.end(), {n.dx.data, n.dgamma.data, n.dbeta.data});
    plan->run(tensors, act.scratch, act.stream);
    if (n.share > 0) launch_batch_norm_shares(n, wide, act.stream);
  });
}

}  // namespace

void add_image_kernels(Factories& table) {
  table.insert({{"max_pool2d", make_pool},
                {"max_pool2d_grad", make_pool_grad},
                {"avg_pool2d", make_pool},
                {"avg_pool2d_grad", make_pool_grad},
                {"batch_norm", make_batch_norm},
                {"batch_norm_grad", make_batch_norm_grad}});
}

}  // namespace boxcar::backends::cuda
