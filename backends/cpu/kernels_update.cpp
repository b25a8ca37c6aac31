// Optimizer steps, in place or not, and kernels for clipping, overflow checks and accumulation over
// micro-batches.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "backends/cpu/chunks.h"
#include "backends/cpu/fast_math.h"
#include "ir/ops/batch_statistics.h"
#include "ir/ops/optimizers.h"
#include "ir/ops/updates.h"

namespace boxcar::backends::cpu {
namespace {

// Operands of an optimizer's op: w, g and the moments, and the norms of a row with a trust ratio; then
// possibly a factor on the gradient and a flag whether all gradients are finite.
template <class A, size_t states>
class Reader {
 public:
  // `scalars_at`: the factor's operand.
  Reader(const Call& call, size_t scalars_at) : count_(call.inputs[0].elements()), gradient_(call, 1) {
    for (size_t i = 0; i < states; ++i) states_.emplace_back(call, operand(i));
    for (size_t i = states + 1; i < call.inputs.size(); ++i)
      (i < scalars_at ? norms_ : scalars_).emplace_back(call, i);
  }

  // body(at, count, g, states) for every chunk; g is not multiplied by the factor yet.
  template <class Body>
  void each_chunk(const Operands& operands, Body body) const {
    Chunk<A> from_gradient, from[states];
    for_chunks(count_, [&](int64_t at, int64_t n) {
      const A* loaded[states];
      for (size_t i = 0; i < states; ++i) loaded[i] = states_[i].load(operands, at, n, from[i]);
      body(at, n, gradient_.load(operands, at, n, from_gradient), loaded);
    });
  }

  A factor(const Operands& operands) const {
    return scalars_.empty() ? A(1) : scalars_[0].element(operands, 0);
  }
  bool is_finite(const Operands& operands) const {
    return scalars_.size() < 2 || scalars_[1].element(operands, 0) != A(0);
  }
  A norm(const Operands& operands, int64_t which) const {
    return std::sqrt(norms_[0].element(operands, which));
  }

 protected:
  static size_t operand(size_t state) { return state == 0 ? 0 : state + 1; }  // w, g, then the others

 private:
  int64_t count_;
  In<A> gradient_;
  std::vector<In<A>> states_, norms_, scalars_;
};

// An update. If gradients are not finite, the state is unchanged.
template <class A, size_t states>
class Update : public Reader<A, states> {
 public:
  Update(const Call& call, size_t scalars_at) : Reader<A, states>(call, scalars_at) {
    for (size_t i = 0; i < states; ++i) {
      results_.emplace_back(call, i);
      bytes_.push_back(call.outputs[i].bytes());
    }
  }

  // step(count, g, states, results) for every chunk.
  template <class Step>
  void run(const Operands& operands, Step step) const {
    if (!this->is_finite(operands)) return keep(operands);
    Chunk<A> to[states];
    A* results[states];
    for (size_t i = 0; i < states; ++i) results[i] = to[i].at;
    this->each_chunk(operands, [&](int64_t at, int64_t n, const A* g, const A* const* loaded) {
      step(n, g, loaded, results);
      for (size_t i = 0; i < states; ++i) results_[i].store(to[i].at, operands, at, n);
    });
  }

 private:
  void keep(const Operands& operands) const {
    for (size_t i = 0; i < states; ++i) {
      const void* from = operands.inputs[this->operand(i)];
      if (bytes_[i] > 0 && from != operands.outputs[i])
        std::memcpy(operands.outputs[i], from, static_cast<size_t>(bytes_[i]));
    }
  }

  std::vector<Out<A>> results_;
  std::vector<int64_t> bytes_;
};

template <class A>
ir::Rates<A> rates_at(const ir::OptimizerRow& row, const ir::UpdateNumbers& numbers, const Moment& moment) {
  ir::Rates<A> rates = {};
  rates.lr = static_cast<A>(moment.learning_rate >= 0 ? moment.learning_rate : numbers.lr);
  rates.decay = static_cast<A>(numbers.decay);
  for (int i = 0; i < row.numbers; ++i) {
    const double number = numbers.number[i];
    rates.number[i] = static_cast<A>(number);
    rates.rest[i] = static_cast<A>(1 - number);
    rates.left[i] = static_cast<A>(1 / ir::left_of(row, number, numbers.step + moment.step));
  }
  return rates;
}

// A chunk of an optimizer's states; states beyond its moments are neither read nor written.
template <class Op, class A>
void update_each(int64_t count, const ir::Rates<A>& rates, A scale, const A* g, const A* const* states,
                 A* const* results) {
  constexpr int moments = Op::row.moments;
  on_vectors(
      [](int64_t n, ir::Rates<A> r, A factor, const A* __restrict gradient, const A* __restrict w,
         const A* __restrict m, const A* __restrict v, A* __restrict new_w, A* __restrict new_m,
         A* __restrict new_v) {
        for (int64_t b = 0; b < n; b += kLanes) {
          for (int64_t i = b; i < b + kLanes; ++i) {
            A state[3] = {w[i], moments > 0 ? m[i] : A(0), moments > 1 ? v[i] : A(0)};
            Op::template update<FastMath>(r, factor * gradient[i], state);
            new_w[i] = state[0];
            if constexpr (moments > 0) new_m[i] = state[1];
            if constexpr (moments > 1) new_v[i] = state[2];
          }
        }
      },
      count, rates, scale, g, states[0], moments > 0 ? states[1] : nullptr, moments > 1 ? states[2] : nullptr,
      results[0], moments > 0 ? results[1] : nullptr, moments > 1 ? results[2] : nullptr);
}

template <class Op>
std::unique_ptr<Kernel> make_update(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel(
        [numbers = ir::numbers_of(Op::row, call.attrs),
         update = Update<A, 1 + Op::row.moments>(call, ir::operands_of(Op::row))](const Operands& operands) {
          ir::Rates<A> rates = rates_at<A>(Op::row, numbers, operands.moment);
          if constexpr (Op::row.has_trust())
            rates.trust = Op::trust(rates, update.norm(operands, 0), update.norm(operands, 1));
          const A scale = update.factor(operands);
          update.run(operands, [&](int64_t n, const A* g, const A* const* state, A* const* result) {
            update_each<Op>(n, rates, scale, g, state, result);
          });
        });
  });
}

// Sums of squares: of the weights, and of what the row measures.
template <class Op>
std::unique_ptr<Kernel> make_norms(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([numbers = ir::numbers_of(Op::row, call.attrs), sums = Out<double>(call, 0),
                   reader = Reader<A, 1 + Op::row.measured_moments>(call, 2 + Op::row.measured_moments)](
                      const Operands& operands) {
      const ir::Rates<A> rates = rates_at<A>(Op::row, numbers, operands.moment);
      const A scale = reader.factor(operands);
      const auto square = [rates, scale](A g, A w, A m, A v) {
        const A state[3] = {w, m, v};
        const A value = Op::template measured<FastMath>(rates, scale * g, state);
        return value * value;
      };
      double weights = 0, measured = 0;
      reader.each_chunk(operands, [&](int64_t, int64_t n, const A* g, const A* const* state) {
        weights += sum_of(
            n, [](A w) { return w * w; }, state[0]);
        measured += sum_of(n, square, g, state[0], state[Op::row.measured_moments > 0 ? 1 : 0],
                           state[Op::row.measured_moments > 1 ? 2 : 0]);
      });
      sums.put(weights, operands, 0);
      sums.put(measured, operands, 1);
    });
  });
}

// An update of the rows of a table that indices name: sorts the indices by row, adds up each row's gradients
// in their order, and updates the row.
template <class Op, class A>
class UpdateRows {
 public:
  explicit UpdateRows(const Call& call)
      : numbers_(ir::numbers_of(Op::row, call.attrs)),
        rows_(call.inputs[0].shape[0]),
        width_(call.inputs[0].shape[1]),
        count_(call.inputs.back().elements()),
        offset_(ir::attr_int(call.attrs, "offset")),
        dy_(call, 1),
        indices_(call, states + 1) {
    for (size_t s = 0; s < states; ++s) {
      from_.emplace_back(call, operand(s));
      to_.emplace_back(call, s);
      bytes_.push_back(call.outputs[s].bytes());
    }
  }

  void operator()(const Operands& operands) {
    for (size_t s = 0; s < states; ++s)
      if (const void* from = operands.inputs[operand(s)]; bytes_[s] > 0 && from != operands.outputs[s])
        std::memcpy(operands.outputs[s], from, static_cast<size_t>(bytes_[s]));
    hits_.clear();
    for (int64_t j = 0; j < count_; ++j) {
      const int64_t row = static_cast<int64_t>(indices_.element(operands, j)) - offset_;
      if (row >= 0 && row < rows_) hits_.emplace_back(row, j);
    }
    std::sort(hits_.begin(), hits_.end());
    const ir::Rates<A> rates = rates_at<A>(Op::row, numbers_, operands.moment);
    for (auto first = hits_.begin(), end = first; first != hits_.end(); first = end) {
      end = std::find_if(first, hits_.end(), [&](const Hit& hit) { return hit.first != first->first; });
      update(operands, rates, {first, end});
    }
  }

 private:
  using Hit = std::pair<int64_t, int64_t>;  // a row, and the place of its index
  static constexpr size_t states = 1 + Op::row.moments;
  static size_t operand(size_t state) { return state == 0 ? 0 : state + 1; }

  void update(const Operands& operands, const ir::Rates<A>& rates, std::span<const Hit> hits) {
    const A* loaded[states];
    A* results[states];
    for (size_t s = 0; s < states; ++s) results[s] = new_[s].at;
    for_chunks(width_, [&](int64_t at, int64_t n) {
      std::fill_n(sum_.at, kChunk, A(0));
      for (const auto& [row, j] : hits)
        change_each(
            n, [](A sum, A more) { return sum + more; }, sum_.at,
            dy_.load(operands, j * width_ + at, n, buffer_));
      const int64_t here = hits[0].first * width_ + at;
      for (size_t s = 0; s < states; ++s) loaded[s] = from_[s].load(operands, here, n, old_[s]);
      update_each<Op>(n, rates, A(1), sum_.at, loaded, results);
      for (size_t s = 0; s < states; ++s) to_[s].store(new_[s].at, operands, here, n);
    });
  }

  ir::UpdateNumbers numbers_;
  int64_t rows_, width_, count_, offset_;
  In<A> dy_;
  In<double> indices_;  // holds integers up to 2^53
  std::vector<In<A>> from_;
  std::vector<Out<A>> to_;
  std::vector<int64_t> bytes_;
  std::vector<Hit> hits_;
  Chunk<A> sum_, buffer_, old_[states], new_[states];
};

template <class Op>
std::unique_ptr<Kernel> make_update_rows(const Call& call) {
  return for_acc(call, [&]<class A>() { return kernel(UpdateRows<Op, A>(call)); });
}

// Runs the kernel for one tensor on each, then casts to the copies.
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

// One micro-batch's gradient in the sum's type. The runtime adds it to the others.
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

std::unique_ptr<Kernel> make_second_moment(const Call& call) {
  return for_acc(call, [&]<class A>() {
    std::optional<In<A>> finite;
    if (call.inputs.size() > 2) finite.emplace(call, 2);
    return kernel([attrs = call.attrs, count = call.outputs[0].elements(), finite, fresh = In<A>(call, 0),
                   old = In<A>(call, 1), next = Out<A>(call, 0)](const Operands& operands) {
      const bool moves = !finite || finite->element(operands, 0) != 0;
      const double new_part = ir::part_of_step(attrs, operands.moment.step);
      const A part = static_cast<A>(new_part), rest = static_cast<A>(1 - new_part);
      const A eps = static_cast<A>(ir::attr_float(attrs, "eps"));
      Chunk<A> from, from_fresh, to;
      for_chunks(count, [&](int64_t at, int64_t n) {
        const A* kept = old.load(operands, at, n, from);
        if (moves)
          each(
              n, [=](A a, A b) { return rest * a + part * (b + eps); }, to.at, kept,
              fresh.load(operands, at, n, from_fresh));
        else
          std::copy_n(kept, n, to.at);
        next.store(to.at, operands, at, n);
      });
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
      // x - x is 0 if x is finite, otherwise NaN.
      const double sum = row_sum(operands, x, 0, count, [](A v) { return v - v; });
      y.put(sum == 0 ? 1 : 0, operands, 0);
    });
  });
}

// One over the loss scale, and less if the true norm exceeds max_norm (0: never).
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
  ir::each_optimizer([&]<class Op>() {
    table[Op::row.name] = make_update<Op>;
    table[ir::all_op(Op::row)] = make_update_all;
    if constexpr (Op::row.has_trust()) table[ir::norms_op(Op::row)] = make_norms<Op>;
    if constexpr (Op::row.takes_rows()) table[ir::rows_op(Op::row)] = make_update_rows<Op>;
  });
  table.insert({{"accumulate", make_accumulate},
                {ir::accumulate_statistics_op, make_accumulate},
                {"second_moment", make_second_moment},
                {"square_sum", make_square_sum},
                {"all_finite", make_all_finite},
                {"clip_scale", make_clip_scale},
                {"sum", make_sum}});
}

}  // namespace boxcar::backends::cpu
