#include "planner/sizes.h"

#include <fmt/format.h>

#include "sbp/error.h"

namespace boxcar::planner {
namespace {

void require_countable(double bytes, const std::string& what) {
  if (bytes <= static_cast<double>(ir::most_bytes)) return;
  throw Error::cannot_run(
      "", fmt::format("does not fit: {} {:.3g} EB, more than any cluster has", what, bytes / 1e18));
}

}  // namespace

void check_sizes(const ir::Graph& graph) {
  for (const ir::Tensor& tensor : graph.tensors) {
    auto bytes = static_cast<double>(ir::size_of(tensor.type.dtype));
    for (int64_t extent : tensor.type.shape) bytes *= static_cast<double>(extent);
    require_countable(bytes, fmt::format("%{} has", tensor.name));
  }
}

void check_sizes(const ir::Plan& plan) {
  for (const ir::Program& program : plan.programs)
    require_countable(ir::register_bytes(program), fmt::format("the registers of {} have", program.name));
}

}  // namespace boxcar::planner
