// Time to read, check and verify a plan as large as GPT-3 175B's on 1,024 GPUs.
#include <benchmark/benchmark.h>

#include "planner/dry_run.h"
#include "planner/marked_graph.h"
#include "planner/memory_check.h"
#include "planner/verify.h"
#include "support/pipeline_plan.h"

namespace boxcar {
namespace {

const ir::Plan& large() {
  static const ir::Plan plan = support::pipeline_plan({});
  return plan;
}

void write_plan(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ir::to_text(large()));
}
void read_plan(benchmark::State& state) {
  std::string text = ir::to_text(large());
  for (auto _ : state) benchmark::DoNotOptimize(ir::parse_plan(text));
}
void check_plan(benchmark::State& state) {
  for (auto _ : state) ir::check(large());
}
void verify_plan(benchmark::State& state) {
  for (auto _ : state) planner::verify(large(), int64_t{1} << 50);
  state.counters["acts"] = static_cast<double>(ir::size_of(large()).acts_per_step / 128);
}
void build_view(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(planner::view_of_classes(large()));
}
void run_step(benchmark::State& state) {
  planner::StepView view = planner::view_of_classes(large());
  for (auto _ : state) {
    planner::DryRun run = planner::dry_run(view);
    state.counters["acts"] = static_cast<double>(run.acts);
    if (!run.ended) state.SkipWithError("the plan does not end");
  }
}
void compare_memory(benchmark::State& state) {
  for (auto _ : state) planner::check_memory(large());
}
void period(benchmark::State& state) {
  ir::Plan plan = support::pipeline_plan({.micro_batches = static_cast<int>(state.range(0))});
  planner::StepView view = planner::view_of_classes(plan, false);
  std::vector<double> seconds(view.nodes.size(), 1e-4);
  for (auto _ : state) benchmark::DoNotOptimize(planner::period_bound(view, seconds));
}

BENCHMARK(write_plan)->Unit(benchmark::kMillisecond);
BENCHMARK(read_plan)->Unit(benchmark::kMillisecond);
BENCHMARK(check_plan)->Unit(benchmark::kMillisecond);
BENCHMARK(verify_plan)->Unit(benchmark::kMillisecond);
BENCHMARK(build_view)->Unit(benchmark::kMillisecond);
BENCHMARK(run_step)->Unit(benchmark::kMillisecond);
BENCHMARK(compare_memory)->Unit(benchmark::kMillisecond);
BENCHMARK(period)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace boxcar

BENCHMARK_MAIN();
