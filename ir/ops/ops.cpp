#include "ir/ops/ops.h"

#include <fmt/format.h>

#include <algorithm>

namespace boxcar::ir {

void refuse(std::string_view op, std::string_view operand, const TensorType& got, std::string_view expected) {
  throw Error::input(std::string(op), fmt::format("{} is {}, expected {}", operand, to_text(got), expected));
}

void refuse(std::string_view op, std::string_view operand, const TensorType& got, std::string_view expected,
            std::string_view other, const TensorType& other_type) {
  refuse(op, operand, got, fmt::format("{} as {} {}", expected, other, to_text(other_type)));
}

void refuse_attr(std::string_view op, std::string_view attr, const Attrs& attrs, std::string_view expected) {
  auto found = attrs.find(attr);
  std::string got = found == attrs.end() ? "missing" : to_text(found->second);
  throw Error::input(std::string(op), fmt::format("{} is {}, expected {}", attr, got, expected));
}

void same_shape(std::string_view op, std::string_view operand, const TensorType& got, std::string_view other,
                const TensorType& other_type) {
  if (got.shape != other_type.shape) refuse(op, operand, got, "the same shape", other, other_type);
}

void same_type(std::string_view op, std::string_view operand, const TensorType& got, std::string_view other,
               const TensorType& other_type) {
  if (got != other_type) refuse(op, operand, got, "the same type", other, other_type);
}

void need_rank(std::string_view op, std::string_view operand, const TensorType& got, size_t at_least) {
  if (got.shape.size() < at_least) refuse(op, operand, got, fmt::format("at least {} dimensions", at_least));
}

int64_t normal_axis(std::string_view op, std::string_view attr, int64_t axis, const TensorType& type) {
  auto rank = static_cast<int64_t>(type.shape.size());
  if (axis < -rank || axis >= rank) {
    throw Error::input(std::string(op), fmt::format("{} is {}, expected {} to {} for {}", attr, axis, -rank,
                                                    rank - 1, to_text(type)));
  }
  return axis < 0 ? axis + rank : axis;
}

Indices indices(std::string_view prefix, size_t count) {
  Indices names;
  for (size_t i = 0; i < count; ++i) names.push_back(std::string(prefix) + std::to_string(i));
  return names;
}

sbp::IndexMap moving_average_map(const Types& in, const Attrs&) {
  sbp::IndexMap result;
  result.inputs.assign(2, indices("i", in[0].shape.size()));
  result.outputs = {result.inputs[0]};
  result.linear = {{0, 1}};
  result.increasing = {0, 1};
  result.inputs.resize(in.size());
  return result;
}

std::function<sbp::IndexMap(const Types&, const Attrs&)> fixed_map(std::string_view text) {
  return [map = sbp::parse_index_map(text)](const Types&, const Attrs&) { return map; };
}

bool has_extremum(const sbp::Signature& signature) {
  return std::any_of(signature.inputs.begin(), signature.inputs.end(),
                     [](sbp::Sbp x) { return x.is_partial() && x.reduction != sbp::Reduction::sum; });
}

bool has_partial(const sbp::Signature& signature) {
  return std::any_of(signature.inputs.begin(), signature.inputs.end(),
                     [](sbp::Sbp x) { return x.is_partial(); });
}

double bytes_of(const Types& types) {
  double bytes = 0;
  for (const TensorType& type : types) bytes += static_cast<double>(type.bytes());
  return bytes;
}

std::function<Work(const Types&, const Types&, const Attrs&)> per_element(double flops) {
  return [flops](const Types& inputs, const Types& outputs, const Attrs&) {
    int64_t largest = 0;
    for (const Types* types : {&inputs, &outputs}) {
      for (const TensorType& type : *types) largest = std::max(largest, type.elements());
    }
    return Work{flops * static_cast<double>(largest), bytes_of(inputs) + bytes_of(outputs)};
  };
}

}  // namespace boxcar::ir
