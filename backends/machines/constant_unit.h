// The unit of a constant of a cluster or a device, which its name ends in: bandwidths are in bytes per
// second, latencies in seconds.
//
//   unit_of("node.link_bandwidth") == ir::Unit::bytes_per_second;  unit_of("matmul.wave_overlap") == none
//   read_constant("node.nic_bandwidth", "400Gbit/s") == 50e9;  read_constant(..., "3us"): nothing
#pragma once

#include <optional>
#include <string_view>

#include "ir/quantity.h"

namespace boxcar::backends {

ir::Unit unit_of(std::string_view constant);

// A number in the constant's own unit, or with a unit written behind it. Nothing if `text` is neither.
std::optional<double> read_constant(std::string_view constant, std::string_view text);

}  // namespace boxcar::backends
