#include "ir/ops/optimizers.h"

#include <algorithm>
#include <cmath>

#include "sbp/at.h"

namespace boxcar::ir {
namespace {

#define BOXCAR_ROW(op) optimizers::op::row,
constexpr OptimizerRow rows[] = {BOXCAR_OPTIMIZERS(BOXCAR_ROW)};
#undef BOXCAR_ROW

}  // namespace

std::span<const OptimizerRow> optimizer_rows() { return rows; }

const OptimizerRow& row_of(Optimizer optimizer) { return at(rows, optimizer); }

const OptimizerRow* find_optimizer(std::string_view op) {
  const auto* const found =
      std::find_if(std::begin(rows), std::end(rows), [&](const OptimizerRow& row) { return op == row.name; });
  return found == std::end(rows) ? nullptr : found;
}

std::vector<std::string> words_of(Optimizer) {
  std::vector<std::string> names;
  for (const OptimizerRow& row : rows) names.emplace_back(row.name);
  return names;
}

bool updates_rows(std::string_view op) {
  constexpr std::string_view end = "_rows";
  if (!op.ends_with(end)) return false;
  const OptimizerRow* row = find_optimizer(op.substr(0, op.size() - end.size()));
  return row && row->takes_rows();
}

bool has_number(const OptimizerRow& row, std::string_view name) {
  return std::any_of(row.number, row.number + row.numbers,
                     [&](const OptimizerRow::Number& number) { return name == number.name; });
}

UpdateNumbers numbers_of(const OptimizerRow& row, const Attrs& attrs) {
  UpdateNumbers numbers{attrs.contains("lr") ? attr_float(attrs, "lr") : 0,
                        attr_float(attrs, "weight_decay")};
  for (int i = 0; i < row.numbers; ++i) numbers.number[i] = attr_float(attrs, row.number[i].name);
  if (row.counts) numbers.step = attr_int(attrs, "step");
  return numbers;
}

double left_of(const OptimizerRow& row, double number, int64_t step) {
  return row.counts ? 1 - std::pow(number, static_cast<double>(step)) : 1;
}

double part_of_step(const Attrs& attrs, int64_t steps_before) {
  return std::pow(static_cast<double>(attr_int(attrs, "step") + steps_before), -attr_float(attrs, "power"));
}

}  // namespace boxcar::ir
