// Elementwise ops: of one operand, of several that broadcast, gradients of activations, cast, where,
// causal_mask.
#include "backends/cpu/broadcast_rows.h"
#include "backends/cpu/chunks.h"
#include "backends/cpu/fast_math.h"

namespace boxcar::backends::cpu {
namespace {

// Loops over a chunk. Kernels call them by address, so that the code around them is compiled once for all
// ops.
template <class A>
using Loop1 = void (*)(int64_t count, A* y, const A* x);
template <class A>
using Loop2 = void (*)(int64_t count, A* y, const A* a, const A* b);

// y = loop(x)
template <class A>
std::unique_ptr<Kernel> unary(const Call& call, Loop1<A> loop) {
  return kernel([loop, count = call.outputs[0].elements(), x = In<A>(call, 0),
                 y = Out<A>(call, 0)](const Operands& operands) {
    Chunk<A> from, to;
    for_chunks(count, [&](int64_t at, int64_t n) {
      loop(n, to.at, x.load(operands, at, n, from));
      y.store(to.at, operands, at, n);
    });
  });
}

// y = loop(a, b); a and b broadcast.
template <class A>
std::unique_ptr<Kernel> binary(const Call& call, Loop2<A> loop) {
  const BroadcastRows rows(call.outputs[0].shape, {call.inputs[0].shape, call.inputs[1].shape});
  return kernel(
      [rows, loop, a = In<A>(call, 0), b = In<A>(call, 1), y = Out<A>(call, 0)](const Operands& operands) {
        Chunk<A> from_a, from_b, to;
        rows.each([&](int64_t start, const int64_t* starts) {
          for_chunks(rows.width(), [&](int64_t at, int64_t n) {
            const auto load = [&](const In<A>& in, size_t i, Chunk<A>& buffer) {
              return in.load_step(operands, starts[i] + rows.step(i) * at, rows.step(i), n, buffer);
            };
            loop(n, to.at, load(a, 0, from_a), load(b, 1, from_b));
            y.store(to.at, operands, start + at, n);
          });
        });
      });
}

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSub = [](auto a, auto b) { return a - b; };
constexpr auto kMul = [](auto a, auto b) { return a * b; };
constexpr auto kDiv = [](auto a, auto b) { return a / b; };

constexpr auto kNeg = [](auto x) { return -x; };
constexpr auto kExp = [](auto x) { return fast_exp(x); };
constexpr auto kLog = [](auto x) { return std::log(x); };
constexpr auto kSqrt = [](auto x) { return std::sqrt(x); };
constexpr auto kRelu = []<class A>(A x) { return x > A(0) ? x : A(0); };
constexpr auto kSigmoid = [](auto x) { return fast_sigmoid(x); };
constexpr auto kTanh = [](auto x) { return fast_tanh(x); };
constexpr auto kGelu = [](auto x) { return fast_gelu(x); };
constexpr auto kGeluTanh = [](auto x) { return fast_gelu_tanh(x); };
constexpr auto kSilu = [](auto x) { return fast_silu(x); };

constexpr auto kReluGrad = []<class A>(A dy, A y) { return y > A(0) ? dy : A(0); };
constexpr auto kSigmoidGrad = []<class A>(A dy, A y) { return dy * y * (A(1) - y); };
constexpr auto kTanhGrad = []<class A>(A dy, A y) { return dy * (A(1) - y * y); };
constexpr auto kGeluGrad = [](auto dy, auto x) { return dy * fast_gelu_slope(x); };
constexpr auto kGeluTanhGrad = [](auto dy, auto x) { return dy * fast_gelu_tanh_slope(x); };
constexpr auto kSiluGrad = [](auto dy, auto x) { return dy * fast_silu_slope(x); };

template <auto& function>
std::unique_ptr<Kernel> make_unary(const Call& call) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return unary<A>(call, [](int64_t count, A* y, const A* x) { each(count, function, y, x); });
  });
}

template <auto& function>
std::unique_ptr<Kernel> make_binary(const Call& call) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return binary<A>(call,
                     [](int64_t count, A* y, const A* a, const A* b) { each(count, function, y, a, b); });
  });
}

std::unique_ptr<Kernel> make_gelu(const Call& call) {
  return (ir::attr_bool(call.attrs, "tanh") ? make_unary<kGeluTanh> : make_unary<kGelu>)(call);
}
std::unique_ptr<Kernel> make_gelu_grad(const Call& call) {
  return (ir::attr_bool(call.attrs, "tanh") ? make_binary<kGeluTanhGrad> : make_binary<kGeluGrad>)(call);
}

std::unique_ptr<Kernel> make_scale(const Call& call) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return kernel([factor = static_cast<A>(ir::attr_float(call.attrs, "factor")),
                   count = call.outputs[0].elements(), x = In<A>(call, 0),
                   y = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from, to;
      for_chunks(count, [&](int64_t at, int64_t n) {
        each(
            n, [factor](A v) { return factor * v; }, to.at, x.load(operands, at, n, from));
        y.store(to.at, operands, at, n);
      });
    });
  });
}

// 64-bit integers go through double, which holds them up to 2^53.
template <class A>
std::unique_ptr<Kernel> cast_in(const Call& call) {
  return kernel([count = call.outputs[0].elements(), x = In<A>(call, 0),
                 y = Out<A>(call, 0)](const Operands& operands) {
    Chunk<A> from;
    for_chunks(count,
               [&](int64_t at, int64_t n) { y.store(x.load(operands, at, n, from), operands, at, n); });
  });
}

std::unique_ptr<Kernel> make_identity(const Call& call) {
  return kernel([bytes = call.outputs[0].bytes()](const Operands& operands) {
    if (bytes > 0 && operands.outputs[0] != operands.inputs[0])
      std::memcpy(operands.outputs[0], operands.inputs[0], static_cast<size_t>(bytes));
  });
}

std::unique_ptr<Kernel> make_cast(const Call& call) {
  const ir::DType from = call.inputs[0].dtype, to = call.outputs[0].dtype;
  if (!is_stored(from) || !is_stored(to)) return nullptr;
  if (from == to) return make_identity(call);
  const auto needs_double = [](ir::DType dtype) {
    return dtype == ir::DType::float64 || dtype == ir::DType::int64 || dtype == ir::DType::int32;
  };
  return needs_double(from) || needs_double(to) ? cast_in<double>(call) : cast_in<float>(call);
}

// --- where moves elements of any type

template <class Bits>
std::unique_ptr<Kernel> where_of(const Call& call) {
  const BroadcastRows rows(call.outputs[0].shape,
                           {call.inputs[0].shape, call.inputs[1].shape, call.inputs[2].shape});
  return kernel([rows](const Operands& operands) {
    const auto* condition = operands.in<uint8_t>(0);
    const Bits *a = operands.in<Bits>(1), *b = operands.in<Bits>(2);
    rows.each([&](int64_t start, const int64_t* starts) {
      Bits* y = operands.out<Bits>(0) + start;
      for (int64_t i = 0; i < rows.width(); ++i) {
        const bool first = condition[starts[0] + i * rows.step(0)] != 0;
        y[i] = first ? a[starts[1] + i * rows.step(1)] : b[starts[2] + i * rows.step(2)];
      }
    });
  });
}

std::unique_ptr<Kernel> make_where(const Call& call) {
  switch (ir::size_of(call.outputs[0].dtype)) {
    case 1:
      return where_of<uint8_t>(call);
    case 2:
      return where_of<uint16_t>(call);
    case 4:
      return where_of<uint32_t>(call);
    default:
      return where_of<uint64_t>(call);
  }
}

// Row r keeps its first r + ahead + 1 columns.
std::unique_ptr<Kernel> make_causal_mask(const Call& call) {
  const ir::Shape& shape = call.inputs[0].shape;
  const int64_t rows = shape[shape.size() - 2], columns = shape.back(), count = call.inputs[0].elements();
  const int64_t ahead = ir::attr_int(call.attrs, "row_offset") - ir::attr_int(call.attrs, "column_offset");
  const int64_t size = ir::size_of(call.inputs[0].dtype);
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return kernel([=, fill = static_cast<A>(ir::attr_float(call.attrs, "fill")),
                   y = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> filled;
      std::fill_n(filled.at, kChunk, fill);
      for (int64_t row = 0; row * columns < count; ++row) {
        const int64_t start = row * columns;
        const int64_t kept = std::clamp<int64_t>(row % rows + ahead + 1, 0, columns);
        std::memcpy(operands.out<std::byte>(0) + start * size, operands.in<std::byte>(0) + start * size,
                    static_cast<size_t>(kept * size));
        for_chunks(columns - kept,
                   [&](int64_t at, int64_t n) { y.store(filled.at, operands, start + kept + at, n); });
      }
    });
  });
}

}  // namespace

void add_elementwise_kernels(Factories& table) {
  table.insert({{"add", make_binary<kAdd>},
                {"sub", make_binary<kSub>},
                {"mul", make_binary<kMul>},
                {"div", make_binary<kDiv>}});
  table.insert({{"identity", make_identity},
                {"neg", make_unary<kNeg>},
                {"exp", make_unary<kExp>},
                {"log", make_unary<kLog>},
                {"sqrt", make_unary<kSqrt>},
                {"relu", make_unary<kRelu>},
                {"sigmoid", make_unary<kSigmoid>},
                {"tanh", make_unary<kTanh>},
                {"gelu", make_gelu},
                {"silu", make_unary<kSilu>}});
  table.insert({{"relu_grad", make_binary<kReluGrad>},
                {"sigmoid_grad", make_binary<kSigmoidGrad>},
                {"tanh_grad", make_binary<kTanhGrad>},
                {"gelu_grad", make_gelu_grad},
                {"silu_grad", make_binary<kSiluGrad>}});
  table.insert(
      {{"scale", make_scale}, {"cast", make_cast}, {"where", make_where}, {"causal_mask", make_causal_mask}});
}

}  // namespace boxcar::backends::cpu
