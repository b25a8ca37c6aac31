#include "actors/training/evaluate.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/host/parts.h"
#include "backends/machines/cluster.h"
#include "ir/ops/batch_statistics.h"
#include "ir/passes/use_averages.h"
#include "planner/planner.h"
#include "sbp/error.h"

namespace boxcar::training {

using backends::host::GlobalTensors;

namespace {

// The forward pass of a model, entirely on device 0. Without running averages among the weights, batch norm
// takes a batch's statistics.
ir::Graph forward(ir::models::Model model, const GlobalTensors& weights, int64_t rows) {
  if (model.transformer()) model->dropout = 0;
  ir::Graph graph = ir::models::build(model, rows);
  if (std::ranges::any_of(weights, [](const auto& entry) { return ir::is_running_average(entry.first); }))
    graph = ir::use_running_averages(std::move(graph));
  graph.placements.push_back({{1}, {0}});
  for (ir::Op& op : graph.ops) op.placement = 0;
  return graph;
}

std::set<std::string> inputs_of(const ir::Graph& graph) {
  std::set<std::string> names;
  for (const ir::Tensor& tensor : graph.tensors)
    if (tensor.role == ir::Role::input) names.insert(tensor.name);
  return names;
}

}  // namespace

double evaluate(const ir::models::Model& model, const GlobalTensors& weights,
                const backends::host::Samples& samples, int64_t count, int64_t rows) {
  rows = std::gcd(count, rows);
  const int64_t batches = count / rows;
  const ir::Graph graph = forward(model, weights, rows);
  const std::set<std::string> inputs = inputs_of(graph);
  const ir::Plan plan =
      planner::compile(graph, static_cast<int>(batches), backends::load_cluster("local", 1));
  const auto backend = backends::cpu::make_cpu_backend(1);
  double sum = 0;
  actors::Hooks hooks;
  hooks.fill = [&](int, const ir::Register& reg, const backends::Moment& moment, std::span<std::byte> bytes) {
    const std::vector<sbp::Range> whole = backends::host::all_of(reg.type.shape);
    if (!inputs.contains(reg.name))
      return backends::host::take_part(weights.at(reg.name), whole, reg.type.dtype, bytes);
    std::byte* out = bytes.data();
    for (int64_t row = 0; row < rows; ++row)
      out += samples.read(reg.name, moment.micro_batch * rows + row, std::span(whole).subspan(1), false, out);
  };
  hooks.watch = {ir::loss_name};
  hooks.watched = [&](int, const ir::Register&, const backends::Moment&, std::span<const std::byte> bytes) {
    sum += backends::host::load_element(ir::DType::float32, bytes.data());
  };
  actors::Runtime runtime(plan, *backend, std::move(hooks));
  runtime.steps(1, 0);
  return sum / static_cast<double>(batches);
}

}  // namespace boxcar::training
