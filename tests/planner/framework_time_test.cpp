// Times that a framework's settings give to the acts of compiled plans.
#include <gtest/gtest.h>

#include "backends/machines/framework.h"
#include "planner/planner.h"
#include "sbp/at.h"
#include "sim/simulate.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

struct Times {
  ir::Plan plan;
  std::vector<double> seconds;  // by actor of the first class

  double of(const std::string& name) const {
    const auto& actors = at(plan.programs, plan.classes[0].program).actors;
    for (size_t a = 0; a < actors.size(); ++a)
      if (actors[a].name == name) return seconds[a];
    ADD_FAILURE() << name;
    return 0;
  }
};

Times times(Job job, const std::function<void(backends::Framework&)>& change) {
  job.cluster = backends::load_cluster("dgx-a100-80g", job.gpus);
  job.cluster.node.host_per_op = 0;
  change(job.cluster.framework);
  if (job.cluster.framework->host_per_op) job.cluster.node.host_per_op = *job.cluster.framework->host_per_op;
  job.train.precision = ir::Precision::fp16;
  Times found{compile(resolve(job)), {}};
  found.seconds = sim::act_seconds(found.plan, job.cluster, 0);
  return found;
}

TEST(FrameworkTime, ProductsSumGradientsInFloat32) {
  Job job = small_job(1, 1, 1, 1, 2);
  const auto product = [](backends::Framework& framework) { framework.sums_in_products = true; };
  const Times apart = times(job, [](backends::Framework&) {}), within = times(job, product);
  EXPECT_GT(apart.of("h0.mlp.fc1.weight.grad.sum"), 0);
  EXPECT_EQ(within.of("h0.mlp.fc1.weight.grad.sum"), 0);
  EXPECT_EQ(within.of("h0.mlp.fc1.grad_w"), apart.of("h0.mlp.fc1.grad_w"));
  EXPECT_EQ(within.of("h0.ln1.weight.grad.sum"), apart.of("h0.ln1.weight.grad.sum"));  // no product's
  job.train.gradients = ir::Gradients::half;
  EXPECT_GT(times(job, product).of("h0.mlp.fc1.weight.grad.sum"), 0);
}

// The host's launches of a pass show before its first kernel, where the host has waited for another stage.
TEST(FrameworkTime, StagesWaitForWhatTheHostDoesBeforeAPass) {
  const auto launches = [](double of_pass) {
    return [of_pass](backends::Framework& framework) {
      framework.host_per_op = 1e-9, framework.pass_launches = of_pass;
    };
  };
  const Job stages = small_job(1, 1, 2, 2, 4), alone = small_job(1, 1, 1, 2, 4);
  for (const char* first : {"embedding.lookup", "h0.residual2.grad_x"}) {
    const double more = times(stages, launches(1000)).of(first) - times(stages, launches(0)).of(first);
    EXPECT_NEAR(more, 1e-6, 1e-12) << first;
  }
  EXPECT_EQ(times(alone, launches(1000)).of("embedding.lookup"),
            times(alone, launches(0)).of("embedding.lookup"));
}

}  // namespace
}  // namespace boxcar::planner
