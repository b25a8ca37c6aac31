// Numbers in the texts of this folder.
//
//   read_number<int>("12") == 12; read_number<int>("12x"), <int>("2147483648"), <double>("1e999"): nothing
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace boxcar::ir {

// All of `text` as a number; nothing if it is not one, or is out of the type's range.
template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Whether `text` is written as a number, possibly out of the type's range.
template <class Number>
bool is_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

}  // namespace boxcar::ir
