#include "ir/parameter_kinds.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::ir {
namespace {

// The tensor and the tensors that it is cast from, back to a parameter; none if the origin is not a
// parameter.
std::vector<TensorId> copies_of_parameter(const Graph& graph, TensorId t) {
  const auto producer = [&](TensorId made) -> const Op& {
    return at(graph.ops, graph.tensor(made).producer);
  };
  std::vector<TensorId> copies{t};
  while (producer(copies.back()).is(OpKind::cast)) copies.push_back(producer(copies.back()).inputs[0]);
  return producer(copies.back()).is(OpKind::parameter) ? copies : std::vector<TensorId>();
}

}  // namespace

std::vector<ParameterKind> parameter_kinds(const Graph& graph) {
  std::vector<ParameterKind> kinds(graph.tensors.size(), ParameterKind::plain);
  std::vector<bool> by_expert(graph.tensors.size());  // made from results of moe_dispatch
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::forward || !has_op(op.type)) continue;
    const bool reads =
        !op.is(OpKind::combine) && std::any_of(op.inputs.begin(), op.inputs.end(),
                                               [&](TensorId input) -> bool { return at(by_expert, input); });
    for (const TensorId output : op.outputs) at(by_expert, output) = reads || op.is(OpKind::dispatch);
    const bool convolves = ir::op(op.type).family == Family::convolution;
    if (!reads && !convolves) continue;
    for (TensorId input : op.inputs) {
      for (const TensorId copy : copies_of_parameter(graph, input))
        at(kinds, copy) = reads ? ParameterKind::experts : ParameterKind::convolution;
    }
  }
  return kinds;
}

std::vector<bool> vector_parameters(const Graph& graph) {
  const std::vector<ParameterKind> kinds = parameter_kinds(graph);
  std::vector<bool> vectors(graph.tensors.size());
  for (const Op& op : graph.ops) {
    if (!op.is(OpKind::parameter)) continue;
    const TensorId t = op.outputs[0];
    const Shape& shape = graph.tensor(t).type.shape;
    const std::ptrdiff_t first = at(kinds, t) == ParameterKind::experts ? 1 : 0;
    at(vectors, t) = std::count_if(shape.begin() + first, shape.end(), [](int64_t n) { return n > 1; }) <= 1;
  }
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::forward || !has_op(op.type)) continue;
    const Family family = ir::op(op.type).family;
    if (family != Family::matmul && family != Family::convolution) continue;
    for (size_t factor = 0; factor < 2; ++factor)  // a bias may follow them
      for (const TensorId copy : copies_of_parameter(graph, op.inputs[factor])) at(vectors, copy) = false;
  }
  return vectors;
}

}  // namespace boxcar::ir
