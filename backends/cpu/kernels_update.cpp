// Optimizer steps, in place or not; what clipping, overflow checks and accumulation over micro-batches need.
#include "backends/cpu/chunks.h"
#include "ir/ops/updates.h"

namespace boxcar::backends::cpu {
namespace {

// What the update ops share: w, g and state; then maybe a factor on the gradient and whether all gradients
// are finite, without which the state stays as it was.
template <class A, size_t states>
class Update {
 public:
  explicit Update(const Call& call) : count_(call.outputs[0].elements()), gradient_(call, 1) {
    for (size_t i = 0; i < states; ++i) {
      states_.emplace_back(call, operand(i));
      results_.emplace_back(call, i);
      bytes_.push_back(call.outputs[i].bytes());
    }
    for (size_t i = states + 1; i < call.inputs.size(); ++i) scalars_.emplace_back(call, i);
  }

  // step(count, g, states, results) for every chunk; g is not multiplied by the factor yet.
  template <class Step>
  void run(const Operands& operands, Step step) const {
    if (scalars_.size() > 1 && scalars_[1].element(operands, 0) == A(0)) return keep(operands);
    Chunk<A> from_gradient, from[states], to[states];
    for_chunks(count_, [&](int64_t at, int64_t n) {
      const A* loaded[states];
      A* results[states];
      for (size_t i = 0; i < states; ++i) {
        loaded[i] = states_[i].load(operands, at, n, from[i]);
        results[i] = to[i].at;
      }
      step(n, gradient_.load(operands, at, n, from_gradient), loaded, results);
      for (size_t i = 0; i < states; ++i) results_[i].store(to[i].at, operands, at, n);
    });
  }

  A factor(const Operands& operands) const {
    return scalars_.empty() ? A(1) : scalars_[0].element(operands, 0);
  }

 private:
  static size_t operand(size_t state) { return state == 0 ? 0 : state + 1; }  // w, g, then the others

  void keep(const Operands& operands) const {
    for (size_t i = 0; i < states; ++i) {
      const void* from = operands.inputs[operand(i)];
      if (bytes_[i] > 0 && from != operands.outputs[i])
        std::memcpy(operands.outputs[i], from, static_cast<size_t>(bytes_[i]));
    }
  }

  int64_t count_;
  In<A> gradient_;
  std::vector<In<A>> states_, scalars_;
  std::vector<Out<A>> results_;
  std::vector<int64_t> bytes_;
};

double learning_rate(const Operands& operands, double attribute) {
  return operands.moment.learning_rate >= 0 ? operands.moment.learning_rate : attribute;
}

std::unique_ptr<Kernel> make_sgd(const Call& call) {
  const double lr = ir::attr_float(call.attrs, "lr"), decay = ir::attr_float(call.attrs, "weight_decay");
  return for_acc(call, [&]<class A>() {
    return kernel([=, update = Update<A, 1>(call)](const Operands& operands) {
      const A rate = static_cast<A>(learning_rate(operands, lr)), scale = update.factor(operands);
      const A d = static_cast<A>(decay);
      update.run(operands, [=](int64_t n, const A* g, const A* const* state, A* const* result) {
        each(
            n, [=](A w, A gradient) { return w - rate * (scale * gradient + d * w); }, result[0], state[0],
            g);
      });
    });
  });
}

std::unique_ptr<Kernel> make_momentum(const Call& call) {
  const double lr = ir::attr_float(call.attrs, "lr"), decay = ir::attr_float(call.attrs, "weight_decay");
  const double momentum = ir::attr_float(call.attrs, "momentum");
  return for_acc(call, [&]<class A>() {
    return kernel([=, update = Update<A, 2>(call)](const Operands& operands) {
      const A rate = static_cast<A>(learning_rate(operands, lr)), scale = update.factor(operands);
      const A d = static_cast<A>(decay), mu = static_cast<A>(momentum);
      update.run(operands, [=](int64_t n, const A* g, const A* const* state, A* const* result) {
        each(
            n, [=](A w, A gradient, A m) { return mu * m + scale * gradient + d * w; }, result[1], state[0],
            g, state[1]);
        each(
            n, [=](A w, A m) { return w - rate * m; }, result[0], state[0], static_cast<const A*>(result[1]));
      });
    });
  });
}

// Decoupled weight decay (AdamW), bias-corrected.
struct AdamAttrs {
  explicit AdamAttrs(const ir::Attrs& attrs)
      : lr(ir::attr_float(attrs, "lr")),
        beta1(ir::attr_float(attrs, "beta1")),
        beta2(ir::attr_float(attrs, "beta2")),
        eps(ir::attr_float(attrs, "eps")),
        decay(ir::attr_float(attrs, "weight_decay")),
        step(ir::attr_int(attrs, "step")) {}
  double lr, beta1, beta2, eps, decay;
  int64_t step;  // of the first moment
};

std::unique_ptr<Kernel> make_adam(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([=, attrs = AdamAttrs(call.attrs), update = Update<A, 3>(call)](const Operands& operands) {
      const auto step = static_cast<double>(attrs.step + operands.moment.step);
      const A rate = static_cast<A>(learning_rate(operands, attrs.lr)), scale = update.factor(operands);
      const A beta1 = static_cast<A>(attrs.beta1), rest1 = static_cast<A>(1 - attrs.beta1);
      const A beta2 = static_cast<A>(attrs.beta2), rest2 = static_cast<A>(1 - attrs.beta2);
      const A correct1 = static_cast<A>(1 / (1 - std::pow(attrs.beta1, step)));
      const A correct2 = static_cast<A>(1 / (1 - std::pow(attrs.beta2, step)));
      const A eps = static_cast<A>(attrs.eps), decay = static_cast<A>(attrs.decay);
      update.run(operands, [=](int64_t n, const A* g, const A* const* state, A* const* result) {
        A *w = result[0], *m = result[1], *v = result[2];
        each(
            n, [=](A old, A gradient) { return beta1 * old + rest1 * (scale * gradient); }, m, state[1], g);
        each(
            n,
            [=](A old, A gradient) { return beta2 * old + rest2 * (scale * gradient) * (scale * gradient); },
            v, state[2], g);
        each(
            n,
            [=](A old, A mean, A square) {
              const A direction = mean * correct1 / (std::sqrt(square * correct2) + eps);
              return old - rate * (direction + decay * old);
            },
            w, state[0], static_cast<const A*>(m), static_cast<const A*>(v));
      });
    });
  });
}

// The kernel for one tensor on each, then casts to the copies.
std::unique_ptr<Kernel> make_update_all(const Call& call) {
  const ir::Updates updates = *ir::updates_of(call.op, call.attrs);
  const Factories& table = fast_kernels();
  std::vector<std::shared_ptr<Kernel>> steps, casts;
  for (size_t t = 0; t < updates.tensors; ++t) {
    const auto first = call.outputs.begin() + static_cast<std::ptrdiff_t>(updates.output(t, 0));
    steps.push_back(table.at(updates.rule)({updates.rule,
                                            updates.of_tensor(call.inputs, t),
                                            {first, first + static_cast<std::ptrdiff_t>(updates.states())},
                                            call.attrs}));
    if (!steps.back()) return nullptr;
  }
  for (size_t c = 0; c < updates.copies.size(); ++c) {
    const ir::TensorType& copy = call.outputs[updates.copy_at(c)];
    const ir::Attrs to = {{"to", ir::to_text(copy.dtype)}};
    casts.push_back(
        table.at("cast")({"cast", {call.outputs[updates.output(updates.copies[c], 0)]}, {copy}, to}));
    if (!casts.back()) return nullptr;
  }
  return kernel([=](const Operands& operands) {
    const std::vector<const void*> all(operands.inputs.begin(), operands.inputs.end());
    for (size_t t = 0; t < updates.tensors; ++t)
      steps[t]->run(updates.of_tensor(all, t),
                    operands.outputs.subspan(updates.output(t, 0), updates.states()), operands.moment);
    for (size_t c = 0; c < casts.size(); ++c) {
      const void* const weight = operands.outputs[updates.output(updates.copies[c], 0)];
      casts[c]->run({&weight, 1}, operands.outputs.subspan(updates.copy_at(c), 1), operands.moment);
    }
  });
}

// One micro-batch's gradient in the sum's type. Adding it to the others is the runtime's part.
std::unique_ptr<Kernel> make_accumulate(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.outputs[0].elements(), g = In<A>(call, 0),
                   sum = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from;
      for_chunks(count,
                 [&](int64_t at, int64_t n) { sum.store(g.load(operands, at, n, from), operands, at, n); });
    });
  });
}

std::unique_ptr<Kernel> make_square_sum(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.inputs[0].elements(), x = In<A>(call, 0),
                   y = Out<double>(call, 0)](const Operands& operands) {
      y.put(row_sum(operands, x, 0, count, [](A v) { return v * v; }), operands, 0);
    });
  });
}

std::unique_ptr<Kernel> make_all_finite(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.inputs[0].elements(), x = In<A>(call, 0),
                   y = Out<A>(call, 0)](const Operands& operands) {
      // x - x is 0 where x is finite, else NaN.
      const double sum = row_sum(operands, x, 0, count, [](A v) { return v - v; });
      y.put(sum == 0 ? 1 : 0, operands, 0);
    });
  });
}

// One over the loss scale, and less where the true norm exceeds max_norm (0: never).
std::unique_ptr<Kernel> make_clip_scale(const Call& call) {
  const double loss_scale = ir::attr_float(call.attrs, "loss_scale"),
               most = ir::attr_float(call.attrs, "max_norm");
  return for_acc(call, [&]<class A>() {
    return kernel([=, norm2 = In<double>(call, 0), factor = Out<double>(call, 0)](const Operands& operands) {
      const double norm = std::sqrt(norm2.element(operands, 0)) / loss_scale;
      factor.put((most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0) / loss_scale, operands, 0);
    });
  });
}

std::unique_ptr<Kernel> make_sum(const Call& call) {
  if (!ir::is_float(call.outputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    std::vector<In<A>> terms;
    for (size_t i = 0; i < call.inputs.size(); ++i) terms.emplace_back(call, i);
    return kernel([terms, count = call.outputs[0].elements(), y = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from, sum;
      for_chunks(count, [&](int64_t at, int64_t n) {
        std::copy_n(terms[0].load(operands, at, n, from), n, sum.at);
        for (size_t i = 1; i < terms.size(); ++i)
          change_each(
              n, [](A a, A b) { return a + b; }, sum.at, terms[i].load(operands, at, n, from));
        y.store(sum.at, operands, at, n);
      });
    });
  });
}

}  // namespace

void add_update_kernels(Factories& table) {
  table.insert({{"sgd", make_sgd},
                {"momentum", make_momentum},
                {"adam", make_adam},
                {"sgd_all", make_update_all},
                {"momentum_all", make_update_all},
                {"adam_all", make_update_all},
                {"accumulate", make_accumulate},
                {"square_sum", make_square_sum},
                {"all_finite", make_all_finite},
                {"clip_scale", make_clip_scale},
                {"sum", make_sum}});
}

}  // namespace boxcar::backends::cpu
