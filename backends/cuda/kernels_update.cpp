// Optimizers. Operands: w g, the rule's state, then scale and finite where they are there.
#include <array>
#include <cmath>
#include <cstring>

#include "backends/cuda/kernel_table.h"

namespace boxcar::backends::cuda {
namespace {

template <Update::Rule rule, size_t states>
std::unique_ptr<Kernel> make_update(const Call& call, const Place& place) {
  const bool wide = any_float64(call);
  return kernel(call, place, 0, [wide](const Act& act) {
    const ir::Attrs& attrs = act.call.attrs;
    const size_t operands = 2 + states, given = act.call.inputs.size();
    Update u;
    u.rule = rule;
    u.count = act.call.inputs[0].elements();
    u.w = act.in(0), u.g = act.in(1), u.new_w = act.out(0);
    if (states > 0) u.m = act.in(2), u.new_m = act.out(1);
    if (states > 1) u.v = act.in(3), u.new_v = act.out(2);
    if (given > operands) u.scale = act.in(operands);
    if (given > operands + 1) u.finite = act.in(operands + 1);
    u.weight_decay = ir::attr_float(attrs, "weight_decay");
    if (rule == Update::momentum) u.mu = ir::attr_float(attrs, "momentum");
    if (rule == Update::adam) {
      u.beta1 = ir::attr_float(attrs, "beta1"), u.beta2 = ir::attr_float(attrs, "beta2");
      u.eps = ir::attr_float(attrs, "eps");
    }
    const auto at_step = [rule_lr = ir::attr_float(attrs, "lr"), beta1 = u.beta1, beta2 = u.beta2,
                          before = rule == Update::adam ? ir::attr_int(attrs, "step")
                                                        : 0](const Moment& moment) -> std::array<double, 3> {
      const auto step = static_cast<double>(before + moment.step);
      return {moment.learning_rate >= 0 ? moment.learning_rate : rule_lr, 1 - std::pow(beta1, step),
              1 - std::pow(beta2, step)};
    };
    if (act.steps)
      u.step_values =
          static_cast<const double*>(act.steps->vary(3, [at_step](const Moment& moment, void* to) {
            const std::array<double, 3> values = at_step(moment);
            std::memcpy(to, values.data(), sizeof values);
          }));
    const std::array<double, 3> values = at_step(act.moment);
    u.lr = values[0], u.correct1 = values[1], u.correct2 = values[2];
    launch_update(u, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_clip_scale(const Call& call, const Place& place) {
  const double loss_scale = ir::attr_float(call.attrs, "loss_scale"),
               most = ir::attr_float(call.attrs, "max_norm");
  return kernel(call, place, 0, [=](const Act& act) {
    launch_clip_scale(act.in(0), act.out(0), loss_scale, most, act.stream);
  });
}

}  // namespace

void add_update_kernels(Factories& table) {
  table.insert({{"sgd", make_update<Update::sgd, 0>},
                {"momentum", make_update<Update::momentum, 1>},
                {"adam", make_update<Update::adam, 2>},
                {"clip_scale", make_clip_scale}});
}

}  // namespace boxcar::backends::cuda
