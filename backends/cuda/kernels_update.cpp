// Optimizers. Operands: w g, the rule's state, then scale and finite where they are there.
#include <array>
#include <cmath>
#include <cstring>

#include "backends/cuda/kernel_table.h"
#include "ir/ops/updates.h"

namespace boxcar::backends::cuda {
namespace {

Update::Rule rule_of(const std::string& name) {
  return name == "adam" ? Update::adam : name == "momentum" ? Update::momentum : Update::sgd;
}

// One tensor or many, as many to a kernel as it takes.
std::unique_ptr<Kernel> make_update(const Call& call, const Place& place) {
  const bool wide = any_float64(call);
  const ir::Updates updates = *ir::updates_of(call.op, call.attrs);
  return kernel(call, place, 0, [wide, updates](const Act& act) {
    const ir::Attrs& attrs = act.call.attrs;
    const size_t scalars = updates.scalars_at(), given = act.call.inputs.size();
    Update u;
    u.rule = rule_of(updates.rule);
    if (given > scalars) u.scale = act.in(scalars);
    if (given > scalars + 1) u.finite = act.in(scalars + 1);
    u.weight_decay = ir::attr_float(attrs, "weight_decay");
    if (u.rule == Update::momentum) u.mu = ir::attr_float(attrs, "momentum");
    if (u.rule == Update::adam) {
      u.beta1 = ir::attr_float(attrs, "beta1"), u.beta2 = ir::attr_float(attrs, "beta2");
      u.eps = ir::attr_float(attrs, "eps");
    }
    const auto at_step = [rule_lr = ir::attr_float(attrs, "lr"), beta1 = u.beta1, beta2 = u.beta2,
                          before = u.rule == Update::adam ? ir::attr_int(attrs, "step") : 0](
                             const Moment& moment) -> std::array<double, 3> {
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
    constexpr Update::What old[] = {Update::w, Update::m, Update::v},
                           next[] = {Update::new_w, Update::new_m, Update::new_v};
    size_t copies = 0;
    for (size_t t = 0; t < updates.tensors; ++t) {
      Update::Tensor& tensor = u.tensor[u.tensors++] = {};
      tensor.count = act.call.inputs[updates.input(t, 0)].elements();
      tensor.set(Update::g, act.in(updates.gradient(t)));
      for (size_t s = 0; s < updates.states(); ++s) {
        tensor.set(old[s], act.in(updates.input(t, s)));
        tensor.set(next[s], act.out(updates.output(t, s)));
      }
      if (copies < updates.copies.size() && updates.copies[copies] == t)
        tensor.set(Update::copy, act.out(updates.copy_at(copies++)));
      if (u.tensors < Update::most && t + 1 < updates.tensors) continue;
      launch_update(u, wide, act.stream);
      u.tensors = 0;
    }
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
  table.insert({{"sgd", make_update},
                {"momentum", make_update},
                {"adam", make_update},
                {"sgd_all", make_update},
                {"momentum_all", make_update},
                {"adam_all", make_update},
                {"clip_scale", make_clip_scale}});
}

}  // namespace boxcar::backends::cuda
