#include <cmath>
#include <map>

#include "backends/cpu/reference.h"
#include "ir/ops/optimizers.h"
#include "ir/ops/updates.h"

namespace boxcar::backends::cpu {
namespace {

// The gradient times the optional factor, which comes after `operands` tensors.
double factor(const Tensors& in, size_t operands) { return in.size() > operands ? in[operands].data[0] : 1; }

// Leaves the state unchanged if the optional last operand says that gradients are not finite. Returns whether
// it did.
bool skip(const Tensors& in, Tensors& out, size_t operands) {
  if (in.size() < operands + 2 || in[operands + 1].data[0] != 0) return false;
  out[0].data = in[0].data;
  for (size_t i = 1; i < out.size(); ++i) out[i].data = in[i + 1].data;
  return true;
}

ir::Rates<double> rates_of(const ir::OptimizerRow& row, const ir::Attrs& attrs) {
  const ir::UpdateNumbers numbers = ir::numbers_of(row, attrs);
  ir::Rates<double> rates = {};
  rates.lr = numbers.lr, rates.decay = numbers.decay;
  for (int i = 0; i < row.numbers; ++i) {
    rates.number[i] = numbers.number[i];
    rates.rest[i] = 1 - numbers.number[i];
    rates.left[i] = ir::left_of(row, numbers.number[i], numbers.step);
  }
  return rates;
}

template <class Op>
void update(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  constexpr size_t states = 1 + Op::row.moments;
  const size_t operands = ir::operands_of(Op::row);
  if (skip(in, out, operands)) return;
  const double scale = factor(in, operands);
  ir::Rates<double> rates = rates_of(Op::row, attrs);
  if constexpr (Op::row.has_trust()) {
    const std::vector<double>& norms = in[states + 1].data;
    rates.trust = Op::trust(rates, std::sqrt(norms[0]), std::sqrt(norms[1]));
  }
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    double state[states] = {in[0].data[i]};
    for (size_t s = 1; s < states; ++s) state[s] = in[s + 1].data[i];
    Op::exact(rates, scale * in[1].data[i], state);
    for (size_t s = 0; s < states; ++s) out[s].data[i] = state[s];
  }
}

// Adds up the gradients of each row that occurs, in order, and updates these rows.
template <class Op>
void update_rows(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  constexpr size_t states = 1 + Op::row.moments;
  const HostTensor& indices = in[states + 1];
  const auto rows = in[0].type.shape[0], width = in[0].type.shape[1], offset = ir::attr_int(attrs, "offset");
  const ir::Rates<double> rates = rates_of(Op::row, attrs);
  std::map<int64_t, std::vector<double>> gradients;
  for (size_t j = 0; j < indices.data.size(); ++j) {
    const int64_t row = static_cast<int64_t>(indices.data[j]) - offset;
    if (row < 0 || row >= rows) continue;
    std::vector<double>& sum = gradients.try_emplace(row, static_cast<size_t>(width)).first->second;
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += in[1].data[j * sum.size() + k];
  }
  for (size_t s = 0; s < states; ++s) out[s].data = in[s == 0 ? 0 : s + 1].data;
  for (const auto& [row, gradient] : gradients)
    for (size_t k = 0; k < gradient.size(); ++k) {
      const size_t i = static_cast<size_t>(row * width) + k;
      double state[states];
      for (size_t s = 0; s < states; ++s) state[s] = out[s].data[i];
      Op::exact(rates, gradient[k], state);
      for (size_t s = 0; s < states; ++s) out[s].data[i] = state[s];
    }
}

template <class Op>
void norms(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  constexpr size_t states = 1 + Op::row.measured_moments;
  const double scale = factor(in, states + 1);
  const ir::Rates<double> rates = rates_of(Op::row, attrs);
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    double state[states] = {in[0].data[i]};
    for (size_t s = 1; s < states; ++s) state[s] = in[s + 1].data[i];
    const double measured = Op::exact_measured(rates, scale * in[1].data[i], state);
    out[0].data[0] += state[0] * state[0];
    out[0].data[1] += measured * measured;
  }
}

// Runs the op for one tensor on each, then makes the copies.
template <class Op>
void each_tensor(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const ir::Updates updates = *ir::updates_of(ir::all_op(Op::row), attrs);
  for (size_t t = 0; t < updates.tensors; ++t) {
    const auto first = out.begin() + static_cast<std::ptrdiff_t>(updates.output(t, 0));
    Tensors results(first, first + static_cast<std::ptrdiff_t>(updates.states()));
    update<Op>(updates.of_tensor(in, t), results, attrs);
    std::move(results.begin(), results.end(), first);
  }
  for (size_t c = 0; c < updates.copies.size(); ++c)
    out[updates.copy_at(c)].data = out[updates.output(updates.copies[c], 0)].data;
}

void second_moment(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  out[0].data = in[1].data;
  if (in.size() > 2 && in[2].data[0] == 0) return;
  const double part = ir::part_of_step(attrs, 0), eps = ir::attr_float(attrs, "eps");
  for (size_t i = 0; i < in[0].data.size(); ++i)
    out[0].data[i] = (1 - part) * in[1].data[i] + part * (in[0].data[i] + eps);
}

// One micro-batch: the running sum starts at zero.
void accumulate(const Tensors& in, Tensors& out, const ir::Attrs&) { out[0].data = in[0].data; }

void square_sum(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for (double x : in[0].data) out[0].data[0] += x * x;
}

void sum(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for (const HostTensor& x : in)
    for (size_t i = 0; i < x.data.size(); ++i) out[0].data[i] += x.data[i];
}

void all_finite(const Tensors& in, Tensors& out, const ir::Attrs&) {
  out[0].data[0] = 1;
  for (double x : in[0].data) {
    if (!std::isfinite(x)) out[0].data[0] = 0;
  }
}

// The factor on every gradient: one over the loss scale, and less if the true norm exceeds max_norm (0:
// never).
void clip_scale(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const double loss_scale = ir::attr_float(attrs, "loss_scale"), most = ir::attr_float(attrs, "max_norm");
  const double norm = std::sqrt(in[0].data[0]) / loss_scale;
  out[0].data[0] = (most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0) / loss_scale;
}

}  // namespace

void add_update_kernels(KernelTable& table) {
  ir::each_optimizer([&]<class Op>() {
    table[Op::row.name] = update<Op>;
    table[ir::all_op(Op::row)] = each_tensor<Op>;
    if constexpr (Op::row.has_trust()) table[ir::norms_op(Op::row)] = norms<Op>;
    if constexpr (Op::row.takes_rows()) table[ir::rows_op(Op::row)] = update_rows<Op>;
  });
  table.insert({{"accumulate", accumulate},
                {"second_moment", second_moment},
                {"square_sum", square_sum},
                {"sum", sum},
                {"all_finite", all_finite},
                {"clip_scale", clip_scale}});
}

}  // namespace boxcar::backends::cpu
