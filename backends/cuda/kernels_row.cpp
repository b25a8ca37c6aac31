// Norms, softmax, cross entropy and rotary positions: rows of the last axis.
#include "backends/cuda/kernel_table.h"
#include "ir/ops/classes.h"

namespace boxcar::backends::cuda {
namespace {

std::unique_ptr<Kernel> make_norm(const Call& call, const Place& place) {
  const Around rows = around(call.inputs[0].shape, -1);
  const bool wide = any_float64(call), centres = call.op == "layer_norm";
  const double eps = ir::attr_float(call.attrs, "eps");
  return kernel(call, place, 0, [=](const Act& act) {
    Norm n;
    n.x = act.in(0), n.gamma = act.in(1), n.y = act.out(0);
    if (centres) n.beta = act.in(2), n.mean = act.out(1);
    n.rstd = act.out(centres ? 2 : 1);
    n.rows = rows.outer, n.width = rows.extent, n.eps = eps;
    launch_norm(n, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_norm_grad(const Call& call, const Place& place) {
  const Around rows = around(call.inputs[1].shape, -1);
  const bool wide = any_float64(call), centres = call.op == "layer_norm_grad";
  NormGrad shape;
  shape.rows = rows.outer, shape.width = rows.extent, shape.x.type = static_cast<Type>(call.inputs[1].dtype);
  return kernel(call, place, scratch_of(shape), [=](const Act& act) {
    NormGrad n = shape;
    n.dy = act.in(0), n.x = act.in(1), n.gamma = act.in(2);
    n.dx = act.out(0), n.dgamma = act.out(1);
    if (centres) n.mean = act.in(3), n.dbeta = act.out(2);
    n.rstd = act.in(centres ? 4 : 3);
    launch_norm_grad(n, act.scratch, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_softmax(const Call& call, const Place& place) {
  const ir::Shape& shape = call.inputs[0].shape;
  const Around rows = around(shape, -1);
  const bool wide = any_float64(call);
  Softmax s;
  s.rows = rows.outer, s.width = rows.extent;
  if (call.op == "scale_mask_softmax") {
    s.queries = shape[shape.size() - 2];
    s.offset = ir::attr_int(call.attrs, "offset");
    s.causal = ir::attr_bool(call.attrs, "causal");
    s.window = ir::attr_int(call.attrs, "window");
    s.scale = ir::attr_float(call.attrs, "scale");
  }
  return kernel(call, place, 0, [=](const Act& act) {
    Softmax softmax = s;
    softmax.x = act.in(0), softmax.y = act.out(0);
    launch_softmax(softmax, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_softmax_grad(const Call& call, const Place& place) {
  const Around rows = around(call.inputs[0].shape, -1);
  const bool wide = any_float64(call);
  const double scale = call.op == "softmax_grad" ? 1 : ir::attr_float(call.attrs, "scale");
  return kernel(call, place, 0, [=](const Act& act) {
    launch_softmax_grad(act.in(0), act.in(1), act.out(0), rows.outer, rows.extent, scale, wide, act.stream);
  });
}

Loss loss_of(const ir::TensorType& logits, const ir::Attrs& attrs) {
  const Around rows = around(logits.shape, -1);
  Loss loss;
  loss.rows = rows.outer, loss.width = rows.extent;
  loss.classes = attrs.contains("classes") ? ir::classes_here(attrs, rows.extent) : rows.extent;
  if (attrs.contains("offset")) loss.offset = ir::attr_int(attrs, "offset");
  return loss;
}
// cross_entropy and cross_entropy_parts, pick, sum_exp and sum_exp_pick.
std::unique_ptr<Kernel> make_loss(const Call& call, const Place& place) {
  const Loss shape = loss_of(call.inputs[0], call.attrs);
  const bool wide = any_float64(call), sums = call.op.starts_with("sum_exp");
  return kernel(call, place, 0, [=](const Act& act) {
    Loss loss = shape;
    loss.logits = act.in(0);
    if (sums) {
      loss.m = act.in(1), loss.z = act.out(0);
      if (act.inputs.size() > 2) loss.labels = act.in(2), loss.out = act.out(1);
      return launch_sum_exp(loss, wide, act.stream);
    }
    loss.labels = act.in(1), loss.out = act.out(0);
    if (act.outputs.size() > 1) loss.m = act.out(1), loss.z = act.out(2);
    (act.call.op == "pick" ? launch_pick : launch_cross_entropy)(loss, wide, act.stream);
  });
}
std::unique_ptr<Kernel> make_cross_entropy_grad(const Call& call, const Place& place) {
  const Loss shape = loss_of(call.inputs[1], call.attrs);
  const bool wide = any_float64(call);
  return kernel(call, place, 0, [=](const Act& act) {
    Loss loss = shape;
    loss.dloss = act.in(0), loss.logits = act.in(1), loss.m = act.in(2), loss.z = act.in(3),
    loss.labels = act.in(4);
    loss.out = act.out(0);
    launch_cross_entropy_grad(loss, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_rotary(const Call& call, const Place& place) {
  const ir::Shape& shape = call.inputs[0].shape;
  const Around rows = around(shape, -1);
  const bool wide = any_float64(call);
  Rotary r;
  r.rows = rows.outer, r.width = rows.extent, r.sequence = shape[shape.size() - 2];
  r.offset = ir::attr_int(call.attrs, "offset");
  r.base = ir::attr_float(call.attrs, "base");
  r.inverse = ir::attr_bool(call.attrs, "inverse");
  return kernel(call, place, 0, [=](const Act& act) {
    Rotary rotary = r;
    rotary.x = act.in(0), rotary.y = act.out(0);
    launch_rotary(rotary, wide, act.stream);
  });
}

}  // namespace

void add_row_kernels(Factories& table) {
  table.insert({{"layer_norm", make_norm},
                {"rms_norm", make_norm},
                {"layer_norm_grad", make_norm_grad},
                {"rms_norm_grad", make_norm_grad},
                {"softmax", make_softmax},
                {"scale_mask_softmax", make_softmax},
                {"softmax_grad", make_softmax_grad},
                {"scale_mask_softmax_grad", make_softmax_grad},
                {"cross_entropy", make_loss},
                {"cross_entropy_parts", make_loss},
                {"sum_exp", make_loss},
                {"sum_exp_pick", make_loss},
                {"pick", make_loss},
                {"cross_entropy_grad", make_cross_entropy_grad},
                {"rotary", make_rotary}});
}

}  // namespace boxcar::backends::cuda
