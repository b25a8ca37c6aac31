#include "ir/rewrite.h"

#include <fmt/format.h>

#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::ir {

Rewriter::Rewriter(Graph& graph) : graph_(graph), old_(std::exchange(graph.ops, {})) {
  ops_.reserve(old_.size() * 2);
}

TensorId Rewriter::current(TensorId tensor) const {
  while (static_cast<size_t>(tensor) < replaced_.size() && at(replaced_, tensor) >= 0)
    tensor = at(replaced_, tensor);
  return tensor;
}

void Rewriter::replace(TensorId tensor, TensorId by) {
  if (static_cast<size_t>(tensor) >= replaced_.size()) replaced_.resize(graph_.tensors.size(), -1);
  at(replaced_, tensor) = by;
}

void Rewriter::keep(Op op) {
  for (TensorId& input : op.inputs) input = current(input);
  ops_.push_back(std::move(op));
}

void Rewriter::renew(Op op) {
  Types inputs;
  for (TensorId& input : op.inputs) inputs.push_back(graph_.tensor(input = current(input)).type);
  Types types;
  try {
    types = has_op(op.type) ? ir::op(op.type).infer(inputs, op.attrs) : inputs;
  } catch (const Error& error) {
    throw Error(error.code(), op.name, error.what());
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    Tensor copy = graph_.tensor(op.outputs[i]);
    copy.type = std::move(types[i]);
    const auto id = static_cast<TensorId>(graph_.tensors.size());
    graph_.tensors.push_back(std::move(copy));
    replace(op.outputs[i], id);
    op.outputs[i] = id;
  }
  ops_.push_back(std::move(op));
}

std::vector<TensorId> Rewriter::add(NewOp spec, const Op& like) {
  const OpDef& def = ir::op(spec.type);
  Op op;
  op.name = std::move(spec.name);
  op.type = def.name;
  op.inputs = std::move(spec.inputs);
  op.phase = like.phase;
  op.layer = like.layer;
  op.module = like.module;
  op.placement = like.placement;
  Types inputs;
  inputs.reserve(op.inputs.size());
  for (TensorId& input : op.inputs) inputs.push_back(graph_.tensor(input = current(input)).type);
  Types types;
  try {
    op.attrs = complete(def, spec.attrs);
    types = def.infer(inputs, op.attrs);
  } catch (const Error& error) {
    throw Error(error.code(), op.name, error.what());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    Tensor tensor;
    tensor.name = i < spec.outputs.size() ? std::move(spec.outputs[i]) : output_name(def, op.name, i);
    tensor.type = std::move(types[i]);
    op.outputs.push_back(static_cast<TensorId>(graph_.tensors.size()));
    graph_.tensors.push_back(std::move(tensor));
  }
  ops_.push_back(std::move(op));
  return ops_.back().outputs;
}

TensorId Rewriter::add_source(const char* type, std::string name, TensorType tensor_type, Role role,
                              Attrs attrs, const Op& like) {
  Op op;
  op.name = name;
  op.type = type;
  op.attrs = std::move(attrs);
  op.phase = like.phase;
  op.layer = like.layer;
  op.placement = like.placement;
  const auto id = static_cast<TensorId>(graph_.tensors.size());
  op.outputs = {id};
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = std::move(tensor_type);
  tensor.role = role;
  graph_.tensors.push_back(std::move(tensor));
  ops_.push_back(std::move(op));
  return id;
}

void Rewriter::finish() {
  if (std::exchange(finished_, true)) return;
  renumbered_.assign(graph_.tensors.size(), -1);
  std::vector<Tensor> tensors;
  tensors.reserve(graph_.tensors.size());
  const auto defined = [&](const std::string& reader, TensorId old) {
    const TensorId id = renumbered_.at(static_cast<size_t>(old));
    if (id < 0)
      throw Error::fault(fmt::format("graph {}: op {}", graph_.name, reader),
                         fmt::format("operand %{} is not defined before it", graph_.tensor(old).name));
    return id;
  };
  for (size_t i = 0; i < ops_.size(); ++i) {
    Op& op = ops_[i];
    for (TensorId& input : op.inputs) input = defined(op.name, input);
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const auto old = static_cast<size_t>(op.outputs[k]);
      op.outputs[k] = renumbered_[old] = static_cast<TensorId>(tensors.size());
      tensors.push_back(std::move(graph_.tensors[old]));
      tensors.back().producer = static_cast<OpId>(i);
      tensors.back().output = static_cast<int>(k);
    }
  }
  for (Update& update : graph_.updates) {
    update.state = defined("update", update.state);
    update.next = defined("update", update.next);
  }
  graph_.tensors = std::move(tensors);
  graph_.ops = std::move(ops_);
}

}  // namespace boxcar::ir
