#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "backends/cpu/evaluate.h"
#include "backends/host/initial.h"
#include "backends/host/safetensors.h"
#include "dump.h"
#include "ir/models/model.h"
#include "ir/passes/passes.h"
#include "ir/passes/use_averages.h"

namespace boxcar::tests {
namespace {

using backends::cpu::HostTensor;
using backends::cpu::Values;
using backends::host::StoredFile;
using backends::host::StoredTensor;
using Json = nlohmann::ordered_json;

constexpr int kImages = 6, kImageSteps = 4;
constexpr double kRate = 0.002;

StoredTensor in_float64(const HostTensor& tensor) {
  StoredTensor result{{tensor.type.shape, ir::DType::float64},
                      std::vector<std::byte>(tensor.data.size() * sizeof(double))};
  std::memcpy(result.bytes.data(), tensor.data.data(), result.bytes.size());
  return result;
}

void draw_batch(std::mt19937_64& random, const ir::Graph& graph, Values& values) {
  std::normal_distribution<double> normal(0.5, 1.5);
  for (const char* name : {"images", "labels"}) {
    HostTensor tensor = backends::cpu::zeros(graph.tensor(ir::find_tensor(graph, name)).type);
    for (double& x : tensor.data) x = ir::is_float(tensor.type.dtype) ? normal(random) : random() % 5;
    values.insert_or_assign(name, std::move(tensor));
  }
}

// The values of a graph's parameters, under names with this prefix.
void add_states(StoredFile& file, const std::string& prefix, const ir::Graph& graph, const Values& values) {
  for (const ir::Op& op : graph.ops)
    if (op.type == "parameter") file.tensors[prefix + op.name] = in_float64(values.at(op.name));
}

}  // namespace

void dump_averages(const std::string& path) {
  const ir::Graph forward = ir::models::build(ir::models::ConvNet{"resnet", 16, 4, 1, 64, 5}, kImages);
  ir::TrainOptions options;
  options.precision = ir::Precision::fp64;
  options.optimizer = ir::Optimizer::sgd;
  options.clip_norm = 0;
  ir::Graph step = ir::training_step(forward, ir::find_tensor(forward, ir::loss_name), options);
  for (ir::Op& op : step.ops)
    if (op.type == "sgd") op.attrs["lr"] = kRate;
  std::mt19937_64 random(1);
  Values values;
  for (const ir::Op& op : step.ops) {
    if (op.type != "parameter") continue;
    const ir::TensorType& type = step.tensor(op.outputs[0]).type;
    const auto rule = backends::host::initial_rule(op.name, forward.layers, type.shape);
    std::normal_distribution<double> normal(rule.mean, rule.deviation);
    HostTensor tensor = backends::cpu::zeros(type);
    for (double& x : tensor.data) x = rule.deviation > 0 ? normal(random) : rule.mean;
    values.emplace(op.name, std::move(tensor));
  }
  StoredFile file;
  add_states(file, "begin.", step, values);
  Json losses = Json::array();
  const auto next_batch = [&](int i) {
    draw_batch(random, step, values);
    for (const char* name : {"images", "labels"})
      file.tensors[name + std::to_string(i)] = in_float64(values.at(name));
  };
  for (int i = 0; i < kImageSteps; ++i) {
    next_batch(i);
    const Values made = backends::cpu::evaluate(step, values);
    losses.push_back(made.at(ir::loss_name).data[0]);
    for (const ir::Update& update : step.updates)
      values.insert_or_assign(step.tensor(update.state).name, made.at(step.tensor(update.next).name));
  }
  add_states(file, "end.", step, values);
  next_batch(kImageSteps);
  for (auto& [name, tensor] : values)  // the forward graph is in float32, which evaluate() does not round to
    if (ir::is_float(tensor.type.dtype)) tensor.type.dtype = ir::DType::float32;
  const Values validated = backends::cpu::evaluate(ir::use_running_averages(forward), values);
  file.metadata = {{"losses", losses.dump()},
                   {"validated", Json(validated.at(ir::loss_name).data[0]).dump()},
                   {"lr", Json(kRate).dump()}};
  backends::host::write_safetensors(path, file);
}

}  // namespace boxcar::tests
