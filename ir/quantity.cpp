#include "ir/quantity.h"

#include <cctype>
#include <charconv>
#include <cmath>

namespace boxcar::ir {
namespace {

struct Name {
  std::string_view text;
  Unit unit;
  double factor;
};

constexpr Name names[] = {
    {"", Unit::none, 1},
    {"kB", Unit::bytes, 1e3},
    {"MB", Unit::bytes, 1e6},
    {"GB", Unit::bytes, 1e9},
    {"TB", Unit::bytes, 1e12},
    {"KiB", Unit::bytes, 0x1p10},
    {"MiB", Unit::bytes, 0x1p20},
    {"GiB", Unit::bytes, 0x1p30},
    {"MB/s", Unit::bytes_per_second, 1e6},
    {"GB/s", Unit::bytes_per_second, 1e9},
    {"TB/s", Unit::bytes_per_second, 1e12},
    {"MiB/s", Unit::bytes_per_second, 0x1p20},
    {"GiB/s", Unit::bytes_per_second, 0x1p30},
    {"Mbit/s", Unit::bytes_per_second, 1e6 / 8},
    {"Gbit/s", Unit::bytes_per_second, 1e9 / 8},
    {"Tbit/s", Unit::bytes_per_second, 1e12 / 8},
    {"ns", Unit::seconds, 1e-9},
    {"us", Unit::seconds, 1e-6},
    {"ms", Unit::seconds, 1e-3},
    {"s", Unit::seconds, 1},
    {"GFLOP/s", Unit::flops_per_second, 1e9},
    {"TFLOP/s", Unit::flops_per_second, 1e12},
    {"PFLOP/s", Unit::flops_per_second, 1e15},
};

}  // namespace

std::optional<Quantity> read_quantity(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  for (const Name& name : names)
    if (name.text == unit && std::isfinite(value * name.factor))
      return Quantity{value * name.factor, name.unit};
  return std::nullopt;
}

std::string units_hint(std::string_view text, Unit unit) {
  const auto is = [](char c, int (*kind)(int)) { return kind(static_cast<unsigned char>(c)) != 0; };
  if (unit == Unit::none || text.empty() || !is(text.front(), std::isdigit) || !is(text.back(), std::isalpha))
    return "";
  std::string all;
  for (const Name& name : names)
    if (name.unit == unit) all += (all.empty() ? "" : ", ") + std::string(name.text);
  return "; its unit may be " + all;
}

const char* example_of(Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return "80GB";
    case Unit::bytes_per_second:
      return "450GB/s";
    case Unit::seconds:
      return "2us";
    case Unit::flops_per_second:
      return "989TFLOP/s";
    case Unit::none:
      break;
  }
  return "0.5";
}

}  // namespace boxcar::ir
