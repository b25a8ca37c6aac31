// Optimizers. Operands: w g, the rule's state, then scale and finite where they are there.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cuda/kernel_table.h"
#include "ir/ops/optimizers.h"
#include "ir/ops/updates.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

// Throws Error (fault) for an optimizer that has no row.
ir::Optimizer rule_of(std::string_view name) {
  const auto rows = ir::optimizer_rows();
  for (size_t i = 0; i < rows.size(); ++i)
    if (name == rows[i].name) return static_cast<ir::Optimizer>(i);
  throw Error::fault(std::string(name), "is no optimizer");
}

// One tensor or many, as many to a kernel as it takes.
std::unique_ptr<Kernel> make_update(const Call& call, const Place& place) {
  const bool wide = any_float64(call);
  const ir::Updates updates = *ir::updates_of(call.op, call.attrs);
  const ir::Optimizer rule = rule_of(updates.rule);
  const ir::OptimizerRow& row = ir::row_of(rule);
  const ir::UpdateNumbers numbers = ir::numbers_of(row, call.attrs);
  return kernel(call, place, 0, [wide, updates, rule, &row, numbers](const Act& act) {
    const size_t scalars = updates.scalars_at(), given = act.call.inputs.size();
    Update u;
    u.rule = rule;
    if (given > scalars) u.scale = act.in(scalars);
    if (given > scalars + 1) u.finite = act.in(scalars + 1);
    u.weight_decay = numbers.decay;
    std::copy(std::begin(numbers.number), std::end(numbers.number), u.number);
    // lr, then left_of() each number.
    const auto at_step = [&row, numbers](const Moment& moment) {
      std::array<double, 1 + ir::OptimizerRow::most_numbers> values = {};
      values[0] = moment.learning_rate >= 0 ? moment.learning_rate : numbers.lr;
      for (size_t i = 1; i < values.size(); ++i)
        values[i] = ir::left_of(row, numbers.number[i - 1], numbers.step + moment.step);
      return values;
    };
    const auto values = at_step(act.moment);
    if (act.steps)
      u.step_values = static_cast<const double*>(
          act.steps->vary(static_cast<int64_t>(values.size()), [at_step](const Moment& moment, void* to) {
            const auto now = at_step(moment);
            std::memcpy(to, now.data(), sizeof now);
          }));
    u.lr = values[0];
    std::copy(values.begin() + 1, values.end(), u.left);
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
  for (const ir::OptimizerRow& row : ir::optimizer_rows())
    table[row.name] = table[ir::all_op(row)] = make_update;
  table["clip_scale"] = make_clip_scale;
}

}  // namespace boxcar::backends::cuda
