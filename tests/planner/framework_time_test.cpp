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

// Recomputed kernels of a pass may run before its gradient comes; the host's launches come behind it.
TEST(FrameworkTime, RecomputationHidesNoLaunchesOfAPass) {
  Job job = small_job(1, 1, 2, 2, 4);
  job.train.recompute = ir::Recompute::full;
  const auto launches = [](double of_pass) {
    return [of_pass](backends::Framework& framework) {
      framework.host_per_op = 1e-9, framework.pass_launches = of_pass;
    };
  };
  const Times with = times(job, launches(1000)), without = times(job, launches(0));
  EXPECT_NEAR(with.of("h0.residual2.grad_x") - without.of("h0.residual2.grad_x"), 1e-6, 1e-12);
  EXPECT_EQ(with.of("h0.ln1.recomputed"), without.of("h0.ln1.recomputed"));
}

double step_seconds(Job job, double links) {
  job.cluster.node.link_bandwidth *= links;
  const ir::Plan plan = compile(resolve(job));
  return sim::simulate(plan, job.cluster).step_seconds;
}

// Where launches bind a step, delays beside a collective hide behind it; then others make up for it.
TEST(FrameworkTime, FasterLinksSlowNoStep) {
  for (const char* name : {"boxcar", "megatron", "pytorch"})
    for (const int tp : {1, 2, 4}) {
      Job job = small_job(4 / tp, tp, 1, 2, 4);
      job.model->hidden = 768, job.model->heads = 12, job.model->seq = 1024;
      job.cluster = backends::load_cluster("dgx-h100", 4);
      job.cluster.framework = backends::load_framework(name);
      if (job.cluster.framework->host_per_op)
        job.cluster.node.host_per_op = *job.cluster.framework->host_per_op;
      job.train.precision = ir::Precision::bf16;
      double slower = step_seconds(job, 1.0 / 64);
      for (const double links : {1.0 / 16, 1.0 / 4, 1.0, 4.0}) {
        const double seconds = step_seconds(job, links);
        EXPECT_LE(seconds, slower * (1 + 1e-3)) << name << " tp " << tp << " links " << links;
        slower = seconds;
      }
    }
}

// Under ZeRO 2 a layer's gradients are reduced behind the next layer. Where launches bind a pass, its kernels
// take as long as the launches, and no longer.
TEST(FrameworkTime, HiddenReductionsDelayNoLaunches) {
  constexpr double host = 1e-3;
  Job job = small_job(4, 1, 1, 4, 2);
  job.model->hidden = 768, job.model->heads = 12;
  job.parallel.zero = 2;
  const Times found = [&] {
    job.cluster = backends::load_cluster("dgx-a100-80g", 4);
    job.cluster.node.host_per_op = host;
    job.cluster.node.link_bandwidth /= 150;
    job.train.precision = ir::Precision::bf16;
    Times slow{compile(resolve(job)), {}};
    slow.seconds = sim::act_seconds(slow.plan, job.cluster, 0);
    return slow;
  }();
  const ir::Program& program = found.plan.programs[0];
  double seconds = 0, reduction = 0;
  int launches = 0;
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (actor.layer < 0 || program.phase_of(actor).kind != ir::PhaseKind::backward) continue;
    const bool reduces = actor.kind == ir::ActorKind::collective;
    launches += reduces || (actor.kind == ir::ActorKind::kernel && found.seconds[a] > 0) ? 1 : 0;
    (reduces ? reduction : seconds) += found.seconds[a];
  }
  EXPECT_GT(reduction, 0.1 * launches * host);
  EXPECT_LE(seconds, 1.01 * launches * host);
  EXPECT_GT(seconds, 0.9 * launches * host);
}

// GPUs without links among them exchange over PCIe.
TEST(FrameworkTime, DevicesWithoutLinksExchangeOverPcie) {
  for (const auto& [tp, pp] : {std::pair(1, 1), {2, 1}, {1, 2}}) {
    Job job = small_job(4 / (tp * pp), tp, pp, 2, 8);
    job.cluster = backends::load_cluster("pcie-a100-80g", 4);
    backends::Node& node = job.cluster.node;
    const double linked = step_seconds(job, 1);
    node.pcie_bandwidth = node.link_bandwidth;
    node.link = backends::LinkKind::none;
    EXPECT_NEAR(step_seconds(job, 0), linked, 1e-9 * linked) << tp << " " << pp;
  }
}

}  // namespace
}  // namespace boxcar::planner
