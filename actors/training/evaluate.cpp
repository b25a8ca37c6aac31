#include "actors/training/evaluate.h"

#include <algorithm>
#include <numeric>

#include "actors/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/host/parts.h"
#include "backends/machines/cluster.h"
#include "planner/planner.h"
#include "sbp/error.h"

namespace boxcar::training {
namespace {

// The forward pass of a model, all of it on device 0.
ir::Graph forward(ir::models::Transformer model, int64_t rows) {
  model.dropout = 0;
  ir::Graph graph = ir::models::build(model, rows);
  graph.placements.push_back({{1}, {0}});
  for (ir::Op& op : graph.ops) op.placement = 0;
  return graph;
}

}  // namespace

double evaluate(const ir::models::Transformer& model, const backends::host::GlobalTensors& weights,
                const backends::host::TokenData& data, int64_t sequences, int64_t rows) {
  const backends::host::Sampler sampler(data, model.seq, 0);
  sequences = std::min(sequences, sampler.windows());
  rows = std::gcd(sequences, rows);
  const int64_t batches = sequences / rows;
  const ir::Plan plan =
      planner::compile(forward(model, rows), static_cast<int>(batches), backends::load_cluster("local", 1));
  const auto backend = backends::cpu::make_cpu_backend(1);
  double sum = 0;
  actors::Hooks hooks;
  hooks.fill = [&](int, const ir::Register& reg, const backends::Moment& moment, std::span<std::byte> bytes) {
    if (reg.name != "tokens" && reg.name != "labels")
      return backends::host::take_part(weights.at(reg.name), backends::host::all_of(reg.type.shape),
                                       reg.type.dtype, bytes);
    std::vector<int64_t> tokens(static_cast<size_t>(model.seq)), labels(tokens.size());
    auto* out = reinterpret_cast<int64_t*>(bytes.data());
    for (int64_t row = 0; row < rows; ++row) {
      sampler.sample(moment.micro_batch * rows + row, tokens, labels);
      out = std::copy_n((reg.name == "tokens" ? tokens : labels).begin(), model.seq, out);
    }
  };
  hooks.watch = "loss";
  hooks.watched = [&](int, const backends::Moment&, std::span<const std::byte> bytes) {
    sum += backends::host::load_element(ir::DType::float32, bytes.data());
  };
  actors::Runtime runtime(plan, *backend, std::move(hooks));
  runtime.steps(1, 0);
  return sum / static_cast<double>(batches);
}

}  // namespace boxcar::training
