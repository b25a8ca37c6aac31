#include "ir/order.h"

#include <fmt/format.h>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::ir {

void verify_operand(const Graph& graph, const Op& op, TensorId input, const std::vector<bool>& defined) {
  const auto place = [&] { return fmt::format("graph {}: op {}", graph.name, op.name); };
  if (input < 0 || input >= static_cast<TensorId>(graph.tensors.size()))
    throw Error::fault(place(), fmt::format("operand {} is no tensor", input));
  if (!at(defined, input))
    throw Error::fault(place(),
                       fmt::format("operand %{} is not defined before it", graph.tensor(input).name));
}

void verify_order(const Graph& graph) {
  std::vector<bool> defined(graph.tensors.size(), false);
  for (const Op& op : graph.ops) {
    for (const TensorId input : op.inputs) verify_operand(graph, op, input, defined);
    for (const TensorId output : op.outputs) defined.at(static_cast<size_t>(output)) = true;
  }
}

}  // namespace boxcar::ir
