// The formulas of ir/ops/pointwise_rows.h as functions of a loop over a chunk.
//
//   with_parameter<Op, A>(attrs, [&](auto p) { each(n, [p](A x) { return forward<Op>(x, p); }, y, x); });
#pragma once

#include <type_traits>

#include "backends/cpu/fast_math.h"
#include "ir/ops/pointwise.h"

namespace boxcar::backends::cpu {

// make(p) with the op's parameter: a number as A, a choice as a type, so that loops are compiled for each.
template <class Op, class A, class Make>
auto with_parameter(const ir::Attrs& attrs, Make make) {
  const double value = ir::parameter_of(Op::row, attrs);
  if constexpr (Op::row.kind == ir::PointwiseRow::number)
    return make(static_cast<A>(value));
  else if constexpr (Op::row.kind == ir::PointwiseRow::choice)
    return value != 0 ? make(std::true_type{}) : make(std::false_type{});
  else
    return make(std::false_type{});
}

template <class Op, class A, class P>
A forward(A x, P p) {
  return Op::template forward<FastMath>(x, p);
}
template <class Op, class A, class P>
A backward(A dy, A read, P p) {
  return Op::template backward<FastMath>(dy, read, p);
}

}  // namespace boxcar::backends::cpu
