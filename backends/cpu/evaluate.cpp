#include "backends/cpu/evaluate.h"

#include <fmt/format.h>

#include <random>
#include <set>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

HostTensor source(const ir::Graph& graph, const ir::Op& op, const Values& given) {
  const ir::Tensor& tensor = graph.tensor(op.outputs[0]);
  if (op.type == "constant") {
    HostTensor filled = zeros(tensor.type);
    filled.data.assign(filled.data.size(), ir::attr_float(op.attrs, "value"));
    return filled;
  }
  const auto found = given.find(tensor.name);
  if (found == given.end())
    throw Error::input("graph " + graph.name, fmt::format("no value for %{}", tensor.name));
  if (found->second.type.shape != tensor.type.shape)
    throw Error::input("%" + tensor.name,
                       fmt::format("got {}, expected {}", to_text(found->second.type), to_text(tensor.type)));
  return {tensor.type, found->second.data};
}

}  // namespace

Values evaluate(const ir::Graph& graph, const Values& given) {
  std::vector<HostTensor> tensors(graph.tensors.size());
  const auto of = [&](ir::TensorId id) -> HostTensor& { return at(tensors, id); };
  for (const ir::Op& op : graph.ops) {
    if (op.inputs.empty()) {
      of(op.outputs[0]) = source(graph, op, given);
    } else if (op.type == "to_global") {
      of(op.outputs[0]) = of(op.inputs[0]);
    } else {
      Tensors inputs;
      for (ir::TensorId input : op.inputs) inputs.push_back(of(input));
      Tensors outputs = run_reference(op.type, inputs, op.attrs);
      for (size_t i = 0; i < outputs.size(); ++i) of(op.outputs[i]) = std::move(outputs[i]);
    }
  }
  Values values;
  for (size_t i = 0; i < tensors.size(); ++i) values.emplace(graph.tensors[i].name, std::move(tensors[i]));
  return values;
}

Values draw(const ir::Graph& graph, uint64_t seed, int64_t below) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 0.5);
  Values values;
  std::set<ir::TensorId> moments;
  for (const ir::Update& update : graph.updates)
    if (ir::is_of_moment(graph, update)) moments.insert(update.state);
  for (const ir::Op& op : graph.ops) {
    if (op.type != "input" && op.type != "parameter") continue;
    const ir::Tensor& tensor = graph.tensor(op.outputs[0]);
    HostTensor value = zeros(tensor.type);
    const bool moment = moments.contains(op.outputs[0]);
    for (double& x : value.data) {
      if (ir::is_float(tensor.type.dtype))
        x = moment ? 0 : normal(random);
      else
        x = static_cast<double>(random() % static_cast<uint64_t>(below));
    }
    values.emplace(tensor.name, std::move(value));
  }
  return values;
}

}  // namespace boxcar::backends::cpu
