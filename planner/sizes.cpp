#include "planner/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/mesh.h"
#include "planner/stages.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

bool countable(double bytes) { return bytes <= static_cast<double>(ir::most_bytes); }

double bytes_of(const ir::TensorType& type) {
  auto bytes = static_cast<double>(ir::size_of(type.dtype));
  for (int64_t extent : type.shape) bytes *= static_cast<double>(extent);
  return bytes;
}

}  // namespace

TooLarge::TooLarge(std::string what, int on, double all, double device)
    : Error(cannot_run("", fmt::format("does not fit: {} of stage{} {} {:.3g} EB, more than any cluster has",
                                       what, on, what.starts_with('%') ? "has" : "have", all / 1e18))),
      name(std::move(what)),
      stage(on),
      bytes(all),
      device_bytes(device) {}

void check_sizes(const ir::Graph& graph, const Hints& h) {
  for (const ir::Tensor& tensor : graph.tensors) {
    const double bytes = bytes_of(tensor.type);
    if (countable(bytes)) continue;
    const std::vector<OpSite> sites = assign_stages(graph, h.stage_layers, part_places(h));
    const int stage = tensor.producer < 0 ? 0 : std::max(0, at(sites, tensor.producer).stage);
    throw TooLarge("%" + tensor.name, stage, bytes, bytes / (h.dp * h.tp * h.cp));
  }
}

void check_sizes(const ir::Plan& plan, int stages) {
  for (size_t c = 0; c < plan.classes.size(); ++c) {  // classes are in the order of stages
    const ir::Program& program = at(plan.programs, plan.classes[c].program);
    const double bytes = ir::register_bytes(program);
    if (countable(bytes)) continue;
    double largest = 0;
    for (const ir::Register& reg : program.registers)
      largest = std::max(largest, static_cast<double>(reg.bytes) * reg.count);
    throw TooLarge("the registers", static_cast<int>(c) * stages / static_cast<int>(plan.classes.size()),
                   bytes, largest);
  }
}

}  // namespace boxcar::planner
