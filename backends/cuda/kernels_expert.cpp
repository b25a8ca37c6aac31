// Mixture of experts, and the choice of experts.
#include "backends/cuda/kernel_table.h"

namespace boxcar::backends::cuda {
namespace {

int64_t from_end(const ir::TensorType& type, size_t back) { return type.shape[type.shape.size() - back]; }

Experts experts_of(const Call& call, const ir::TensorType& index, const ir::TensorType& x,
                   const ir::TensorType& y) {
  Experts e;
  e.width = from_end(x, 1), e.tokens = from_end(x, 2);
  e.choices = from_end(index, 1), e.all_tokens = from_end(index, 2);
  e.capacity = from_end(y, 2), e.experts = from_end(y, 3);
  e.groups = elements({x.shape.begin(), x.shape.end() - 2});
  e.first_expert = ir::attr_int(call.attrs, "expert_offset");
  e.first_token = ir::attr_int(call.attrs, "token_offset");
  return e;
}

std::unique_ptr<Kernel> make_dispatch(const Call& call, const Place& place) {
  const Experts shape = experts_of(call, call.inputs[1], call.inputs[0], call.outputs[0]);
  return kernel(call, place, scratch_of(shape), [shape](const Act& act) {
    Experts e = shape;
    e.x = act.in(0), e.index = act.in(1), e.y = act.out(0);
    zero(act, e.y, act.call.outputs[0].bytes());
    launch_dispatch(e, act.scratch, act.stream);
  });
}

// combine(y, index, weight); also dispatch's gradient, without weights.
std::unique_ptr<Kernel> make_combine(const Call& call, const Place& place) {
  const Experts shape = experts_of(call, call.inputs[1], call.outputs[0], call.inputs[0]);
  return kernel(call, place, scratch_of(shape), [shape, wide = any_float64(call)](const Act& act) {
    Experts e = shape;
    e.y = act.in(0), e.index = act.in(1), e.x = act.out(0);
    if (act.inputs.size() > 2) e.weight = act.in(2);
    launch_combine(e, act.scratch, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_combine_grad(const Call& call, const Place& place) {
  const Experts shape = experts_of(call, call.inputs[2], call.inputs[0], call.inputs[1]);
  return kernel(call, place, scratch_of(shape), [shape, wide = any_float64(call)](const Act& act) {
    Experts e = shape;
    e.x = act.in(0), e.y = act.in(1), e.index = act.in(2), e.weight = act.in(3);
    e.dy = act.out(0), e.dweight = act.out(1);
    zero(act, e.dy, act.call.outputs[0].bytes());
    launch_combine_grad(e, act.scratch, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_top_k(const Call& call, const Place& place) {
  const Around rows = around(call.inputs[0].shape, -1);
  TopK shape;
  shape.rows = rows.outer, shape.width = rows.extent, shape.k = call.outputs[0].shape.back();
  shape.groups = ir::attr_int(call.attrs, "groups"),
  shape.top_groups = ir::attr_int(call.attrs, "top_groups");
  return kernel(call, place, 0, [shape](const Act& act) {
    TopK t = shape;
    t.x = act.in(0), t.values = act.out(0), t.index = act.out(1);
    launch_top_k(t, act.stream);
  });
}

}  // namespace

void add_expert_kernels(Factories& table) {
  table.insert({{"moe_dispatch", make_dispatch},
                {"moe_dispatch_grad", make_combine},
                {"moe_combine", make_combine},
                {"moe_combine_grad", make_combine_grad},
                {"top_k", make_top_k}});
}

}  // namespace boxcar::backends::cuda
