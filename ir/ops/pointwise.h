// Look-up of the rows of pointwise_rows.h for the rest of the program.
//
//   find_pointwise("gelu")->grad_reads == PointwiseRow::x;   find_pointwise("add") == nullptr
//   each_pointwise([&]<class Op>() { table[Op::row.name] = unary<Op>; });
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/ops/pointwise_rows.h"
#include "ir/types.h"

namespace boxcar::ir {

std::span<const PointwiseRow> pointwise_rows();
const PointwiseRow* find_pointwise(std::string_view op);  // null if it has no row

// "relu_grad"
inline std::string grad_op(const PointwiseRow& row) { return std::string(row.name) + "_grad"; }

// The row's parameter from complete attributes: 0 or 1 for a choice, 0 if the row has none.
double parameter_of(const PointwiseRow& row, const Attrs& attrs);

// visit.operator()<Op>() for every row.
template <class Visit>
void each_pointwise(Visit visit) {
#define BOXCAR_VISIT(op) visit.template operator()<pointwise::op>();
  BOXCAR_POINTWISE(BOXCAR_VISIT)
#undef BOXCAR_VISIT
}

}  // namespace boxcar::ir
