// Element types, tensor types and attributes: plain values that describe ops.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sbp/sbp.h"

namespace boxcar::ir {

using sbp::Shape;

enum class DType : uint8_t { float64, float32, float16, bfloat16, float8, int64, int32, int8, boolean };
int64_t size_of(DType dtype);              // bytes of one element
const char* to_text(DType dtype);          // "float32"
DType parse_dtype(std::string_view text);  // throws Error naming the known ones
bool is_float(DType dtype);
DType wide(DType dtype);  // type of sums and statistics of `dtype`: float64 for itself, else float32

// float32[4, 6]
struct TensorType {
  Shape shape;
  DType dtype = DType::float32;
  int64_t elements() const;  // 1 for a scalar; at most 2^58
  int64_t bytes() const;
  friend auto operator<=>(const TensorType&, const TensorType&) = default;
};
std::string to_text(const TensorType& type);
TensorType parse_tensor_type(std::string_view text);

// An op's attributes, sorted by name. Text: {axis=1, transpose_b=true}
using Attr = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>>;
using Attrs = std::map<std::string, Attr, std::less<>>;
std::string to_text(const Attr& attr);
std::string to_text(const Attrs& attrs);
Attr parse_attr(std::string_view text);

// Reads an attribute that must exist; throws Error (fault) naming it if it does not.
int64_t attr_int(const Attrs& attrs, std::string_view name);
double attr_float(const Attrs& attrs, std::string_view name);
bool attr_bool(const Attrs& attrs, std::string_view name);
const std::string& attr_text(const Attrs& attrs, std::string_view name);
const std::vector<int64_t>& attr_ints(const Attrs& attrs, std::string_view name);

}  // namespace boxcar::ir
