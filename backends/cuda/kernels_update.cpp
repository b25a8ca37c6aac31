// Optimizers. Operands: w g, the rule's state, then scale and finite if present.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cuda/kernel_table.h"
#include "backends/cuda/kernels/update_rows.h"
#include "ir/ops/optimizers.h"
#include "ir/ops/updates.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

// Throws Error (fault) for an optimizer that has no row.
ir::Optimizer rule_of(std::string_view name) {
  const auto rows = ir::optimizer_rows();
  for (size_t i = 0; i < rows.size(); ++i)
    if (name == rows[i].name || name == ir::norms_op(rows[i]) || name == ir::rows_op(rows[i]))
      return static_cast<ir::Optimizer>(i);
  throw Error::fault(std::string(name), "is no optimizer");
}

// The numbers of a call's rule.
class Rule {
 public:
  Rule(const Call& call, ir::Optimizer rule)
      : rule_(rule), row_(ir::row_of(rule)), numbers_(ir::numbers_of(row_, call.attrs)) {}

  UpdateRule at(const Act& act) const {
    UpdateRule u;
    u.rule = rule_;
    u.weight_decay = numbers_.decay;
    std::copy(std::begin(numbers_.number), std::end(numbers_.number), u.number);
    // lr, then left_of() each number.
    const auto at_step = [&row = row_, numbers = numbers_](const Moment& moment) {
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
    return u;
  }

  // An update without tensors, whose factor and flag are at `scalars` of the act's operands.
  Update at(const Act& act, size_t scalars) const {
    const size_t given = act.call.inputs.size();
    Update u;
    static_cast<UpdateRule&>(u) = at(act);
    if (given > scalars) u.scale = act.in(scalars);
    if (given > scalars + 1) u.finite = act.in(scalars + 1);
    return u;
  }

 private:
  ir::Optimizer rule_;
  const ir::OptimizerRow& row_;
  ir::UpdateNumbers numbers_;
};

constexpr Update::What old_states[] = {Update::w, Update::m, Update::v},
                       new_states[] = {Update::new_w, Update::new_m, Update::new_v};

// One tensor or many, as many to a kernel as it takes.
std::unique_ptr<Kernel> make_update(const Call& call, const Place& place) {
  const bool wide = any_float64(call);
  const ir::Updates updates = *ir::updates_of(call.op, call.attrs);
  return kernel(call, place, 0, [wide, updates, rule = Rule(call, rule_of(updates.rule))](const Act& act) {
    Update u = rule.at(act, updates.scalars_at());
    size_t copies = 0;
    for (size_t t = 0; t < updates.tensors; ++t) {
      Update::Tensor& tensor = u.tensor[u.tensors++] = {};
      tensor.count = act.call.inputs[updates.input(t, 0)].elements();
      tensor.set(Update::g, act.in(updates.gradient(t)));
      if (updates.has_norms) tensor.set(Update::norms, act.in(updates.norms(t)));
      for (size_t s = 0; s < updates.states(); ++s) {
        tensor.set(old_states[s], act.in(updates.input(t, s)));
        tensor.set(new_states[s], act.out(updates.output(t, s)));
      }
      if (copies < updates.copies.size() && updates.copies[copies] == t)
        tensor.set(Update::copy, act.out(updates.copy_at(copies++)));
      if (u.tensors < Update::most && t + 1 < updates.tensors) continue;
      launch_update(u, wide, act.stream);
      u.tensors = 0;
    }
  });
}

// Updates the rows of a table that the last operand names.
std::unique_ptr<Kernel> make_update_rows(const Call& call, const Place& place) {
  Gather read;
  read.extent = call.inputs[0].shape[0], read.inner = call.inputs[0].shape[1];
  read.indices = call.inputs.back().elements();
  read.offset = ir::attr_int(call.attrs, "offset");
  return kernel(call, place, scratch_of_update(read),
                [read, wide = any_float64(call), rule = Rule(call, rule_of(call.op))](const Act& act) {
                  const size_t inputs = act.call.inputs.size();
                  RowsUpdate u;
                  static_cast<UpdateRule&>(u) = rule.at(act);
                  u.read = read;
                  u.read.out = act.in(1), u.read.index = act.in(inputs - 1);
                  for (size_t s = 0; s < act.call.outputs.size(); ++s) {
                    u.table.set(old_states[s], act.in(s == 0 ? 0 : s + 1));
                    u.table.set(new_states[s], act.out(s));
                  }
                  launch_update_rows(u, act.scratch, wide, act.stream);
                });
}

// Operands as an update's, of the moments those that are measured, without norms and flag.
std::unique_ptr<Kernel> make_norms(const Call& call, const Place& place) {
  const int64_t elements = call.inputs[0].elements();
  const ir::Optimizer named = rule_of(call.op);
  const auto states = static_cast<size_t>(1 + ir::row_of(named).measured_moments);
  return kernel(call, place, scratch_of_norms(elements),
                [elements, states, wide = any_float64(call), rule = Rule(call, named)](const Act& act) {
                  Update u = rule.at(act, states + 1);
                  Update::Tensor& tensor = u.tensor[u.tensors++];
                  tensor.count = elements;
                  tensor.set(Update::g, act.in(1));
                  for (size_t s = 0; s < states; ++s) tensor.set(old_states[s], act.in(s == 0 ? 0 : s + 1));
                  launch_norms(u, act.out(0), act.scratch, wide, act.stream);
                });
}

std::unique_ptr<Kernel> make_second_moment(const Call& call, const Place& place) {
  return kernel(call, place, 0, [attrs = call.attrs, wide = any_float64(call)](const Act& act) {
    const auto at_step = [attrs](const Moment& moment) { return ir::part_of_step(attrs, moment.step); };
    SecondMoment m;
    m.count = act.call.outputs[0].elements();
    m.fresh = act.in(0), m.old = act.in(1), m.next = act.out(0);
    if (act.call.inputs.size() > 2) m.finite = act.in(2);
    m.eps = ir::attr_float(attrs, "eps");
    m.part = at_step(act.moment);
    if (act.steps)
      m.step_part = static_cast<const double*>(act.steps->vary(1, [at_step](const Moment& moment, void* to) {
        const double now = at_step(moment);
        std::memcpy(to, &now, sizeof now);
      }));
    launch_second_moment(m, wide, act.stream);
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
  for (const ir::OptimizerRow& row : ir::optimizer_rows()) {
    table[row.name] = table[ir::all_op(row)] = make_update;
    if (row.has_trust()) table[ir::norms_op(row)] = make_norms;
    if (row.takes_rows()) table[ir::rows_op(row)] = make_update_rows;
  }
  table["second_moment"] = make_second_moment;
  table["clip_scale"] = make_clip_scale;
}

}  // namespace boxcar::backends::cuda
