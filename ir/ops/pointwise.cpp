#include "ir/ops/pointwise.h"

#include <algorithm>

#include "ir/ops/ops.h"

namespace boxcar::ir {
namespace {

#define BOXCAR_ROW(op) pointwise::op::row,
constexpr PointwiseRow rows[] = {BOXCAR_POINTWISE(BOXCAR_ROW)};
#undef BOXCAR_ROW

Domain domain_of(Multiples values) { return {values.low, values.high, values.step}; }

Attr attr_of(const PointwiseRow& row, double value) {
  if (row.kind == PointwiseRow::choice) return value != 0;
  return value;
}

Attrs attrs_of(const PointwiseRow& row, double value) {
  if (row.kind == PointwiseRow::none) return {};
  return {{row.parameter, attr_of(row, value)}};
}

// Index map of the op or of its gradient. The gradient is linear in dy, and monotone if all slopes have one
// sign.
sbp::IndexMap index_map(const PointwiseRow& row, bool grad, const Types& in, const Attrs& attrs) {
  sbp::IndexMap map = pointwise_map(in);
  if (grad || row.linear) map.linear = {{0}};
  const Trend trend = row.trend_at(parameter_of(row, attrs));
  if (trend == Trend::increasing) map.increasing = {0};
  if (trend == Trend::decreasing) map.decreasing = {0};
  return map;
}

// The second of the samples has the parameter's other value.
std::vector<Sample> samples_of(const PointwiseRow& row, bool grad, const Extent& n) {
  std::vector<Domain> domains = {domain_of(row.values)};
  if (grad) domains = {{}, domain_of(row.grad_values)};
  int64_t a = n(), b = n(), c = n();
  return {{.inputs = Types(domains.size(), f32({a, b})), .domains = domains},
          {.inputs = Types(domains.size(), f32({a, b, c})),
           .attrs = attrs_of(row, row.other),
           .domains = domains}};
}

OpDef op_of(const PointwiseRow& row, bool grad) {
  const std::string name = grad ? grad_op(row) : row.name;
  const std::string second = row.grad_reads == PointwiseRow::y ? "y" : "x";
  std::vector<std::string> operands = {"x"};
  if (grad) operands = {"dy", second};
  const auto infer = [name, operands](const Types& in, const Attrs&) -> Types {
    for (size_t i = 1; i < in.size(); ++i) same_type(name, operands[i], in[i], operands[0], in[0]);
    return {in[0]};
  };
  return {.name = name,
          .inputs = operands,
          .outputs = {grad ? "dx" : "y"},
          .attrs = attrs_of(row, row.usual),
          .infer = infer,
          .index_map = [&row, grad](const Types& in,
                                    const Attrs& attrs) { return index_map(row, grad, in, attrs); },
          .work = per_element(grad ? row.grad_flops : row.flops),
          .tolerance = row.tolerance,
          .samples = [&row, grad](const Extent& n) { return samples_of(row, grad, n); }};
}

}  // namespace

std::span<const PointwiseRow> pointwise_rows() { return rows; }

const PointwiseRow* find_pointwise(std::string_view op) {
  const auto* const found =
      std::find_if(std::begin(rows), std::end(rows), [&](const PointwiseRow& row) { return op == row.name; });
  return found == std::end(rows) ? nullptr : found;
}

double parameter_of(const PointwiseRow& row, const Attrs& attrs) {
  switch (row.kind) {
    case PointwiseRow::choice:
      return attr_bool(attrs, row.parameter) ? 1 : 0;
    case PointwiseRow::number:
      return attr_float(attrs, row.parameter);
    default:
      return 0;
  }
}

sbp::IndexMap pointwise_map(const Types& in) {
  sbp::IndexMap map;
  Indices names = indices("i", in[0].shape.size());
  map.inputs.assign(in.size(), names);
  map.outputs = {names};
  return map;
}

void add_pointwise_ops(std::vector<OpDef>& out) {
  for (const PointwiseRow& row : rows) {
    out.push_back(op_of(row, false));
    if (row.has_grad_op) out.push_back(op_of(row, true));
  }
}

}  // namespace boxcar::ir
