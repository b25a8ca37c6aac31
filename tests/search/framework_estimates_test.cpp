// Estimates of steps on each framework, whose collectives of states differ most.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "backends/machines/framework.h"
#include "planner/estimate/step_estimate.h"
#include "planner/resolve.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

Job sharded(const std::string& framework, int zero) {
  Job job = small_gpt(8);
  job.model->hidden = 2048, job.model->seq = 1024, job.model->ffn = 0;
  job.model = ir::models::complete(job.model);
  backends::put_framework(job.cluster, backends::load_framework(framework));
  job.train.precision = ir::Precision::bf16;
  job.parallel.dp = 8, job.parallel.zero = zero, job.parallel.micro_batch = 2, job.global_batch = 64;
  return job;
}

// Some gather and reduce tensors one by one (DeepSpeed), by broadcasts or as a whole.
TEST(FrameworkEstimates, AreNearTheSimulation) {
  double off = 0;
  int jobs = 0;
  for (const std::string& name : backends::framework_names())
    for (const int zero : {0, 1, 2, 3}) {
      const double error = std::abs(estimate_over_step(sharded(name, zero)) - 1);
      EXPECT_LT(error, 0.09) << fmt::format("{} zero {}", name, zero);
      off += error, ++jobs;
    }
  EXPECT_LT(off / jobs, 0.03);
}

TEST(FrameworkEstimates, CountCollectivesThatAreWaitedFor) {
  for (const int zero : {0, 1, 2, 3})
    for (const bool gradients : {true, false})
      for (const bool tensors : {true, false}) {
        Job job = sharded("boxcar", zero);
        job.parallel.overlap_grad = gradients, job.parallel.overlap_param = !gradients;
        job.parallel.overlap_tp = tensors;
        EXPECT_NEAR(estimate_over_step(job), 1, 0.06)
            << fmt::format("zero {} {} {}", zero, gradients, tensors);
      }
}

}  // namespace
}  // namespace boxcar::search
