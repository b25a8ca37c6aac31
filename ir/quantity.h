// Numbers with units as people write them in files and on the command line.
//
//   read_quantity("450GB/s") == {450e9, Unit::bytes_per_second};  read_quantity("400Gbit/s") == {50e9, ...}
//   read_quantity("2us") == {2e-6, Unit::seconds};  read_quantity("0.5") == {0.5, Unit::none}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace boxcar::ir {

enum class Unit : uint8_t { none, bytes, bytes_per_second, seconds, flops_per_second };

struct Quantity {
  double value = 0;  // in the unit without its prefix
  Unit unit = Unit::none;
};

// Nothing unless `text` is a finite number, alone or followed directly by a unit.
std::optional<Quantity> read_quantity(std::string_view text);

const char* example_of(Unit unit);  // "450GB/s"
// For a message about "400Gb/s": "; its unit may be MB/s, GB/s, ..., Gbit/s". Empty if `text` is not a number
// followed by letters, or `unit` is none.
std::string units_hint(std::string_view text, Unit unit);

}  // namespace boxcar::ir
