#include "ir/ops/nn_rows.h"

#include <fmt/format.h>

#include "ir/limits.h"

namespace boxcar::ir {
namespace {

constexpr size_t kPreparedRanks = 5;

std::string repeat(char kind, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += kind == '~' ? std::string("_ ") : fmt::format("d{} ", i);
  return text;
}

std::string expand(std::string_view text, size_t count) {
  constexpr std::string_view kSum = "; sum *";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, kSum.size()) == kSum) {
      for (size_t d = 0; d < count; ++d) result += fmt::format("; sum d{} ", d);
      i += kSum.size() - 1;
    } else if (text[i] == '*' || text[i] == '~') {
      result += repeat(text[i], count);
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

MapFunction ranked(std::string_view text, size_t operand, size_t trailing) {
  std::vector<sbp::IndexMap> prepared;
  for (size_t count = 0; count < kPreparedRanks; ++count) {
    prepared.push_back(sbp::parse_index_map(expand(text, count)));
  }
  return [text = std::string(text), operand, trailing, prepared = std::move(prepared)](const Types& in,
                                                                                       const Attrs&) {
    const size_t count = in.at(operand).shape.size() - trailing;
    return count < prepared.size() ? prepared[count] : sbp::parse_index_map(expand(text, count));
  };
}

std::vector<sbp::Signature> parse_all(std::initializer_list<std::string_view> signatures) {
  std::vector<sbp::Signature> result;
  for (std::string_view text : signatures) result.push_back(sbp::parse_signature(text));
  return result;
}

ExtraFunction always(std::initializer_list<std::string_view> signatures) {
  return [parsed = parse_all(signatures)](const Types&, const Attrs&, int64_t) { return parsed; };
}

void exact_rank(std::string_view op, std::string_view operand, const TensorType& got, size_t rank) {
  if (got.shape.size() != rank) refuse(op, operand, got, fmt::format("{} dimensions", rank));
}

void need_float(std::string_view op, std::string_view operand, const TensorType& got) {
  if (!is_float(got.dtype)) refuse(op, operand, got, "a floating-point type");
}

void need_indices(std::string_view op, std::string_view operand, const TensorType& got) {
  if (got.dtype != DType::int64 && got.dtype != DType::int32) refuse(op, operand, got, "int64 or int32");
}

void need_shape(std::string_view op, std::string_view operand, const TensorType& got, const Shape& shape,
                std::string_view other, const TensorType& other_type) {
  if (got.shape == shape) return;
  refuse(op, operand, got,
         fmt::format("shape {} to go with {} {}", to_text(Attr(shape)), other, to_text(other_type)));
}

Shape without_last(Shape shape) {
  shape.pop_back();
  return shape;
}

void check_window(std::string_view op, const Attrs& attrs) {
  const int64_t window = attr_int(attrs, "window");
  if (window < 0 || (window > 0 && !attr_bool(attrs, "causal")))
    refuse_attr(op, "window", attrs, "0, or more where causal");
}

bool aligned(int64_t extent, int64_t groups, int64_t parts) {
  if (groups == 0 ? extent != 0 : extent % groups != 0) return false;
  const int64_t width = groups == 0 ? 0 : extent / groups;
  for (int64_t i = 0; i < parts; ++i) {
    if (sbp::part_range(extent, parts, i).begin != width * sbp::part_range(groups, parts, i).begin)
      return false;
  }
  return true;
}

bool split_at(sbp::Sbp sbp, int64_t axis) { return sbp.is_split() && sbp.axis == axis; }

sbp::Range part_of(const TensorType& type, size_t axis, int64_t parts, int64_t index) {
  return sbp::part_range(type.shape.at(axis), parts, index);
}

Attrs advanced(Attrs attrs, std::string_view name, int64_t value) {
  const int64_t before = attr_int(attrs, name);
  return with(std::move(attrs), name, before + value);
}

Attrs random_attrs() {
  return {{"p", 0.0},
          {"seed", int64_t{0}},
          {"step", int64_t{0}},
          {"micro_batch", int64_t{0}},
          {"op", int64_t{0}},
          {"shape", std::vector<int64_t>{}},
          {"starts", std::vector<int64_t>{}}};
}

Attrs localize_random(const TensorType& drawn, Attrs attrs, sbp::Sbp layout, int64_t parts, int64_t index) {
  if (!layout.is_split() || attr_float(attrs, "p") == 0) return attrs;
  Shape shape = attr_ints(attrs, "shape"), starts = attr_ints(attrs, "starts");
  if (shape.empty()) {
    shape = drawn.shape;
    starts.assign(shape.size(), 0);
  }
  const auto axis = static_cast<size_t>(layout.axis);
  starts.at(axis) += part_of(drawn, axis, parts, index).begin;
  return with(with(std::move(attrs), "shape", shape), "starts", starts);
}

void check_random(std::string_view op, const Attrs& attrs, const TensorType& drawn) {
  const double p = attr_float(attrs, "p");
  if (!(p >= 0 && p < 1)) refuse_attr(op, "p", attrs, "a probability of at least 0 and below 1");
  const Shape &shape = attr_ints(attrs, "shape"), &starts = attr_ints(attrs, "starts"), &own = drawn.shape;
  if (shape.empty() && starts.empty()) return;
  bool inside = shape.size() == own.size() && starts.size() == own.size() && flaw_of({shape}).empty();
  for (size_t i = 0; inside && i < own.size(); ++i) inside = starts[i] >= 0 && starts[i] + own[i] <= shape[i];
  if (!inside)
    refuse_attr(op, "starts", attrs,
                fmt::format("where {} begins in a tensor of shape {}", to_text(drawn), to_text(Attr(shape))));
}

}  // namespace boxcar::ir
