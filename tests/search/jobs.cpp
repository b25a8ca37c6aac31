#include "search/jobs.h"

#include <algorithm>

#include "planner/resolve.h"
#include "planner/verify.h"
#include "sim/simulate.h"

namespace boxcar::search {

using planner::Job;

Job small_gpt(int gpus) {
  Job job;
  job.model = ir::models::defaults("gpt");
  job.model->layers = 4, job.model->hidden = 1024, job.model->heads = 16, job.model->seq = 512;
  job.model->vocab = 8192;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("dgx-a100-80g", gpus);
  job.gpus = gpus;
  job.global_batch = 16;
  return job;
}

Estimate estimated(const Job& job) {
  Job others = job;
  others.train.recompute = job.train.recompute_others;
  const ModelCost again = measure(job, sim::act_seconds);
  return estimate(job, {again, measure(others, sim::act_seconds)});
}

double estimate_over_step(Job job) {
  job = planner::resolve(job);
  const double simulated = sim::simulate(planner::compile(planner::resolve(job)), job.cluster).step_seconds;
  return estimated(job).seconds / simulated;
}

int64_t peak_of(const ir::Plan& plan) {
  int64_t peak = 0;
  for (const planner::MemoryUse& use : planner::memory_use(plan)) peak = std::max(peak, use.total);
  return peak;
}

void each_plan(const Job& job, const std::set<std::string>& pinned,
               const std::function<void(const Job&, const ir::Plan&)>& visit) {
  each_point(job, {pinned, {}}, [&](const Job& point) {
    const planner::ResolvedJob resolved = planner::resolve(point);
    visit(resolved, planner::compile(resolved));
    return false;  // so that every recomputation is visited
  });
}

}  // namespace boxcar::search
