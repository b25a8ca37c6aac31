// Bytes and seconds for people to read: three or four digits and a unit.
//
//   format_bytes(79.24e9) == "79.2 GB"; format_seconds(0.00321) == "3.21 ms"
#pragma once

#include <string>

namespace boxcar::ir {

std::string format_bytes(double bytes);      // "79.2 GB": powers of ten, three digits
std::string format_seconds(double seconds);  // "18.4 s", "3.21 ms"

}  // namespace boxcar::ir
