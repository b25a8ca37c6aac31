// Look-up of the rows of optimizer_rows.h for the rest of the program.
//
//   find_optimizer("adam")->moments == 2;   find_optimizer("adam_all") == nullptr
//   each_optimizer([&]<class Op>() { table[Op::row.name] = update<Op>; });
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/ops/optimizer_rows.h"
#include "ir/types.h"

namespace boxcar::ir {

std::span<const OptimizerRow> optimizer_rows();  // by Optimizer
const OptimizerRow& row_of(Optimizer optimizer);
const OptimizerRow* find_optimizer(std::string_view op);  // null if it has no row
std::vector<std::string> words_of(Optimizer);

// w, g, the moments, and the norms of a row with a trust ratio: operands of one tensor's update
inline size_t operands_of(const OptimizerRow& row) {
  return static_cast<size_t>(2 + row.moments + (row.has_trust() ? 1 : 0));
}

// "adam_all"
inline std::string all_op(const OptimizerRow& row) { return std::string(row.name) + "_all"; }
// "lamb_norms": for a row with a trust ratio: sums of squares of weights and of the values that it measures
inline std::string norms_op(const OptimizerRow& row) { return std::string(row.name) + "_norms"; }
// "adam_rows", of a row without a trust ratio: an update of the rows of a look-up table that a step read
inline std::string rows_op(const OptimizerRow& row) { return std::string(row.name) + "_rows"; }
bool updates_rows(std::string_view op);  // whether it is such an update
bool has_number(const OptimizerRow& row, std::string_view name);

// The attributes of an optimizer's op, in double.
struct UpdateNumbers {
  double lr = 0, decay = 0;  // lr: of an update
  double number[OptimizerRow::most_numbers] = {};
  int64_t step = 0;  // of a row that counts steps
};
UpdateNumbers numbers_of(const OptimizerRow& row, const Attrs& attrs);
// 1 - number^step, or 1 if the row counts no steps.
double left_of(const OptimizerRow& row, double number, int64_t step);

// Of second_moment: the part of a moment that a step replaces, step^-power; steps are counted from that of
// the attributes.
double part_of_step(const Attrs& attrs, int64_t steps_before);

// visit.operator()<Op>() for every row.
template <class Visit>
void each_optimizer(Visit visit) {
#define BOXCAR_VISIT(op) visit.template operator()<optimizers::op>();
  BOXCAR_OPTIMIZERS(BOXCAR_VISIT)
#undef BOXCAR_VISIT
}

}  // namespace boxcar::ir
