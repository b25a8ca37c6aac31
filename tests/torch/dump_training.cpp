#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "backends/cpu/evaluate.h"
#include "backends/host/checkpoint.h"
#include "dump.h"
#include "ir/passes/passes.h"

namespace boxcar::tests {
namespace {

using backends::cpu::HostTensor;
using backends::cpu::Values;
using backends::host::StoredTensor;
using ir::models::Transformer;
using Json = nlohmann::ordered_json;

constexpr int kSteps = 10, kBatch = 3;

// One training run: model, optimizer, and the same for gpt.py.
struct Run {
  std::string name;
  Transformer model;
  ir::Optimizer optimizer;
  ir::Attrs update;  // attributes of the update ops
  double clip_norm;
  std::vector<std::string> flags;
};

Transformer small(const std::string& family) {
  Transformer c = ir::models::defaults(family);
  c.layers = 2;
  c.hidden = 24;
  c.heads = 4;
  c.seq = 12;
  c.vocab = 40;
  c.ffn = 20;
  c.dropout = 0;
  c.pad_vocab_to = 1;
  return c;
}

Transformer with(Transformer model, const std::function<void(Transformer&)>& change) {
  change(model);
  return ir::models::complete(model);
}

std::vector<Run> runs() {
  const ir::Attrs adam = {{"lr", 1e-3}, {"weight_decay", 0.1}};
  const std::vector<std::string> adam_flags = {"--lr", "1e-3", "--weight-decay", "0.1"};
  const auto untied = [](Transformer& c) { c.tied = false; };
  const auto grouped = [](Transformer& c) { c.kv_heads = 2; };
  const auto flash = [](Transformer& c) { c.flash = c.bias = c.tied = true; };
  return {{"gpt-adam", ir::models::complete(small("gpt")), ir::Optimizer::adam, adam, 0, adam_flags},
          {"gpt-untied-clip",
           with(small("gpt"), untied),
           ir::Optimizer::adam,
           {{"lr", 3e-3}},
           0.5,
           {"--lr", "3e-3", "--clip", "0.5"}},
          {"llama-adam", ir::models::complete(small("llama")), ir::Optimizer::adam, adam, 0, adam_flags},
          {"llama-grouped-sgd",
           with(small("llama"), grouped),
           ir::Optimizer::sgd,
           {{"lr", 0.05}, {"weight_decay", 0.1}},
           0,
           {"--optimizer", "sgd", "--lr", "0.05", "--weight-decay", "0.1"}},
          {"llama-flash-momentum",
           with(small("llama"), flash),
           ir::Optimizer::momentum,
           {{"lr", 0.01}, {"momentum", 0.9}},
           0,
           {"--optimizer", "sgd", "--lr", "0.01", "--momentum", "0.9"}}};
}

HostTensor random_weight(std::mt19937_64& random, const std::string& name, const ir::TensorType& type) {
  std::normal_distribution<double> normal(
      name.find("ln") != std::string::npos && name.ends_with("weight") ? 1 : 0, 0.2);
  HostTensor tensor = backends::cpu::zeros(type);
  for (double& x : tensor.data) x = static_cast<float>(normal(random));
  return tensor;
}

StoredTensor stored_float32(const HostTensor& tensor) {
  const std::vector<float> numbers(tensor.data.begin(), tensor.data.end());
  StoredTensor result{tensor.type, std::vector<std::byte>(numbers.size() * sizeof(float))};
  std::memcpy(result.bytes.data(), numbers.data(), result.bytes.size());
  return result;
}

// The training step's graph, with the run's own attributes on its update ops.
ir::Graph step_graph(const Run& run) {
  ir::Graph forward = ir::models::build(run.model, kBatch);
  ir::TrainOptions options;
  options.precision = ir::Precision::fp32;
  options.optimizer = run.optimizer;
  options.clip_norm = run.clip_norm;
  ir::TensorId loss = -1;
  for (size_t i = 0; i < forward.tensors.size(); ++i)
    if (forward.tensors[i].name == "loss") loss = static_cast<ir::TensorId>(i);
  ir::Graph graph = ir::training_step(std::move(forward), loss, options);
  for (ir::Op& op : graph.ops)
    if (op.type == "sgd" || op.type == "momentum" || op.type == "adam")
      for (const auto& [name, value] : run.update) op.attrs.insert_or_assign(name, value);
  return graph;
}

void set_step(ir::Graph& graph, int64_t step) {
  for (ir::Op& op : graph.ops)
    if (op.type == "adam") op.attrs.insert_or_assign("step", step);
}

// Windows of the tokens at a stride of seq, as the sequences of one batch.
void set_batch(Values& state, const Run& run, const std::vector<uint16_t>& tokens) {
  HostTensor inputs = backends::cpu::zeros({{kBatch, run.model.seq}, ir::DType::int64}), labels = inputs;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    inputs.data[i] = tokens[i];
    labels.data[i] = tokens[i + 1];
  }
  state.insert_or_assign("tokens", inputs);
  state.insert_or_assign("labels", labels);
}

std::vector<double> losses_of(const Run& run, Values state) {
  ir::Graph graph = step_graph(run);
  for (const ir::Op& op : graph.ops) {
    if (op.type != "parameter") continue;
    const ir::Tensor& tensor = graph.tensor(op.outputs[0]);
    if (!state.count(tensor.name)) state.emplace(tensor.name, backends::cpu::zeros(tensor.type));  // a moment
  }
  std::vector<double> losses;
  for (int step = 1; step <= kSteps + 1; ++step) {
    set_step(graph, step);
    const Values values = backends::cpu::evaluate(graph, state);
    losses.push_back(values.at("loss").data[0]);
    for (const ir::Update& update : graph.updates)
      state.insert_or_assign(graph.tensor(update.state).name, values.at(graph.tensor(update.next).name));
  }
  return losses;
}

void dump(const Run& run, const std::string& folder, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values state;
  backends::host::Checkpoint checkpoint{run.model, {}, {}};
  for (const auto& [name, type] : backends::host::parameter_types(run.model)) {
    state.emplace(name, random_weight(random, name, type));
    checkpoint.tensors.emplace(name, stored_float32(state.at(name)));
  }
  write_checkpoint(folder, checkpoint);
  std::vector<uint16_t> tokens;
  for (int64_t i = 0; i < kBatch * run.model.seq + 1; ++i)
    tokens.push_back(static_cast<uint16_t>(random() % static_cast<uint64_t>(run.model.vocab)));
  std::ofstream(folder + "/tokens.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
  set_batch(state, run, tokens);
  const Json json = {{"flags", run.flags}, {"losses", losses_of(run, state)}};
  std::ofstream(folder + "/training.json") << json.dump(1) << "\n";
}

}  // namespace

void dump_training(const std::string& folder) {
  uint64_t seed = 1;
  for (const Run& run : runs()) dump(run, folder + "/" + run.name, seed++);
}

}  // namespace boxcar::tests
