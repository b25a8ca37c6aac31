#include "backends/machines/constant_unit.h"

#include <utility>

namespace boxcar::backends {

ir::Unit unit_of(std::string_view constant) {
  using enum ir::Unit;
  static constexpr std::pair<std::string_view, ir::Unit> endings[] = {{"bandwidth", bytes_per_second},
                                                                      {"latency", seconds},
                                                                      {"seconds", seconds},
                                                                      {"kernel_floor", seconds},
                                                                      {"per_op", seconds},
                                                                      {".base", seconds},
                                                                      {"hop", seconds},
                                                                      {"bytes", bytes},
                                                                      {"workspace", bytes},
                                                                      {"sustained_flops", flops_per_second}};
  if (constant.find("peak_flops.") != std::string_view::npos) return flops_per_second;
  if (constant.find("op_seconds.") != std::string_view::npos) return seconds;
  if (constant.starts_with("bandwidth.")) return bytes_per_second;  // short names of several constants
  if (constant.starts_with("latency.")) return seconds;
  for (const auto& [ending, unit] : endings)
    if (constant.ends_with(ending)) return unit;
  return none;
}

std::optional<double> read_constant(std::string_view constant, std::string_view text) {
  const std::optional<ir::Quantity> read = ir::read_quantity(text);
  if (!read || (read->unit != ir::Unit::none && read->unit != unit_of(constant))) return std::nullopt;
  return read->value;
}

}  // namespace boxcar::backends
