// Operators whose results do not depend on data: shapes, ranges, comparisons of them, masks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "backends/host/parts.h"
#include "backends/onnx/conversion.h"

namespace boxcar::backends::onnx {
namespace {

using ir::DType;

constexpr double most_made = 1 << 25;  // elements of a range or constant

void constant(Conversion& c) {
  if (const StoredTensor* tensor = c.tensor_attribute("value")) {
    Value value;
    value.type = tensor->type;
    value.stored = tensor;
    return c.out(std::move(value));
  }
  if (c.has_attribute("value_float")) return c.out(c.constant(c.number("value_float", 0)));
  if (c.has_attribute("value_int"))
    return c.out(c.constant(static_cast<double>(c.whole("value_int", 0)), {}, DType::int64));
  if (!c.has_attribute("value_ints")) c.refuse("has no value that is read here");
  HostTensor list;
  for (const int64_t number : c.wholes("value_ints", {})) list.data.push_back(static_cast<double>(number));
  list.type = {{static_cast<int64_t>(list.data.size())}, DType::int64};
  c.out(c.computed(std::move(list)));
}

void constant_of_shape(Conversion& c) {
  const ir::Shape shape = c.known_shape(c.in(0));
  const StoredTensor* value = c.tensor_attribute("value");
  const DType dtype = value ? value->type.dtype : DType::float32;
  if (value && value->type.elements() != 1) c.refuse("has a value of several elements");
  double elements = 1;
  for (const int64_t extent : shape) elements *= extent < 0 ? 2 * most_made : static_cast<double>(extent);
  if (elements > most_made) c.refuse("is too large to compute here");
  double number = 0;
  if (value)
    number = dtype == DType::boolean ? static_cast<double>(value->bytes[0])
                                     : host::load_element(dtype, value->bytes.data());
  c.out(c.constant(number, shape, dtype));
}

void shape(Conversion& c) {
  const ir::Shape& all = c.in(0).type.shape;
  const auto axes = static_cast<int64_t>(all.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + axes : at, 0, axes); };
  const int64_t begin = place(c.whole("start", 0)), end = std::max(begin, place(c.whole("end", axes)));
  HostTensor extents{{{end - begin}, DType::int64}, {}};
  for (int64_t i = begin; i < end; ++i)
    extents.data.push_back(static_cast<double>(all[static_cast<size_t>(i)]));
  c.out(c.computed(std::move(extents)));
}

void size(Conversion& c) {
  c.out(c.constant(static_cast<double>(c.in(0).type.elements()), {}, DType::int64));
}

void range(Conversion& c) {
  const double begin = c.known_number(c.in(0), "start"), end = c.known_number(c.in(1), "limit"),
               step = c.known_number(c.in(2), "delta");
  const double count = std::max(0.0, std::ceil((end - begin) / step));
  if (!(count <= most_made)) c.refuse("is too large to compute here");
  HostTensor numbers{{{static_cast<int64_t>(count)}, c.in(0).type.dtype}, {}};
  for (int64_t i = 0; i < numbers.type.shape[0]; ++i)
    numbers.data.push_back(begin + static_cast<double>(i) * step);
  c.out(c.computed(std::move(numbers)));
}

// Both operands in their common shape, by the rules of the registry's own ops: a + 0 b is a in that shape.
std::pair<HostTensor, HostTensor> in_common_shape(const Conversion& c) {
  HostTensor a = c.known(c.in(0), "an operand"), b = c.known(c.in(1), "an operand");
  a.type.dtype = b.type.dtype = DType::float32;
  HostTensor zero_a = a, zero_b = b;
  std::fill(zero_a.data.begin(), zero_a.data.end(), 0);
  std::fill(zero_b.data.begin(), zero_b.data.end(), 0);
  const HostTensor left = *c.emit("add", {c.computed(std::move(a)), c.computed(std::move(zero_b))}).computed,
                   right = *c.emit("add", {c.computed(std::move(b)), c.computed(std::move(zero_a))}).computed;
  return {left, right};
}

template <class Compare>
void compare(Conversion& c) {
  const auto [left, right] = in_common_shape(c);
  HostTensor result{{left.type.shape, DType::boolean}, {}};
  for (size_t i = 0; i < left.data.size(); ++i)
    result.data.push_back(Compare()(left.data[i], right.data[i]) ? 1 : 0);
  c.out(c.computed(std::move(result)));
}

void invert(Conversion& c) {
  HostTensor x = c.known(c.in(0), "its operand");
  for (double& element : x.data) element = element == 0 ? 1 : 0;
  c.out(c.computed(std::move(x)));
}

struct Both {
  bool operator()(double a, double b) const { return a != 0 && b != 0; }
};
struct Either {
  bool operator()(double a, double b) const { return a != 0 || b != 0; }
};

// Everything above the diagonal, or below, is zero.
void triangle(Conversion& c) {
  HostTensor x = c.known(c.in(0), "its operand");
  const size_t axes = x.type.shape.size();
  if (axes < 2) c.refuse("has fewer than two axes");
  const int64_t rows = x.type.shape[axes - 2], columns = x.type.shape[axes - 1];
  const double k = c.has(1) ? c.known_number(c.in(1), "k") : 0;
  const bool upper = c.whole("upper", 1) != 0;
  for (size_t i = 0; i < x.data.size(); ++i) {
    const auto element = static_cast<int64_t>(i);
    const auto offset = static_cast<double>(element % columns - element / columns % rows);
    if (upper ? offset < k : offset > k) x.data[i] = 0;
  }
  c.out(c.computed(std::move(x)));
}

void floor(Conversion& c) {
  HostTensor x = c.known(c.in(0), "its operand");
  for (double& element : x.data) element = std::floor(element);
  c.out(c.computed(std::move(x)));
}

// As Python's %, or as C's fmod.
void remainder(Conversion& c) {
  const bool as_c = c.whole("fmod", 0) != 0;
  const auto [x, by] = in_common_shape(c);
  HostTensor result{{x.type.shape, c.in(0).type.dtype}, {}};
  for (size_t i = 0; i < x.data.size(); ++i) {
    if (by.data[i] == 0) c.refuse("divides by 0");
    const double left = std::fmod(x.data[i], by.data[i]);
    const bool other_sign = left != 0 && (left < 0) != (by.data[i] < 0);
    result.data.push_back(!as_c && other_sign ? left + by.data[i] : left);
  }
  c.out(c.computed(std::move(result)));
}

}  // namespace

void add_known_converters(Converters& table) {
  const Converters rows = {{"Constant", constant},
                           {"ConstantOfShape", constant_of_shape},
                           {"Shape", shape},
                           {"Size", size},
                           {"Range", range},
                           {"Equal", compare<std::equal_to<>>},
                           {"Greater", compare<std::greater<>>},
                           {"GreaterOrEqual", compare<std::greater_equal<>>},
                           {"Less", compare<std::less<>>},
                           {"LessOrEqual", compare<std::less_equal<>>},
                           {"And", compare<Both>},
                           {"Or", compare<Either>},
                           {"Not", invert},
                           {"Trilu", triangle},
                           {"Floor", floor},
                           {"Mod", remainder}};
  table.insert(rows.begin(), rows.end());
}

}  // namespace boxcar::backends::onnx
