// Simulates a small GPT with several degrees of tensor parallelism, in processes, into a file of runs, and
// prints the fastest degree. Run again, it simulates nothing.
#include "sim/sweep/sweep.h"

#include <fmt/core.h>

#include "backends/machines/cluster.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "sim/simulate.h"

namespace {

using namespace boxcar;

double simulated_seconds(int tp) {
  planner::Job job;
  job.model->layers = 4, job.model->hidden = 512, job.model->heads = 8, job.model->seq = 512;
  job.model->vocab = 8192;
  job.global_batch = 32, job.gpus = 8, job.parallel.tp = tp;
  job.cluster = backends::load_cluster("dgx-h100", 8);
  const planner::ResolvedJob resolved = planner::resolve(job);
  return sim::simulate(planner::compile(resolved), resolved->cluster).step_seconds;
}

}  // namespace

int main() {
  const int degrees[] = {1, 2, 4};
  const sweep::RunsFormat format(
      {"degrees", "1.0"},
      {{.name = "tp", .type = sweep::ColumnType::integer, .meaning = "degree", .asked = true},
       {.name = "step_time_s", .type = sweep::ColumnType::real, .better = sweep::Better::less}},
      {"step_time_s"});
  if (!sweep::has_sqlite()) return 0;
  const auto work = [&](int64_t i) {
    const int tp = degrees[i];
    return sweep::RunRow{fmt::format("tp {}", tp), i, {{"tp", tp}, {"step_time_s", simulated_seconds(tp)}}};
  };
  int64_t run = 0;
  {
    sweep::RunsWriter writer("runs.db", format, "tp: [1, 2, 4]", {"tp"});
    run = sweep::run_points({{"tp 1"}, {"tp 2"}, {"tp 4"}}, writer, {.here = 2}, work).run;
  }
  const auto fastest =
      sweep::read_runs("runs.db", format, {.columns = {"tp"}, .sort = {"step_time_s"}}).rows[0];
  fmt::print("{} run, fastest with tp {}\n", run, fastest[0].get<int>());
}
