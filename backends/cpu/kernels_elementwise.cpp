// Elementwise ops: of one operand, of several that broadcast, gradients of activations, cast, where,
// causal_mask.
#include "backends/cpu/broadcast_rows.h"
#include "backends/cpu/chunks.h"
#include "backends/cpu/pointwise_loops.h"

namespace boxcar::backends::cpu {
namespace {

// Loops over a chunk. Kernels call them by address, so that the code around them is compiled once for all
// ops. `number` is the op's parameter if that is a number.
template <class A>
using Loop1 = void (*)(int64_t count, A* y, const A* x, A number);
template <class A>
using Loop2 = void (*)(int64_t count, A* y, const A* a, const A* b, A number);

// y = loop(x)
template <class A>
std::unique_ptr<Kernel> unary(const Call& call, Loop1<A> loop, A number = 0) {
  return kernel([loop, number, count = call.outputs[0].elements(), x = In<A>(call, 0),
                 y = Out<A>(call, 0)](const Operands& operands) {
    Chunk<A> from, to;
    for_chunks(count, [&](int64_t at, int64_t n) {
      loop(n, to.at, x.load(operands, at, n, from), number);
      y.store(to.at, operands, at, n);
    });
  });
}

// y = loop(a, b); a and b broadcast.
template <class A>
std::unique_ptr<Kernel> binary(const Call& call, Loop2<A> loop, A number = 0) {
  const BroadcastRows rows(call.outputs[0].shape, {call.inputs[0].shape, call.inputs[1].shape});
  return kernel([rows, loop, number, a = In<A>(call, 0), b = In<A>(call, 1),
                 y = Out<A>(call, 0)](const Operands& operands) {
    Chunk<A> from_a, from_b, to;
    rows.each([&](int64_t start, const int64_t* starts) {
      for_chunks(rows.width(), [&](int64_t at, int64_t n) {
        const auto load = [&](const In<A>& in, size_t i, Chunk<A>& buffer) {
          return in.load_step(operands, starts[i] + rows.step(i) * at, rows.step(i), n, buffer);
        };
        loop(n, to.at, load(a, 0, from_a), load(b, 1, from_b), number);
        y.store(to.at, operands, start + at, n);
      });
    });
  });
}

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSub = [](auto a, auto b) { return a - b; };
constexpr auto kMul = [](auto a, auto b) { return a * b; };
constexpr auto kDiv = [](auto a, auto b) { return a / b; };

template <auto& function>
std::unique_ptr<Kernel> make_binary(const Call& call) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return binary<A>(call,
                     [](int64_t count, A* y, const A* a, const A* b, A) { each(count, function, y, a, b); });
  });
}

template <class A, class P>
A number_of(P p) {
  if constexpr (std::is_same_v<P, A>)
    return p;
  else
    return 0;
}

// The parameter as P: the number, or P itself if it is a type.
template <class P, class A>
P parameter(A number) {
  if constexpr (std::is_same_v<P, A>)
    return number;
  else
    return {};
}

template <class Op>
std::unique_ptr<Kernel> make_pointwise(const Call& call) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return with_parameter<Op, A>(call.attrs, [&]<class P>(P p) {
      return unary<A>(
          call,
          [](int64_t count, A* y, const A* x, A number) {
            each(
                count, [p = parameter<P>(number)](A v) { return forward<Op>(v, p); }, y, x);
          },
          number_of<A>(p));
    });
  });
}

template <class Op>
std::unique_ptr<Kernel> make_pointwise_grad(const Call& call) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return with_parameter<Op, A>(call.attrs, [&]<class P>(P p) {
      return binary<A>(
          call,
          [](int64_t count, A* y, const A* a, const A* b, A number) {
            each(
                count, [p = parameter<P>(number)](A dy, A read) { return backward<Op>(dy, read, p); }, y, a,
                b);
          },
          number_of<A>(p));
    });
  });
}

std::unique_ptr<Kernel> make_scale(const Call& call) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return unary<A>(
        call,
        [](int64_t count, A* y, const A* x, A factor) {
          each(
              count, [factor](A v) { return factor * v; }, y, x);
        },
        static_cast<A>(ir::attr_float(call.attrs, "factor")));
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

// Row r keeps its first r + ahead + 1 columns; with a window, only the last `window` of these.
std::unique_ptr<Kernel> make_causal_mask(const Call& call) {
  const ir::Shape& shape = call.inputs[0].shape;
  const int64_t rows = shape[shape.size() - 2], columns = shape.back(), count = call.inputs[0].elements();
  const int64_t ahead = ir::attr_int(call.attrs, "row_offset") - ir::attr_int(call.attrs, "column_offset");
  const int64_t size = ir::size_of(call.inputs[0].dtype), window = ir::attr_int(call.attrs, "window");
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() {
    return kernel([=, fill = static_cast<A>(ir::attr_float(call.attrs, "fill")),
                   y = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> filled;
      std::fill_n(filled.at, kChunk, fill);
      for (int64_t row = 0; row * columns < count; ++row) {
        const int64_t start = row * columns;
        const int64_t end = std::clamp<int64_t>(row % rows + ahead + 1, 0, columns);
        const int64_t first = window > 0 ? std::clamp<int64_t>(row % rows + ahead + 1 - window, 0, end) : 0;
        const auto fill_from = [&](int64_t column, int64_t count) {
          for_chunks(count,
                     [&](int64_t at, int64_t n) { y.store(filled.at, operands, start + column + at, n); });
        };
        fill_from(0, first);
        std::memcpy(operands.out<std::byte>(0) + (start + first) * size,
                    operands.in<std::byte>(0) + (start + first) * size,
                    static_cast<size_t>((end - first) * size));
        fill_from(end, columns - end);
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
  ir::each_pointwise([&]<class Op>() {
    table[Op::row.name] = make_pointwise<Op>;
    if constexpr (Op::row.has_grad_op) table[ir::grad_op(Op::row)] = make_pointwise_grad<Op>;
  });
  table.insert({{"identity", make_identity},
                {"scale", make_scale},
                {"cast", make_cast},
                {"where", make_where},
                {"causal_mask", make_causal_mask}});
}

}  // namespace boxcar::backends::cpu
