#include "backends/onnx/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/convert.h"
#include "backends/onnx/graph_maker.h"
#include "ir/limits.h"
#include "sbp/error.h"

namespace boxcar::backends::onnx {

using ir::DType;

namespace {

// Elements that are computed here.
constexpr int64_t most_known = int64_t{1} << 25;
constexpr double most_flops = 1e9;
constexpr int deepest = 200;  // ops, each on the result of the one before

cpu::Tensors compute(std::string_view op, const std::vector<Value>& operands, const ir::Attrs& attrs);

HostTensor elements_of(const Value& value) {
  if (value.computed) return *value.computed;
  if (value.type.elements() > most_known) throw Error::input("", "is too large to compute here");
  if (value.stored) return cpu::load(value.type, value.stored->bytes.data());
  const Origin& origin = *value.origin;
  if (origin.made.empty()) origin.made = compute(origin.op, origin.operands, origin.attrs);
  return origin.made[value.result];
}

ir::Types types_of(const std::vector<Value>& values) {
  ir::Types types;
  for (const Value& value : values) types.push_back(value.type);
  return types;
}

cpu::Tensors compute(std::string_view op, const std::vector<Value>& operands, const ir::Attrs& attrs) {
  const ir::OpDef& def = ir::op(op);
  const ir::Attrs all = ir::complete(def, attrs);
  const ir::Types types = types_of(operands), made = def.infer(types, all);
  if (std::any_of(made.begin(), made.end(),
                  [](const ir::TensorType& t) { return t.elements() > most_known; }))
    throw Error::input("", "is too large to compute here");
  if (ir::work(def, types, made, all).flops > most_flops)
    throw Error::input("", "takes too long to compute here");
  cpu::Tensors inputs;
  for (const Value& value : operands) inputs.push_back(elements_of(value));
  return cpu::run_reference(op, inputs, all);
}

int64_t to_whole(double number) {  // "to the end" is written as the largest number there is
  constexpr double most = 9.2e18;
  if (number >= most) return std::numeric_limits<int64_t>::max();
  return number > -most ? static_cast<int64_t>(number) : std::numeric_limits<int64_t>::min();  // NaN too
}

}  // namespace

void Conversion::refuse(const std::string& message) const { throw Error::input("", message); }

int64_t Conversion::opset() const { return maker_.model_.opset; }

const Value& Conversion::in(size_t i) const {
  if (!has(i)) refuse(fmt::format("has no operand {}", i));
  const auto found = maker_.values_.find(node_.inputs[i]);
  if (found == maker_.values_.end())
    refuse(fmt::format("reads {}, a result that is not computed", node_.inputs[i]));
  return found->second;
}

void Conversion::out(Value value, size_t i) {
  if (i < node_.outputs.size() && !node_.outputs[i].empty())
    maker_.values_[node_.outputs[i]] = std::move(value);
}

bool Conversion::reads_out(size_t i) const {
  return i < node_.outputs.size() && maker_.needed_.contains(node_.outputs[i]);
}

// --- attributes

namespace {

template <typename T>
const T* attribute_as(const OnnxNode& node, const char* name) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (!value) throw Error::input("", fmt::format("{} is of a kind that is not read here", name));
  return value;
}

}  // namespace

int64_t Conversion::whole(const char* attribute, int64_t absent) const {
  const auto* value = attribute_as<int64_t>(node_, attribute);
  return value ? *value : absent;
}

double Conversion::number(const char* attribute, double absent) const {
  const auto* value = attribute_as<double>(node_, attribute);
  return value ? *value : absent;
}

std::string Conversion::text(const char* attribute, const char* absent) const {
  const auto* value = attribute_as<std::string>(node_, attribute);
  return value ? *value : absent;
}

std::vector<int64_t> Conversion::wholes(const char* attribute, std::vector<int64_t> absent) const {
  const auto* value = attribute_as<std::vector<int64_t>>(node_, attribute);
  return value ? *value : absent;
}

const StoredTensor* Conversion::tensor_attribute(const char* attribute) const {
  return attribute_as<StoredTensor>(node_, attribute);
}

// --- known values

HostTensor Conversion::known(const Value& value, const char* what) const {
  if (!value.is_known()) refuse(fmt::format("{} depends on data", what));
  return elements_of(value);
}

std::vector<int64_t> Conversion::known_wholes(const Value& value, const char* what) const {
  std::vector<int64_t> wholes;
  for (const double number : known(value, what).data) wholes.push_back(to_whole(number));
  return wholes;
}

ir::Shape Conversion::known_shape(const Value& value) const {
  ir::Shape shape = known_wholes(value, "the shape");
  for (const int64_t extent : shape)
    if (extent < -1 || extent > ir::most_extent) refuse(fmt::format("has an extent of {}", extent));
  return shape;
}

double Conversion::known_number(const Value& value, const char* what) const {
  const HostTensor tensor = known(value, what);
  if (tensor.data.size() != 1)
    refuse(fmt::format("{} is {}, expected one number", what, to_text(tensor.type)));
  return tensor.data[0];
}

std::optional<double> Conversion::uniform(const Value& value) const {
  if (!value.is_known() || !value.weight.empty()) return {};
  const HostTensor elements = elements_of(value);
  if (elements.data.empty()) return {};
  for (const double x : elements.data)
    if (x != elements.data[0]) return {};
  return elements.data[0];
}

Value Conversion::computed(HostTensor tensor, std::string weight) const {
  Value value;
  value.type = tensor.type;
  value.computed = std::move(tensor);
  value.weight = std::move(weight);
  return value;
}

Value Conversion::constant(double value, ir::Shape shape, DType dtype) const {
  const ir::TensorType type{std::move(shape), dtype};
  if (type.elements() > most_known) refuse("is too large to compute here");
  HostTensor tensor = cpu::zeros(type);
  std::fill(tensor.data.begin(), tensor.data.end(), value);
  return computed(std::move(tensor));
}

ir::Shape Conversion::for_batch(ir::Shape shape, const Value& of) const {
  const int64_t in_file = maker_.file_batch_, batch = maker_.batch_;
  const bool has_batch = !of.is_known() && !of.type.shape.empty() && of.type.shape[0] % batch == 0;
  if (in_file > 0 && has_batch && !shape.empty() && shape[0] > 0 && shape[0] % in_file == 0)
    shape[0] = shape[0] / in_file * batch;
  return shape;
}

Value Conversion::named(Value weight, const char* end) const {
  if (weight.is_known() && !weight.weight.empty()) maker_.ends_.emplace(weight.weight, end);
  return weight;
}

// --- ops

std::vector<Value> Conversion::emit_all(std::string_view op, const std::vector<Value>& operands,
                                        ir::Attrs attrs, const char* what) const {
  std::vector<Value> results;
  if (std::all_of(operands.begin(), operands.end(), [](const Value& v) { return v.is_known(); })) {
    const auto of_weight = std::find_if(operands.begin(), operands.end(), [](const Value& v) {
      return !v.weight.empty() && v.type.dtype == DType::float32;
    });
    if (of_weight != operands.end())
      return made_of_weights(op, operands, std::move(attrs), what, of_weight->weight);
    for (HostTensor& tensor : compute(op, operands, attrs)) results.push_back(computed(std::move(tensor)));
    return results;
  }
  for (const ir::TensorId tensor : maker_.add(node_, op, operands, std::move(attrs), what)) {
    Value value;
    value.tensor = tensor;
    value.type = maker_.builder_.type(tensor);
    results.push_back(std::move(value));
  }
  return results;
}

std::vector<Value> Conversion::made_of_weights(std::string_view op, const std::vector<Value>& operands,
                                               ir::Attrs attrs, const char* what,
                                               const std::string& weight) const {
  int depth = 1;
  for (const Value& value : operands)
    if (value.origin) depth = std::max(depth, value.origin->depth + 1);
  if (depth > deepest) refuse("is made of a weight in too many steps");
  const ir::OpDef& def = ir::op(op);
  const ir::Types types = def.infer(types_of(operands), ir::complete(def, attrs));
  const auto origin = std::make_shared<const Origin>(
      Origin{&node_, std::string(op), operands, std::move(attrs), what, depth});
  std::vector<Value> results;
  for (size_t i = 0; i < types.size(); ++i) {
    Value value;
    value.type = types[i];
    value.weight = weight;
    value.origin = origin;
    value.result = i;
    results.push_back(std::move(value));
  }
  return results;
}

Value Conversion::emit(std::string_view op, const std::vector<Value>& operands, ir::Attrs attrs,
                       const char* what) const {
  return emit_all(op, operands, std::move(attrs), what)[0];
}

int64_t rank(const Value& x) { return static_cast<int64_t>(x.type.shape.size()); }

Value scaled(const Conversion& c, const Value& x, double factor, const char* what) {
  return factor == 1 ? x : c.emit("scale", {x}, {{"factor", factor}}, what);
}

Value absolute(const Conversion& c, const Value& x, const char* what) {
  const Value below = c.emit("relu", {c.emit("neg", {x}, {}, "neg")}, {}, "below");
  return c.emit("add", {c.emit("relu", {x}, {}, "above"), below}, {}, what);
}

Value reshaped(const Conversion& c, const Value& x, const ir::Shape& shape, const char* what) {
  return x.type.shape == shape ? x : c.emit("reshape", {x}, {{"shape", shape}}, what);
}

// Broadcasts an axis of one element beside each axis that is repeated.
Value repeated(const Conversion& c, const Value& x, const std::vector<int64_t>& times, Repeat order) {
  const ir::Shape& from = x.type.shape;
  if (times.size() != from.size())
    c.refuse(fmt::format("repeats {} axes of {}", times.size(), to_text(x.type)));
  ir::Shape apart, wide, to;
  const auto add = [&](int64_t extent, int64_t spread) {
    apart.push_back(extent);
    wide.push_back(spread);
  };
  for (size_t i = 0; i < from.size(); ++i) {
    if (times[i] < 1 || times[i] > ir::most_extent)
      c.refuse(fmt::format("repeats an axis {} times", times[i]));
    to.push_back(from[i] * times[i]);
    const bool beside = times[i] > 1 && from[i] > 1;
    if (beside && order == Repeat::whole) add(1, times[i]);
    add(from[i], beside ? from[i] : to[i]);
    if (beside && order == Repeat::elements) add(1, times[i]);
  }
  if (to == from) return x;
  const Value spread = c.emit("broadcast_to", {reshaped(c, x, apart, "apart")}, {{"shape", wide}},
                              wide == to ? "" : "repeated");
  return reshaped(c, spread, to);
}

int64_t axis_of(const Conversion& c, int64_t axis, int64_t axes) {
  if (axis < -axes || axis >= axes) c.refuse(fmt::format("is over axis {} of {}", axis, axes));
  return axis < 0 ? axis + axes : axis;
}

const Converters& converters() {
  static const Converters table = [] {
    Converters all;
    add_pointwise_converters(all);
    add_product_converters(all);
    add_image_converters(all);
    add_row_converters(all);
    add_shape_converters(all);
    add_known_converters(all);
    return all;
  }();
  return table;
}

}  // namespace boxcar::backends::onnx
