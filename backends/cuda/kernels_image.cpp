// Pools and batch norm.
#include "backends/cuda/kernel_table.h"

namespace boxcar::backends::cuda {
namespace {

Pool pool_of(const Call& call, const ir::Shape& x, const ir::Shape& y) {
  Pool p;
  p.max = call.op.starts_with("max_");
  p.planes = x[0] * x[1], p.height = x[2], p.width = x[3], p.out_height = y[2], p.out_width = y[3];
  p.kernel = ir::attr_int(call.attrs, "kernel");
  p.stride = ir::attr_int(call.attrs, "stride");
  p.padding = ir::attr_int(call.attrs, "padding");
  if (p.stride == 0) p.stride = p.kernel;
  return p;
}

std::unique_ptr<Kernel> make_pool(const Call& call, const Place& place) {
  const Pool shape = pool_of(call, call.inputs[0].shape, call.outputs[0].shape);
  return kernel(call, place, 0, [shape, wide = any_float64(call)](const Act& act) {
    Pool pool = shape;
    pool.x = act.in(0), pool.y = act.out(0);
    launch_pool(pool, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_pool_grad(const Call& call, const Place& place) {
  const Pool shape = pool_of(call, call.outputs[0].shape, call.inputs[0].shape);
  return kernel(call, place, 0, [shape, wide = any_float64(call)](const Act& act) {
    Pool pool = shape;
    pool.dy = act.in(0), pool.dx = act.out(0);
    if (pool.max) pool.x = act.in(1);
    launch_pool_grad(pool, wide, act.stream);
  });
}

BatchNorm shape_of(const ir::Shape& x) {
  const Around channels = around(x, 1);
  BatchNorm n;
  n.batch = channels.outer, n.channels = channels.extent, n.inner = channels.inner;
  return n;
}

std::unique_ptr<Kernel> make_batch_norm(const Call& call, const Place& place) {
  BatchNorm shape = shape_of(call.inputs[0].shape);
  shape.eps = ir::attr_float(call.attrs, "eps");
  return kernel(call, place, 0, [shape, wide = any_float64(call)](const Act& act) {
    BatchNorm n = shape;
    n.x = act.in(0), n.gamma = act.in(1), n.beta = act.in(2);
    n.y = act.out(0), n.mean = act.out(1), n.rstd = act.out(2);
    launch_batch_norm(n, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_batch_norm_grad(const Call& call, const Place& place) {
  const BatchNorm shape = shape_of(call.inputs[1].shape);
  return kernel(call, place, 0, [shape, wide = any_float64(call)](const Act& act) {
    BatchNorm n = shape;
    n.dy = act.in(0), n.x = act.in(1), n.gamma = act.in(2), n.mean = act.in(3), n.rstd = act.in(4);
    n.dx = act.out(0), n.dgamma = act.out(1), n.dbeta = act.out(2);
    launch_batch_norm_grad(n, wide, act.stream);
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
