#include "cli/quantities.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "ir/quantity.h"
#include "ir/read_number.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using Units = std::vector<std::pair<std::string, double>>;

const Units of_bytes = {{"B", 1}, {"GB", 1e9}, {"MB", 1e6}, {"TB", 1e12}, {"GiB", 0x1p30}, {"MiB", 0x1p20}};

double with_unit(const std::string& flag, const char* what, const std::string& text, const Units& units,
                 const std::string& examples, bool or_zero = false) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  for (const auto& [name, factor] : units)
    if (error == std::errc() && (value > 0 || (or_zero && value == 0)) && std::isfinite(value * factor) &&
        unit == name)
      return value * factor;
  throw Error::input(flag, fmt::format("got \"{}\", expected a {} such as {}", text, what, examples));
}

// Without powers of ten as long as digits are readable.
std::string three_digits(double number) {
  const bool whole = std::abs(number) >= 99.95 && std::abs(number) < 1e7;
  return whole ? fmt::format("{:.0f}", number) : fmt::format("{:.3g}", number);
}

}  // namespace

double read_seconds(const std::string& flag, const std::string& text, const std::string& examples,
                    bool or_zero) {
  return with_unit(flag, "time", text,
                   {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"h", 3600}, {"d", 86400}}, examples,
                   or_zero);
}

double read_bytes(const std::string& flag, const std::string& text, const std::string& examples) {
  return with_unit(flag, "size", text, of_bytes, examples);
}

double read_rate(const std::string& flag, const std::string& text) {
  const std::optional<ir::Quantity> rate = ir::read_quantity(text);
  if (rate && rate->unit == ir::Unit::bytes_per_second && rate->value > 0) return rate->value;
  throw Error::input(flag, fmt::format("got \"{}\", expected a rate such as 200GB/s or 5TB/s", text));
}

double read_count(const std::string& flag, const std::string& text) {
  return with_unit(flag, "number", text,
                   {{"", 1},
                    {"k", 1e3},
                    {"K", 1e3},
                    {"M", 1e6},
                    {"m", 1e6},
                    {"B", 1e9},
                    {"b", 1e9},
                    {"T", 1e12},
                    {"t", 1e12}},
                   "15T, 300B or 4M");
}

std::optional<double> read_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  const std::optional<double> number = ir::read_number<double>(text);
  return number && percent ? *number / 100 : number;
}

std::string number_text(double number) {
  const char* units[] = {"", "k", "M", "B", "T"};
  size_t unit = 0;
  while (std::abs(number) >= 999.5 && unit + 1 < std::size(units)) number /= 1000, ++unit;
  return three_digits(number) + units[unit];
}

std::string duration_text(double seconds) {
  const std::pair<const char*, double> units[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}};
  for (const auto& [name, factor] : units)
    if (seconds >= factor || factor == 1) return fmt::format("{} {}", three_digits(seconds / factor), name);
  return "";
}

std::string percent_text(double share) {
  const double tenths = std::round(1000 * share);
  return fmt::format("{:.1f} %", tenths == 0 ? 0 : 100 * share);
}

std::string signed_percent_text(double share) {
  return std::round(1000 * share) == 0 ? percent_text(0) : fmt::format("{:+.1f} %", 100 * share);
}

std::string counted(int64_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string plain_number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{}", static_cast<int64_t>(value))
                                                              : fmt::format("{}", value);
}

}  // namespace boxcar::cli
