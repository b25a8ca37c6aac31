#include <algorithm>
#include <cmath>

#include "backends/cuda/kernel_table.h"

namespace boxcar::backends::cuda {
namespace {

// q, k and v from operand `first`.
std::unique_ptr<Kernel> attention(const Call& call, const Place& place, size_t first, bool gradient) {
  const ir::Shape &q = call.inputs[first].shape, &k = call.inputs[first + 1].shape,
                  &v = call.inputs[first + 2].shape;
  Attention a;
  a.batch = q[0], a.heads = q[1], a.queries = q[2], a.width = q[3];
  a.key_heads = k[1], a.keys = k[2], a.value_width = v[3];
  if (a.value_width > Attention::widest) return nullptr;
  const double scale = ir::attr_float(call.attrs, "scale");
  a.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(a.width));
  a.causal = ir::attr_bool(call.attrs, "causal");
  a.offset = ir::attr_int(call.attrs, "offset");
  a.head_offset = ir::attr_int(call.attrs, "head_offset");
  a.group = ir::attr_int(call.attrs, "group");
  if (a.group == 0) a.group = a.key_heads > 0 ? std::max<int64_t>(a.heads / a.key_heads, 1) : 1;
  const bool wide = any_float64(call);
  return kernel(call, place, 0, [=, scores = ir::Shape{a.batch, a.heads, a.queries, a.keys}](const Act& act) {
    Attention x = a;
    x.drop = drop_at(act.call.attrs, scores, act.moment);
    x.q = act.in(first), x.k = act.in(first + 1), x.v = act.in(first + 2);
    if (!gradient) {
      x.out = act.out(0), x.lse = act.out(1);
      return launch_attention(x, wide, act.stream);
    }
    x.dy = act.in(0), x.out = act.in(4), x.lse = act.in(5);
    x.dq = act.out(0), x.dk = act.out(1), x.dv = act.out(2);
    launch_attention_grad(x, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_attention(const Call& call, const Place& place) {
  return attention(call, place, 0, false);
}
std::unique_ptr<Kernel> make_attention_grad(const Call& call, const Place& place) {
  return attention(call, place, 1, true);
}

}  // namespace

void add_attention_kernels(Factories& table) {
  table["scaled_dot_product_attention"] = make_attention;
  table["scaled_dot_product_attention_grad"] = make_attention_grad;
}

}  // namespace boxcar::backends::cuda
