// Simulates a small GPT on eight GPUs with the installed libraries, and prints the time of a step.
#include <fmt/core.h>

#include "backends/machines/cluster.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "sim/simulate.h"

int main() {
  boxcar::planner::Job job;
  job.model->layers = 4, job.model->hidden = 512, job.model->heads = 8, job.model->seq = 512;
  job.model->vocab = 8192;
  job.global_batch = 32, job.gpus = 8, job.parallel.tp = 2, job.parallel.pp = 2;
  job.cluster = boxcar::backends::load_cluster("dgx-h100", 8);
  const boxcar::planner::ResolvedJob resolved = boxcar::planner::resolve(job);
  const auto result = boxcar::sim::simulate(boxcar::planner::compile(resolved), resolved->cluster);
  fmt::print("{}\n", result.step_seconds);
}
