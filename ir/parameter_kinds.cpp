#include "ir/parameter_kinds.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::ir {

std::vector<ParameterKind> parameter_kinds(const Graph& graph) {
  std::vector<ParameterKind> kinds(graph.tensors.size(), ParameterKind::plain);
  std::vector<bool> by_expert(graph.tensors.size());  // made of what moe_dispatch gave each expert
  const auto producer = [&](TensorId t) -> const Op& { return at(graph.ops, graph.tensor(t).producer); };
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::forward || !has_op(op.type)) continue;
    const bool reads =
        !op.is(OpKind::combine) && std::any_of(op.inputs.begin(), op.inputs.end(),
                                               [&](TensorId input) -> bool { return at(by_expert, input); });
    for (const TensorId output : op.outputs) at(by_expert, output) = reads || op.is(OpKind::dispatch);
    const bool convolves = ir::op(op.type).family == Family::convolution;
    if (!reads && !convolves) continue;
    for (TensorId input : op.inputs) {
      std::vector<TensorId> copies{input};
      while (producer(copies.back()).is(OpKind::cast)) copies.push_back(producer(copies.back()).inputs[0]);
      if (!producer(copies.back()).is(OpKind::parameter)) continue;
      for (const TensorId copy : copies)
        at(kinds, copy) = reads ? ParameterKind::experts : ParameterKind::convolution;
    }
  }
  return kinds;
}

}  // namespace boxcar::ir
