#include "ir/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/limits.h"
#include "ir/read_number.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  int64_t bytes;
  bool is_float;
};

constexpr std::array<DTypeRow, 9> kDTypes = {{
    {DType::float64, "float64", 8, true},
    {DType::float32, "float32", 4, true},
    {DType::float16, "float16", 2, true},
    {DType::bfloat16, "bfloat16", 2, true},
    {DType::float8, "float8", 1, true},
    {DType::int64, "int64", 8, false},
    {DType::int32, "int32", 4, false},
    {DType::int8, "int8", 1, false},
    {DType::boolean, "boolean", 1, false},
}};

const DTypeRow& row(DType dtype) { return at(kDTypes, dtype); }

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<int64_t> parse_ints(std::string_view text, std::string_view whole) {
  std::vector<int64_t> values;
  text = trim(text);
  while (!text.empty()) {
    size_t comma = text.find(',');
    const auto value = read_number<int64_t>(trim(text.substr(0, comma)));
    if (!value)
      throw Error::input(fmt::format("\"{}\"", whole), "expected integers between [ and ], such as [4, 6]");
    values.push_back(*value);
    if (comma == std::string_view::npos) break;
    text = trim(text.substr(comma + 1));
  }
  return values;
}

std::string quote(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string unquote(std::string_view text) {
  std::string plain;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    plain += text[i];
  }
  return plain;
}

std::string float_text(double value) {
  std::string text = fmt::format("{}", value);
  bool plain = text.find_first_of(".en") == std::string::npos;  // e of 1e-5, n of inf and nan
  return plain ? text + ".0" : text;
}

template <class Value>
const Value& get(const Attrs& attrs, std::string_view name, const char* kind) {
  auto found = attrs.find(name);
  if (found == attrs.end()) throw Error::fault(std::string(name), "attribute is missing");
  const Value* value = std::get_if<Value>(&found->second);
  if (!value)
    throw Error::fault(std::string(name), fmt::format("{} is not {}", to_text(found->second), kind));
  return *value;
}

}  // namespace

int64_t size_of(DType dtype) { return row(dtype).bytes; }
const char* to_text(DType dtype) { return row(dtype).name; }
bool is_float(DType dtype) { return row(dtype).is_float; }
DType wide(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

DType parse_dtype(std::string_view text) {
  std::string known;
  for (const DTypeRow& candidate : kDTypes) {
    if (candidate.name == text) return candidate.dtype;
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
  }
  throw Error::input(fmt::format("\"{}\"", text), fmt::format("no such element type; known are {}", known));
}

int64_t TensorType::elements() const {
  constexpr int64_t most = int64_t{1} << 58;  // their bytes can still be counted
  int64_t count = 1;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count) || count > most) return most;
  return count;
}

int64_t TensorType::bytes() const { return elements() * size_of(dtype); }

std::string flaw_of(const TensorType& type) {
  int64_t room = most_elements;
  for (int64_t extent : type.shape) {
    if (extent < 0) return "an extent is negative";
    if (extent > most_extent) return fmt::format("an extent is beyond {}", most_extent);
    room /= std::max<int64_t>(extent, 1);
  }
  return room > 0 ? "" : fmt::format("its extents multiply to more than {}", most_elements);
}

std::string to_text(const TensorType& type) {
  return fmt::format("{}[{}]", to_text(type.dtype), fmt::join(type.shape, ", "));
}

TensorType parse_tensor_type(std::string_view text) {
  std::string_view body = trim(text);
  size_t open = body.find('[');
  if (open == std::string_view::npos || body.back() != ']') {
    throw Error::input(fmt::format("\"{}\"", text), "expected a tensor type such as float32[4, 6]");
  }
  TensorType type;
  type.dtype = parse_dtype(trim(body.substr(0, open)));
  type.shape = parse_ints(body.substr(open + 1, body.size() - open - 2), text);
  if (const std::string flaw = flaw_of(type); !flaw.empty())
    throw Error::input(fmt::format("\"{}\"", text), flaw);
  return type;
}

std::string to_text(const Attr& attr) {
  if (auto value = std::get_if<int64_t>(&attr)) return fmt::format("{}", *value);
  if (auto value = std::get_if<double>(&attr)) return float_text(*value);
  if (auto value = std::get_if<bool>(&attr)) return *value ? "true" : "false";
  if (auto value = std::get_if<std::string>(&attr)) return quote(*value);
  return fmt::format("[{}]", fmt::join(std::get<std::vector<int64_t>>(attr), ", "));
}

std::string to_text(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs) text += (text.empty() ? "" : ", ") + name + "=" + to_text(value);
  return "{" + text + "}";
}

Attr parse_attr(std::string_view text) {
  std::string_view body = trim(text);
  if (body == "true" || body == "false") return body == "true";
  if (body.size() >= 2 && body.front() == '"' && body.back() == '"') return unquote(body);
  if (body.size() >= 2 && body.front() == '[' && body.back() == ']') {
    return parse_ints(body.substr(1, body.size() - 2), text);
  }
  if (const auto integer = read_number<int64_t>(body)) return *integer;
  if (is_number<int64_t>(body)) throw Error::input(fmt::format("\"{}\"", text), "is beyond 64 bits");
  if (const auto real = read_number<double>(body)) return *real;
  if (is_number<double>(body)) throw Error::input(fmt::format("\"{}\"", text), "is beyond a float64");
  bool word = !body.empty() && body.find_first_of(" ,=[]{}\"") == std::string_view::npos;
  if (word) return std::string(body);
  throw Error::input(fmt::format("\"{}\"", text), "expected an attribute: 4, 0.5, true, \"text\" or [1, 2]");
}

int64_t attr_int(const Attrs& attrs, std::string_view name) {
  return get<int64_t>(attrs, name, "an integer");
}
double attr_float(const Attrs& attrs, std::string_view name) { return get<double>(attrs, name, "a float"); }
bool attr_bool(const Attrs& attrs, std::string_view name) { return get<bool>(attrs, name, "true or false"); }

const std::string& attr_text(const Attrs& attrs, std::string_view name) {
  return get<std::string>(attrs, name, "a text");
}

const std::vector<int64_t>& attr_ints(const Attrs& attrs, std::string_view name) {
  return get<std::vector<int64_t>>(attrs, name, "a list of integers");
}

}  // namespace boxcar::ir
