#include "backends/host/fingerprint.h"

#include <fmt/format.h>

#include "ir/graph.h"

namespace boxcar::backends::host {

std::string fingerprint_of(const ir::models::GraphModel& model) {
  return fmt::format("{:016x}", fingerprint(ir::to_text(ir::models::build(model, 1))));
}

}  // namespace boxcar::backends::host
