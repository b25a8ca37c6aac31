// Search times: whole searches (the budget: 0.5 s for 8 layers on 8 GPUs, 10 s for GPT-3 175B on 1,024), and
// the solvers of planner/search alone: a transformer's training step, repeated layers, stages, counts.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "planner/estimate/layout_request.h"
#include "planner/laid_out.h"
#include "planner/planner.h"
#include "planner/search/registers.h"
#include "planner/search/search.h"
#include "planner/solve/blocks.h"
#include "planner/solve/order.h"
#include "planner/solve/stages.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "search/plans.h"
#include "search/problems.h"
#include "sim/simulate.h"

namespace boxcar::search {
namespace {

planner::Job gpt(int layers, int hidden, int heads, int gpus, int batch) {
  planner::Job job;
  job.model = ir::models::defaults("gpt");
  job.model->layers = layers, job.model->hidden = hidden, job.model->heads = heads, job.model->seq = 2048;
  job.model->vocab = 51200;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("dgx-a100-80g", gpus);
  job.gpus = gpus;
  job.global_batch = batch;
  return job;
}

// The same call as `boxcar search`.
void whole_search(benchmark::State& state, const planner::Job& job) {
  const SearchOptions options{.threads = static_cast<int>(state.range(0))};
  const Oracle oracle{sim::act_seconds,
                      [](const ir::Plan& plan, const backends::Cluster& cluster,
                         const std::function<void()>& look) -> Oracle::Step {
                        return {sim::simulate(plan, cluster, {.look = look}).step_seconds};
                      }};
  Outcome found;
  for (auto _ : state) found = search(job, options, oracle);
  state.counters["points"] = static_cast<double>(found.points);
  state.counters["compiled"] = found.compiled;
  if (found.best.empty()) return state.SkipWithError("nothing was found");
  state.counters["step"] = found.best.front().seconds;
}

// About 30 nodes per layer. Edges as in boxing: zero where both ends agree, otherwise a random cost.
Assignment training_step(int layers, int most_choices) {
  std::mt19937 random(1);
  Drawn drawn{.space = {2, 0}, .least_choices = 3, .most_choices = most_choices, .forbidden = 5};
  return draw(random, transformer_shape(layers), drawn);
}

void report(benchmark::State& state, const Assignment& problem, const Answer& answer) {
  state.counters["nodes"] = static_cast<double>(problem.nodes.size());
  state.counters["gap_ppm"] = 1e6 * (answer.value - answer.lower) / answer.value;
  if (!answer.found) state.SkipWithError("nothing was found");
}

void choose(benchmark::State& state) {
  Assignment problem = training_step(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  Answer answer;
  for (auto _ : state) answer = solve(problem);
  report(state, problem, answer);
}

void choose_within_memory(benchmark::State& state) {
  Assignment problem = training_step(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  Objective objective;
  double least = solve(problem, {.weights = {0, 1}}).value;
  objective.limits[1] = (least + solve(problem).cost[1]) / 2;
  Answer answer;
  for (auto _ : state) answer = solve(problem, objective);
  report(state, problem, answer);
}

// The layouts of a GPT on 8 GPUs, 8192 wide, its training graph given.
void layouts(benchmark::State& state) {
  planner::Job job = gpt(static_cast<int>(state.range(0)), 8192, 64, 8, 8);
  job.parallel.tp = static_cast<int>(state.range(1));
  job = planner::resolve(job);
  const planner::LaidOut laid = planner::lay_out(planner::resolve(job));
  FoundLayouts found;
  const planner::Choose choose = chooser(job, {}, &found);
  for (auto _ : state) choose(laid.graph, job.parallel, laid.mesh);
  state.counters["solved"] = found.solved;
  if (!found.optimal()) state.SkipWithError("not optimal");
}

// A layer whose boundaries have 9 choices, n of them in a row, with fronts of seconds and bytes.
void repeat_block(benchmark::State& state) {
  std::mt19937 random(1);
  Block block;
  std::vector<int> choices(31, 4);
  choices[0] = choices[10] = 9;
  choices[11] = choices[21] = 9;
  Shape shape = transformer_shape(1);
  choices.resize(static_cast<size_t>(shape.nodes), 3);
  block.problem = draw(random, shape, {.space = {2, 0}, .forbidden = 5}, choices);
  block.in = {0};
  block.out = {10};
  int tables = 0;
  for (auto _ : state) {
    Chains chains({2, 0}, unlimited(), {.points = 32});
    benchmark::DoNotOptimize(chains.power(chains.add(block), static_cast<int>(state.range(0))));
    tables = chains.tables();
  }
  state.counters["tables"] = tables;
}

// Blocks of uneven work; meshes of 1 to 16 nodes; memory that binds on the first stages.
void cut_stages(benchmark::State& state) {
  StageProblem problem;
  problem.blocks = static_cast<int>(state.range(0));
  problem.devices = static_cast<int>(state.range(1));
  problem.meshes = {1, 2, 4, 8, 16};
  problem.micro_batches = 64;
  problem.memory = 80;
  problem.options = [&](int first, int last, int mesh) {
    double work = 0, devices = at(problem.meshes, mesh);
    for (int b = first; b < last; ++b) work += 1 + 0.1 * (b % 3);
    std::vector<StageOption> options;
    for (double saved : {1.0, 0.3}) {  // keeping less means recomputing more
      options.push_back({work / devices * (1.4 - 0.3 * saved) + 0.02 * devices, 0.1 * work,
                         12 * work / devices, saved * work / devices});
    }
    return options;
  };
  StagePlan plan;
  for (auto _ : state) plan = cut_into_stages(problem);
  state.counters["stages"] = static_cast<double>(plan.stages.size());
  state.counters["step"] = plan.seconds;
}

void count_registers(benchmark::State& state) {
  PipelineShape shape;
  shape.stages.assign(static_cast<size_t>(state.range(0)), {2, 4, 2, 2});
  shape.micro_batches = 64;
  shape.slots = 64;
  shape.in_flight = in_flight(shape.stages, least_period(shape.stages));
  ir::Plan plan = pipeline_plan(shape);
  PlanCounts of = counts_of_plan(planner::view_of_devices(plan), seconds_of(plan));
  Counts counts;
  for (auto _ : state) counts = least_counts(of.problem, least_period(of.problem));
  state.counters["acts"] = static_cast<double>(of.problem.graph.seconds.size());
  state.counters["optimal"] = counts.optimal();
}

BENCHMARK_CAPTURE(whole_search, 8_layers_on_8, gpt(8, 4096, 32, 8, 64))
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(whole_search, gpt3_175b_on_1024, gpt(96, 12288, 96, 1024, 1536))
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(choose)->Args({5, 8})->Args({5, 20})->Args({24, 8})->Unit(benchmark::kMillisecond);
BENCHMARK(choose_within_memory)->Args({5, 8})->Args({5, 20})->Unit(benchmark::kMillisecond);
BENCHMARK(layouts)->Args({4, 8})->Args({24, 8})->Args({96, 8})->Args({96, 4})->Unit(benchmark::kMillisecond);
BENCHMARK(repeat_block)->Arg(12)->Arg(96)->Arg(1024)->Unit(benchmark::kMillisecond);
BENCHMARK(cut_stages)->Args({48, 32})->Args({128, 64})->Args({128, 128})->Unit(benchmark::kMillisecond);
BENCHMARK(count_registers)->Arg(4)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace boxcar::search

BENCHMARK_MAIN();
