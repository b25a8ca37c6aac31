// Dropout and activations fused with their inputs' ops, each as one loop.
#include "backends/cpu/chunks.h"
#include "backends/cpu/drop_factors.h"
#include "backends/cpu/fast_math.h"

namespace boxcar::backends::cpu {
namespace {

std::unique_ptr<Kernel> make_dropout(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([shape = call.inputs[0].shape, count = call.inputs[0].elements(),
                   drop = Dropout(call.attrs, call.inputs[0].shape), x = In<A>(call, 0),
                   y = Out<A>(call, 0)](const Operands& operands) {
      const Dropout now = drop.at(operands.moment);
      Chunk<A> from, factors, to;
      for_chunks(count, [&](int64_t at, int64_t n) {
        drop_factors(now, shape, at, n, factors);
        each(
            n, [](A value, A factor) { return value * factor; }, to.at, x.load(operands, at, n, from),
            factors.at);
        y.store(to.at, operands, at, n);
      });
    });
  });
}

// body(at in the tensor, at in the row, count) for the chunks of rows.
template <class Body>
void row_chunks(int64_t count, int64_t width, Body body) {
  for (int64_t row = 0; row < count; row += width) {
    for_chunks(width, [&](int64_t at, int64_t n) { body(row + at, at, n); });
  }
}

std::unique_ptr<Kernel> make_bias_dropout_add(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([shape = call.inputs[0].shape, count = call.inputs[0].elements(),
                   drop = Dropout(call.attrs, call.inputs[0].shape), x = In<A>(call, 0),
                   bias = In<A>(call, 1), residual = In<A>(call, 2),
                   y = Out<A>(call, 0)](const Operands& operands) {
      const Dropout now = drop.at(operands.moment);
      Chunk<A> from, from_bias, from_residual, factors, to;
      row_chunks(count, shape.back(), [&](int64_t at, int64_t column, int64_t n) {
        const A* values = x.load(operands, at, n, from);
        const A* biases = bias.load(operands, column, n, from_bias);
        const A* rest = residual.load(operands, at, n, from_residual);
        if (now.drops()) {
          drop_factors(now, shape, at, n, factors);
          each(
              n, [](A v, A b, A f, A r) { return (v + b) * f + r; }, to.at, values, biases, factors.at, rest);
        } else {
          each(
              n, [](A v, A b, A r) { return v + b + r; }, to.at, values, biases, rest);
        }
        y.store(to.at, operands, at, n);
      });
    });
  });
}

template <auto& gelu>
std::unique_ptr<Kernel> bias_gelu(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.inputs[0].elements(), width = call.inputs[0].shape.back(), x = In<A>(call, 0),
                   bias = In<A>(call, 1), y = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from, from_bias, to;
      row_chunks(count, width, [&](int64_t at, int64_t column, int64_t n) {
        each(
            n, [](A v, A b) { return gelu(v + b); }, to.at, x.load(operands, at, n, from),
            bias.load(operands, column, n, from_bias));
        y.store(to.at, operands, at, n);
      });
    });
  });
}

template <auto& slope>
std::unique_ptr<Kernel> bias_gelu_grad(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.inputs[1].elements(), width = call.inputs[1].shape.back(),
                   dy = In<A>(call, 0), x = In<A>(call, 1), bias = In<A>(call, 2),
                   dx = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from_dy, from_x, from_bias, to;
      row_chunks(count, width, [&](int64_t at, int64_t column, int64_t n) {
        each(
            n, [](A d, A v, A b) { return d * slope(v + b); }, to.at, dy.load(operands, at, n, from_dy),
            x.load(operands, at, n, from_x), bias.load(operands, column, n, from_bias));
        dx.store(to.at, operands, at, n);
      });
    });
  });
}

constexpr auto kGelu = [](auto x) { return fast_gelu(x); };
constexpr auto kGeluTanh = [](auto x) { return fast_gelu_tanh(x); };
constexpr auto kGeluSlope = [](auto x) { return fast_gelu_slope(x); };
constexpr auto kGeluTanhSlope = [](auto x) { return fast_gelu_tanh_slope(x); };

std::unique_ptr<Kernel> make_bias_gelu(const Call& call) {
  return (ir::attr_bool(call.attrs, "tanh") ? bias_gelu<kGeluTanh> : bias_gelu<kGelu>)(call);
}
std::unique_ptr<Kernel> make_bias_gelu_grad(const Call& call) {
  return (ir::attr_bool(call.attrs, "tanh") ? bias_gelu_grad<kGeluTanhSlope>
                                            : bias_gelu_grad<kGeluSlope>)(call);
}

// --- silu(gate) up: gate and up apart, or in pairs beside each other

constexpr auto kSwiglu = [](auto gate, auto up) { return fast_silu(gate) * up; };
constexpr auto kDGate = [](auto dy, auto gate, auto up) { return dy * up * fast_silu_slope(gate); };
constexpr auto kDUp = [](auto dy, auto gate) { return dy * fast_silu(gate); };

std::unique_ptr<Kernel> make_swiglu(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.outputs[0].elements(), gate = In<A>(call, 0), up = In<A>(call, 1),
                   y = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from_gate, from_up, to;
      for_chunks(count, [&](int64_t at, int64_t n) {
        each(n, kSwiglu, to.at, gate.load(operands, at, n, from_gate), up.load(operands, at, n, from_up));
        y.store(to.at, operands, at, n);
      });
    });
  });
}

std::unique_ptr<Kernel> make_swiglu_grad(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.outputs[0].elements(), dy = In<A>(call, 0), gate = In<A>(call, 1),
                   up = In<A>(call, 2), dgate = Out<A>(call, 0),
                   dup = Out<A>(call, 1)](const Operands& operands) {
      Chunk<A> from_dy, from_gate, from_up, to;
      for_chunks(count, [&](int64_t at, int64_t n) {
        const A* d = dy.load(operands, at, n, from_dy);
        const A* g = gate.load(operands, at, n, from_gate);
        each(n, kDGate, to.at, d, g, up.load(operands, at, n, from_up));
        dgate.store(to.at, operands, at, n);
        each(n, kDUp, to.at, d, g);
        dup.store(to.at, operands, at, n);
      });
    });
  });
}

// Splits pairs of neighbours into two chunks, and joins them again. Goes to a multiple of kLanes, beyond
// which a chunk of pairs has zeros.
template <class A>
void unzip(int64_t count, const A* __restrict pairs, A* __restrict even, A* __restrict odd) {
  for (int64_t i = 0; i < count; ++i) {
    even[i] = pairs[2 * i];
    odd[i] = pairs[2 * i + 1];
  }
}

template <class A>
void zip(int64_t count, const A* __restrict even, const A* __restrict odd, A* __restrict pairs) {
  for (int64_t i = 0; i < count; ++i) {
    pairs[2 * i] = even[i];
    pairs[2 * i + 1] = odd[i];
  }
}

// Chunks of half the size, so that their pairs are a chunk.
template <class Body>
void pair_chunks(int64_t count, Body body) {
  for (int64_t at = 0; at < count; at += kChunk / 2) body(at, std::min(kChunk / 2, count - at));
}

std::unique_ptr<Kernel> make_swiglu_pairs(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.outputs[0].elements(), x = In<A>(call, 0),
                   y = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> pairs, gate{}, up{}, to;
      pair_chunks(count, [&](int64_t at, int64_t n) {
        unzip(n, x.load(operands, 2 * at, 2 * n, pairs), gate.at, up.at);
        each(n, kSwiglu, to.at, gate.at, up.at);
        y.store(to.at, operands, at, n);
      });
    });
  });
}

std::unique_ptr<Kernel> make_swiglu_pairs_grad(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.inputs[0].elements(), dy = In<A>(call, 0), x = In<A>(call, 1),
                   dx = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from, pairs, gate{}, up{}, dgate, dup;
      pair_chunks(count, [&](int64_t at, int64_t n) {
        const A* d = dy.load(operands, at, n, from);
        unzip(n, x.load(operands, 2 * at, 2 * n, pairs), gate.at, up.at);
        each(n, kDGate, dgate.at, d, gate.at, up.at);
        each(n, kDUp, dup.at, d, gate.at);
        zip(n, dgate.at, dup.at, pairs.at);
        dx.store(pairs.at, operands, 2 * at, 2 * n);
      });
    });
  });
}

// Rows of x times a number each.
template <class A>
void scale(int64_t count, A factor, A* numbers) {
  for (int64_t i = 0; i < count; ++i) numbers[i] *= factor;
}

std::unique_ptr<Kernel> make_weighed_swiglu_pairs(const Call& call) {
  return for_acc(call, [&]<class A>() {
    const int64_t n = call.outputs[0].shape.back(), rows = call.inputs[1].elements();
    return kernel(
        [n, rows, x = In<A>(call, 0), w = In<A>(call, 1), y = Out<A>(call, 0)](const Operands& operands) {
          Chunk<A> pairs, gate{}, up{}, to, one;
          for (int64_t row = 0; row < rows; ++row) {
            const A share = *w.load(operands, row, 1, one);
            pair_chunks(n, [&](int64_t at, int64_t count) {
              unzip(count, x.load(operands, 2 * (row * n + at), 2 * count, pairs), gate.at, up.at);
              each(count, kSwiglu, to.at, gate.at, up.at);
              scale(count, share, to.at);
              y.store(to.at, operands, row * n + at, count);
            });
          }
        });
  });
}

std::unique_ptr<Kernel> make_weighed_swiglu_pairs_grad(const Call& call) {
  return for_acc(call, [&]<class A>() {
    const int64_t n = call.inputs[0].shape.back(), rows = call.inputs[2].elements();
    return kernel([n, rows, dy = In<A>(call, 0), x = In<A>(call, 1), w = In<A>(call, 2), dx = Out<A>(call, 0),
                   dw = Out<A>(call, 1)](const Operands& operands) {
      Chunk<A> from, pairs, gate{}, up{}, y, dgate, dup, share{}, one;
      for (int64_t row = 0; row < rows; ++row) {
        const A factor = *w.load(operands, row, 1, one);
        A sum = 0;
        pair_chunks(n, [&](int64_t at, int64_t count) {
          const A* d = dy.load(operands, row * n + at, count, from);
          unzip(count, x.load(operands, 2 * (row * n + at), 2 * count, pairs), gate.at, up.at);
          each(count, kSwiglu, y.at, gate.at, up.at);
          for (int64_t i = 0; i < count; ++i) sum += d[i] * y.at[i], share.at[i] = d[i] * factor;
          each(count, kDGate, dgate.at, share.at, gate.at, up.at);
          each(count, kDUp, dup.at, share.at, gate.at);
          zip(count, dgate.at, dup.at, pairs.at);
          dx.store(pairs.at, operands, 2 * (row * n + at), 2 * count);
        });
        dw.store(&sum, operands, row, 1);
      }
    });
  });
}

}  // namespace

void add_gated_kernels(Factories& table) {
  table.insert({{"dropout", make_dropout},
                {"dropout_grad", make_dropout},
                {"bias_dropout_add", make_bias_dropout_add},
                {"bias_gelu", make_bias_gelu},
                {"bias_gelu_grad", make_bias_gelu_grad},
                {"swiglu", make_swiglu},
                {"swiglu_grad", make_swiglu_grad},
                {"swiglu_pairs", make_swiglu_pairs},
                {"swiglu_pairs_grad", make_swiglu_pairs_grad},
                {"weighed_swiglu_pairs", make_weighed_swiglu_pairs},
                {"weighed_swiglu_pairs_grad", make_weighed_swiglu_pairs_grad}});
}

}  // namespace boxcar::backends::cpu
