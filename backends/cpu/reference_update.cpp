#include <cmath>

#include "backends/cpu/reference.h"
#include "ir/ops/updates.h"

namespace boxcar::backends::cpu {
namespace {

// The gradient times the optional factor, which stands after `operands` tensors.
double factor(const Tensors& in, size_t operands) { return in.size() > operands ? in[operands].data[0] : 1; }

// Where the optional last operand says that gradients are not finite, the state stays as it was. Returns
// whether.
bool skip(const Tensors& in, Tensors& out, size_t operands) {
  if (in.size() < operands + 2 || in[operands + 1].data[0] != 0) return false;
  out[0].data = in[0].data;
  for (size_t i = 1; i < out.size(); ++i) out[i].data = in[i + 1].data;
  return true;
}

void sgd(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  if (skip(in, out, 2)) return;
  const double scale = factor(in, 2);
  double lr = ir::attr_float(attrs, "lr"), decay = ir::attr_float(attrs, "weight_decay");
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    double w = in[0].data[i], g = scale * in[1].data[i];
    out[0].data[i] = w - lr * (g + decay * w);
  }
}

void momentum(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  if (skip(in, out, 3)) return;
  const double scale = factor(in, 3);
  double lr = ir::attr_float(attrs, "lr"), decay = ir::attr_float(attrs, "weight_decay");
  double mu = ir::attr_float(attrs, "momentum");
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    double w = in[0].data[i], g = scale * in[1].data[i];
    double m = mu * in[2].data[i] + g + decay * w;
    out[0].data[i] = w - lr * m;
    out[1].data[i] = m;
  }
}

// Decoupled weight decay (AdamW), bias-corrected.
void adam(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  if (skip(in, out, 4)) return;
  const double scale = factor(in, 4);
  double lr = ir::attr_float(attrs, "lr"), decay = ir::attr_float(attrs, "weight_decay");
  double beta1 = ir::attr_float(attrs, "beta1"), beta2 = ir::attr_float(attrs, "beta2");
  auto step = static_cast<double>(ir::attr_int(attrs, "step"));
  double correct1 = 1 - std::pow(beta1, step), correct2 = 1 - std::pow(beta2, step);
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    double w = in[0].data[i], g = scale * in[1].data[i];
    double m = beta1 * in[2].data[i] + (1 - beta1) * g;
    double v = beta2 * in[3].data[i] + (1 - beta2) * g * g;
    double direction = m / correct1 / (std::sqrt(v / correct2) + ir::attr_float(attrs, "eps"));
    out[0].data[i] = w - lr * (direction + decay * w);
    out[1].data[i] = m;
    out[2].data[i] = v;
  }
}

// The op for one tensor, `one`, on each; then the copies.
template <ReferenceKernel one, const char* name>
void each_tensor(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const ir::Updates updates = *ir::updates_of(name, attrs);
  for (size_t t = 0; t < updates.tensors; ++t) {
    const auto first = out.begin() + static_cast<std::ptrdiff_t>(updates.output(t, 0));
    Tensors results(first, first + static_cast<std::ptrdiff_t>(updates.states()));
    one(updates.of_tensor(in, t), results, attrs);
    std::move(results.begin(), results.end(), first);
  }
  for (size_t c = 0; c < updates.copies.size(); ++c)
    out[updates.copy_at(c)].data = out[updates.output(updates.copies[c], 0)].data;
}
constexpr char sgd_all[] = "sgd_all", momentum_all[] = "momentum_all", adam_all[] = "adam_all";

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

// What every gradient is multiplied by: one over the loss scale, and less where the true norm exceeds
// max_norm (0: never).
void clip_scale(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const double loss_scale = ir::attr_float(attrs, "loss_scale"), most = ir::attr_float(attrs, "max_norm");
  const double norm = std::sqrt(in[0].data[0]) / loss_scale;
  out[0].data[0] = (most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0) / loss_scale;
}

}  // namespace

void add_update_kernels(KernelTable& table) {
  table.insert({{"sgd", sgd},
                {"momentum", momentum},
                {"adam", adam},
                {sgd_all, each_tensor<sgd, sgd_all>},
                {momentum_all, each_tensor<momentum, momentum_all>},
                {adam_all, each_tensor<adam, adam_all>},
                {"accumulate", accumulate},
                {"square_sum", square_sum},
                {"sum", sum},
                {"all_finite", all_finite},
                {"clip_scale", clip_scale}});
}

}  // namespace boxcar::backends::cpu
