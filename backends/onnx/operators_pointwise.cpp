// Operators on each element by itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/onnx/conversion.h"

namespace boxcar::backends::onnx {
namespace {

constexpr double masked = -1e30;  // in place of minus infinity, as causal_mask has it

template <const char* const& op>
void unary(Conversion& c) {
  c.out(c.emit(op, {c.in(0)}));
}

// A mask of the last two axes that holds `inside` up to the diagonal and `outside` above, the same for all
// other axes.
bool is_causal(const HostTensor& mask, double inside, double outside) {
  const ir::Shape& shape = mask.type.shape;
  if (shape.size() < 2) return false;
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (rows != columns || rows < 2) return false;
  for (size_t i = 0; i < mask.data.size(); ++i) {
    const auto element = static_cast<int64_t>(i);
    const bool above = element % columns > element / columns % rows;
    if (mask.data[i] != (above ? outside : inside)) return false;
  }
  return true;
}

// Whether broadcasting the mask to x leaves x's shape unchanged.
bool spans(const ir::Shape& mask, const ir::Shape& x) {
  if (mask.size() > x.size() || mask.size() < 2) return false;
  for (size_t i = 0; i < mask.size(); ++i) {
    const int64_t extent = x[x.size() - mask.size() + i];
    if (mask[i] != extent && (mask[i] != 1 || i + 2 >= mask.size())) return false;
  }
  return true;
}

// x + mask, where the mask is 0 and, above the diagonal, so low that a softmax has nothing left.
std::optional<Value> add_mask(const Conversion& c, const Value& x, const Value& mask) {
  const ir::Shape& shape = mask.type.shape;
  if (!mask.is_known() || !spans(shape, x.type.shape) || shape[shape.size() - 2] != shape.back()) return {};
  const HostTensor values = c.known(mask, "the mask");
  constexpr double low = -1000;
  const double outside = values.data.size() < 2 ? 0 : values.data[1];
  if (!(outside <= low) || !is_causal(values, 0, outside)) return {};
  return c.emit("causal_mask", {x}, {{"fill", std::max(outside, masked)}});
}

// A number for all elements has no axes, so that it takes no room.
Value slim(const Conversion& c, const Value& value) {
  const auto number = c.uniform(value);
  return number ? c.constant(*number, {}, value.type.dtype) : value;
}

// Whether x's shape is that of both together.
bool keeps_shape(const Value& x, const Value& other) {
  const ir::Shape &whole = x.type.shape, &part = other.type.shape;
  if (part.size() > whole.size()) return false;
  for (size_t i = 0; i < part.size(); ++i)
    if (part[i] != 1 && part[i] != whole[whole.size() - part.size() + i]) return false;
  return true;
}

template <const char* const& op>
void binary(Conversion& c) {
  const Value& a = c.in(0);
  const Value& b = c.in(1);
  const bool known = a.is_known() && b.is_known();
  const std::string name = op;
  if (known) {
    Value result = c.emit(name, {a, b});
    if (name == "div" && result.type.dtype == ir::DType::int64)
      for (double& x : result.computed->data) x = std::trunc(x);
    return c.out(std::move(result));
  }
  const bool commutes = name == "add" || name == "mul";
  const Value& data = commutes && a.is_known() ? b : a;
  const Value& other = commutes && a.is_known() ? a : b;
  const bool floats = data.type.dtype == ir::DType::float32;
  if (name == "add" && floats)
    if (auto sum = add_mask(c, data, other)) return c.out(*sum);
  const auto number = keeps_shape(data, other) ? c.uniform(other) : std::nullopt;
  if (number && floats && name == "mul") return c.out(scaled(c, data, *number));
  if (number && floats && name == "div") return c.out(scaled(c, data, 1 / *number));
  if (keeps_shape(data, other)) return c.out(c.emit(name, {data, slim(c, other)}));
  c.out(c.emit(name, {data, other}));
}

void power(Conversion& c) {
  const double exponent = c.known_number(c.in(1), "the exponent");
  const Value& x = c.in(0);
  if (exponent == 1) return c.out(x);
  if (exponent == 0.5) return c.out(c.emit("sqrt", {x}));
  if (exponent == -1) return c.out(c.emit("div", {c.constant(1), x}));
  if (exponent == -0.5) return c.out(c.emit("div", {c.constant(1), c.emit("sqrt", {x}, {}, "root")}));
  if (exponent != 2 && exponent != 3)
    c.refuse(fmt::format("has the exponent {}, expected -1, -0.5, 0.5, 1, 2 or 3", exponent));
  Value y = c.emit("mul", {x, x}, {}, exponent == 2 ? "" : "square");
  c.out(exponent == 2 ? y : c.emit("mul", {y, x}));
}

void reciprocal(Conversion& c) { c.out(c.emit("div", {c.constant(1), c.in(0)})); }

// x sigmoid(alpha x)
void swish(Conversion& c) {
  const double alpha = c.number("alpha", 1);
  const Value& x = c.in(0);
  if (alpha == 1) return c.out(c.emit("silu", {x}));
  c.out(c.emit("mul", {x, c.emit("sigmoid", {scaled(c, x, alpha, "slope")}, {}, "share")}));
}

Value elu(const Conversion& c, const Value& x, double alpha, const char* what = "") {
  return c.emit("elu", {x}, {{"alpha", alpha}}, what);
}
void elu(Conversion& c) { c.out(elu(c, c.in(0), c.number("alpha", 1))); }

void selu(Conversion& c) {
  const double gamma = c.number("gamma", 1.0507009873554805);
  const Value y = elu(c, c.in(0), c.number("alpha", 1.6732632423543772), gamma == 1 ? "" : "elu");
  c.out(scaled(c, y, gamma));
}

// x tanh(log(1 + exp(x)))
void mish(Conversion& c) {
  const Value& x = c.in(0);
  c.out(c.emit("mul", {x, c.emit("tanh", {c.emit("softplus", {x}, {}, "softplus")}, {}, "share")}));
}

void gelu(Conversion& c) {
  c.out(c.emit("gelu", {c.in(0)}, {{"tanh", c.text("approximate", "none") == "tanh"}}));
}

// A limit: an operand from opset 11 on, before an attribute.
std::optional<double> limit(const Conversion& c, size_t operand, const char* attribute) {
  if (c.has(operand)) return c.known_number(c.in(operand), attribute);
  if (c.has_attribute(attribute)) return c.number(attribute, 0);
  return {};
}

Value clamped(const Conversion& c, Value x, std::optional<double> low, std::optional<double> high) {
  if (low && *low == 0)
    x = c.emit("relu", {x}, {}, high ? "low" : "");
  else if (low)
    x = c.emit("clamp_min", {x}, {{"min", *low}}, high ? "low" : "");
  return high ? c.emit("clamp_max", {x}, {{"max", *high}}) : x;
}

void clip(Conversion& c) { c.out(clamped(c, c.in(0), limit(c, 1, "min"), limit(c, 2, "max"))); }

// The larger or smaller of a value and a number, in either order.
template <bool is_maximum>
void extremum(Conversion& c) {
  if (c.operands() != 2) c.refuse(fmt::format("has {} operands, expected 2", c.operands()));
  const bool first = c.in(0).is_known();
  const double number = c.known_number(c.in(first ? 0 : 1), "the limit");
  const Value& x = c.in(first ? 1 : 0);
  c.out(is_maximum ? clamped(c, x, number, {}) : clamped(c, x, {}, number));
}

Value hard_sigmoid(const Conversion& c, const Value& x, double alpha, double beta) {
  const Value line = c.emit("add", {scaled(c, x, alpha, "slope"), c.constant(beta)}, {}, "line");
  return c.emit("clamp_max", {c.emit("relu", {line}, {}, "low")}, {{"max", 1.0}}, "clamped");
}
void hard_sigmoid(Conversion& c) {
  c.out(hard_sigmoid(c, c.in(0), c.number("alpha", 0.2), c.number("beta", 0.5)));
}
void hard_swish(Conversion& c) { c.out(c.emit("mul", {c.in(0), hard_sigmoid(c, c.in(0), 1.0 / 6, 0.5)})); }

// relu(x) - slope relu(-x)
Value leaky(const Conversion& c, const Value& x, const Value& below) {
  const Value low = c.emit("relu", {c.emit("neg", {x}, {}, "neg")}, {}, "below");
  return c.emit("sub", {c.emit("relu", {x}, {}, "above"), c.emit("mul", {low, below}, {}, "sloped")});
}
void leaky_relu(Conversion& c) { c.out(leaky(c, c.in(0), c.constant(c.number("alpha", 0.01)))); }
void prelu(Conversion& c) { c.out(leaky(c, c.in(0), c.in(1))); }

void absolute(Conversion& c) { c.out(absolute(c, c.in(0))); }

// x / (1 + |x|)
void softsign(Conversion& c) {
  const Value& x = c.in(0);
  c.out(c.emit("div", {x, c.emit("add", {absolute(c, x, "size"), c.constant(1)}, {}, "sum")}));
}

// Handles a condition that does not depend on data: a causal mask, or one side alone.
void where(Conversion& c) {
  const Value& condition = c.in(0);
  if (!condition.is_known()) return c.out(c.emit("where", {condition, c.in(1), c.in(2)}));
  if (c.in(1).is_known() && c.in(2).is_known()) return c.out(c.emit("where", {condition, c.in(1), c.in(2)}));
  const HostTensor mask = c.known(condition, "the condition");
  for (const bool inside : {true, false}) {
    const Value& x = c.in(inside ? 1 : 2);
    const Value& other = c.in(inside ? 2 : 1);
    if (x.is_known() || !spans(mask.type.shape, x.type.shape)) continue;
    if (std::all_of(mask.data.begin(), mask.data.end(), [&](double m) { return (m != 0) == inside; }))
      return c.out(x);
    if (!is_causal(mask, inside, !inside)) continue;
    if (const auto fill = c.uniform(other))
      return c.out(c.emit("causal_mask", {x}, {{"fill", std::max(*fill, masked)}}));
  }
  c.refuse("has a condition that is known before data and is no causal mask");
}

void cast(Conversion& c) {
  constexpr int64_t float_types[] = {1, 10, 11, 16}, whole_types[] = {2, 3, 5, 6, 7, 12, 13};
  const int64_t to = c.whole("to", 0);
  const auto is_one = [&](const auto& types) {
    return std::find(std::begin(types), std::end(types), to) != std::end(types);
  };
  const char* type = is_one(float_types)   ? "float32"
                     : is_one(whole_types) ? "int64"
                     : to == 9             ? "boolean"
                                           : nullptr;
  if (!type) c.refuse(fmt::format("is to ONNX's type {}, not known here", to));
  const Value& x = c.in(0);
  c.out(type == std::string(ir::to_text(x.type.dtype)) ? x : c.emit("cast", {x}, {{"to", type}}));
}

void same(Conversion& c) { c.out(c.in(0)); }

void dropout(Conversion& c) {
  const double share = c.has(1) ? c.known_number(c.in(1), "the share") : c.number("ratio", 0.5);
  const bool training = c.has(2) && c.known_number(c.in(2), "whether it trains") != 0;
  c.out(training && share > 0 ? c.emit("dropout", {c.in(0)}, {{"p", share}}) : c.in(0));
}

// Adds any number of operands.
void sum(Conversion& c) {
  Value total = c.in(0);
  for (size_t i = 1; i < c.operands(); ++i) total = c.emit("add", {total, c.in(i)}, {}, i > 1 ? "more" : "");
  c.out(total);
}

constexpr const char* neg_op = "neg";
constexpr const char* exp_op = "exp";
constexpr const char* log_op = "log";
constexpr const char* sqrt_op = "sqrt";
constexpr const char* sin_op = "sin";
constexpr const char* cos_op = "cos";
constexpr const char* softplus_op = "softplus";
constexpr const char* relu_op = "relu";
constexpr const char* tanh_op = "tanh";
constexpr const char* sigmoid_op = "sigmoid";
constexpr const char* add_op = "add";
constexpr const char* sub_op = "sub";
constexpr const char* mul_op = "mul";
constexpr const char* div_op = "div";

}  // namespace

void add_pointwise_converters(Converters& table) {
  const Converters rows = {{"Neg", unary<neg_op>},
                           {"Exp", unary<exp_op>},
                           {"Log", unary<log_op>},
                           {"Sqrt", unary<sqrt_op>},
                           {"Sin", unary<sin_op>},
                           {"Cos", unary<cos_op>},
                           {"Relu", unary<relu_op>},
                           {"Elu", elu},
                           {"Selu", selu},
                           {"Softplus", unary<softplus_op>},
                           {"Softsign", softsign},
                           {"Mish", mish},
                           {"Swish", swish},
                           {"Tanh", unary<tanh_op>},
                           {"Sigmoid", unary<sigmoid_op>},
                           {"Add", binary<add_op>},
                           {"Sub", binary<sub_op>},
                           {"Mul", binary<mul_op>},
                           {"Div", binary<div_op>},
                           {"Pow", power},
                           {"Reciprocal", reciprocal},
                           {"Gelu", gelu},
                           {"Clip", clip},
                           {"Min", extremum<false>},
                           {"Max", extremum<true>},
                           {"HardSigmoid", hard_sigmoid},
                           {"HardSwish", hard_swish},
                           {"LeakyRelu", leaky_relu},
                           {"PRelu", prelu},
                           {"Abs", absolute},
                           {"Where", where},
                           {"Cast", cast},
                           {"Identity", same},
                           {"Dropout", dropout},
                           {"Sum", sum}};
  table.insert(rows.begin(), rows.end());
}

}  // namespace boxcar::backends::onnx
