// GPT-3 175B (96 layers): the forward graph, and from it a whole training step with passes and checks.
#include <benchmark/benchmark.h>

#include "ir/models/transformer.h"
#include "ir/passes/passes.h"

namespace {

using namespace boxcar;

ir::models::Transformer gpt3() {
  ir::models::Transformer config = ir::models::defaults("gpt");
  config.layers = 96;
  config.hidden = 12288;
  config.heads = 96;
  config.seq = 2048;
  config.vocab = 51200;
  return config;
}

void build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ir::models::build(gpt3(), 16));
}
BENCHMARK(build)->Unit(benchmark::kMillisecond);

void training_step(benchmark::State& state) {
  const ir::Graph forward = ir::models::build(gpt3(), 16);
  const ir::TensorId loss = ir::find_tensor(forward, "loss");
  ir::TrainOptions options;
  options.recompute = static_cast<ir::Recompute>(state.range(0));
  size_t ops = 0;
  for (auto _ : state) ops = ir::training_step(forward, loss, options).ops.size();
  state.counters["ops"] = static_cast<double>(ops);
}
BENCHMARK(training_step)->ArgName("recompute")->Arg(0)->Arg(2)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
