#include "sim/paired_passes.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "planner/planner.h"
#include "sbp/at.h"
#include "sim/expert_exchanges.h"
#include "sim/simulate.h"
#include "support/error_of.h"

namespace boxcar::sim {
namespace {

using support::error_of;

// Runs as "F0.0 B0.0": a phase and its micro-batch.
ir::Program program_of_runs(const std::vector<ir::PlanPhase>& phases,
                            const std::vector<std::pair<int, int>>& runs) {
  ir::Program program;
  program.phases = phases;
  for (const auto& [phase, micro_batch] : runs) program.schedule.push_back({phase, micro_batch});
  return program;
}

std::map<std::pair<int, int>, std::pair<double, double>> shares_of(const ir::Program& program) {
  std::map<std::pair<int, int>, std::pair<double, double>> shares;
  for (const PassPair& pair : pass_pairs(program))
    shares[{pair.phase, pair.other}] = {pair.share, pair.other_share};
  return shares;
}

TEST(PairedPasses, AreNeighboursOfDifferentMicroBatches) {
  // F.0 [F.1 B.0] [F.2 B.1] [F.3 B.2] B.3
  const auto middle = shares_of(
      program_of_runs({"F0", "B0"}, {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}, {0, 3}, {1, 2}, {1, 3}}));
  EXPECT_EQ(middle.at({0, 1}), (std::pair{0.75, 0.75}));
  EXPECT_EQ(middle.at({1, 0}), (std::pair{0.75, 0.75}));
  // F.0 [B.0 F.1] [B.1 F.2] B.2: the last stage, where a micro-batch goes back at once
  const auto last =
      shares_of(program_of_runs({"F0", "B0"}, {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}}));
  EXPECT_DOUBLE_EQ(last.at({0, 1}).first, 2.0 / 3);
  // F.0 [B.0 F.1] [B.1 W.0 F.2] B.2 W.1 W.2: second parts may lie between
  const auto split = shares_of(program_of_runs(
      {"F0", "B0", "W0"}, {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {0, 2}, {1, 2}, {2, 1}, {2, 2}}));
  EXPECT_DOUBLE_EQ(split.at({0, 1}).first, 2.0 / 3);
  EXPECT_EQ(split.size(), 2u);
  // Two chunks: F0.0 F1.0 [F0.1 B1.0] [B0.0 F1.1] B1.1 B0.1
  const auto chunks = shares_of(program_of_runs(
      {"F0", "F1", "B0", "B1"}, {{0, 0}, {1, 0}, {0, 1}, {3, 0}, {2, 0}, {1, 1}, {3, 1}, {2, 1}}));
  EXPECT_EQ(chunks.at({0, 3}), (std::pair{0.5, 0.5}));
  EXPECT_EQ(chunks.at({2, 1}), (std::pair{0.5, 0.5}));
  EXPECT_TRUE(pass_pairs(program_of_runs({"F0", "B0"}, {{0, 0}, {1, 0}})).empty());
}

// Three of four passes are paired. Forward exchanges of 4 s beside 6 s of both backward parts are hidden;
// backward ones of 3 s beside 2 s are exposed for 1 s.
TEST(PairedPasses, ExposeWhatTheKernelsOfTheOtherDoNotHide) {
  const ir::Program program = program_of_runs(
      {"F0", "B0", "W0"},
      {{0, 0}, {0, 1}, {1, 0}, {2, 0}, {0, 2}, {1, 1}, {2, 1}, {0, 3}, {1, 2}, {2, 2}, {1, 3}, {2, 3}});
  const std::vector<PassSeconds> seconds{{2, 4}, {4, 3}, {2, 0}};
  const std::vector<BesidePass> free = beside_passes(program, seconds, 0);
  EXPECT_DOUBLE_EQ(free[0].shown, 0.25);
  EXPECT_DOUBLE_EQ(free[1].shown, 0.25 + 0.75 / 3);
  for (const BesidePass& pass : free) EXPECT_EQ(pass.slowdown, 1);
  // A quarter of the device: 4 s of exchanges take 1 s of work from the 6 s beside them; the 2 s of kernels
  // take 2.67 s beside exchanges of 3 s.
  const std::vector<BesidePass> shared = beside_passes(program, seconds, 0.25);
  EXPECT_DOUBLE_EQ(shared[0].shown, 0.25);
  EXPECT_DOUBLE_EQ(shared[1].shown, 1 - 0.75 * (2 / 0.75) / 3);
  EXPECT_DOUBLE_EQ(shared[0].slowdown, 1 + 0.75 * (1 / 0.75 - 1));
  EXPECT_DOUBLE_EQ(shared[1].slowdown, 1 + 0.75 / 6);
  EXPECT_DOUBLE_EQ(shared[2].slowdown, 1 + 0.75 / 6);
}

planner::Job pipeline_of_experts(int micro_batches) {
  planner::Job job;
  job.model = ir::models::default_model("llama");
  job.model->layers = 2, job.model->hidden = 2048, job.model->heads = 16, job.model->seq = 1024,
  job.model->vocab = 32000;
  job.model->experts = 16, job.model->top_k = 4;
  job.cluster = backends::load_cluster("dgx-h100", 32);
  job.cluster.node.host_per_op = 0;
  job.gpus = 32, job.global_batch = 16 * micro_batches;
  job.train.precision = ir::Precision::bf16;
  job.parallel.dp = job.parallel.ep = 16, job.parallel.tp = 1, job.parallel.pp = 2;
  return job;
}

TEST(PairedPasses, ShortenTheExchangesOfExpertsAlone) {
  const planner::ResolvedJob job = planner::resolve(pipeline_of_experts(8));
  const ir::Plan plan = planner::compile(job);
  backends::Cluster cluster = job->cluster;
  const std::vector<double> alone = act_seconds(plan, cluster, 0);
  cluster.framework->exchanges_beside_passes = true;
  const std::vector<double> beside = act_seconds(plan, cluster, 0);
  cluster.framework->exchange_multiprocessors = 33;  // a quarter
  const std::vector<double> shared = act_seconds(plan, cluster, 0);
  const ir::Program& program = plan.programs[0];
  std::vector<PassSeconds> passes(program.phases.size());
  for (size_t a = 0; a < alone.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (expert_exchange(program, actor)) at(passes, actor.phase).exchanges += alone[a];
    if (actor.kind == ir::ActorKind::kernel) at(passes, actor.phase).kernels += alone[a];
  }
  const std::vector<BesidePass> expected = beside_passes(program, passes, 0);
  const std::vector<BesidePass> slower = beside_passes(program, passes, 0.25);
  int exchanges = 0;
  for (size_t a = 0; a < alone.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    const bool of_experts = expert_exchange(program, actor).has_value();
    exchanges += of_experts ? 1 : 0;
    EXPECT_NEAR(beside[a], alone[a] * (of_experts ? at(expected, actor.phase).shown : 1), 1e-12)
        << actor.name;
    if (actor.kind == ir::ActorKind::kernel) {
      EXPECT_NEAR(shared[a], alone[a] * at(slower, actor.phase).slowdown, 1e-12) << actor.name;
    }
  }
  EXPECT_EQ(exchanges, 4);
  EXPECT_LT(expected[0].shown, 0.9);
}

TEST(PairedPasses, AStepIsShorterThanOneAfterTheOther) {
  const auto step = [](int micro_batches, bool beside) {
    const planner::ResolvedJob job = planner::resolve(pipeline_of_experts(micro_batches));
    backends::Cluster cluster = job->cluster;
    cluster.framework->exchanges_beside_passes = beside;
    return simulate(planner::compile(job), cluster).step_seconds;
  };
  EXPECT_LT(step(8, true), 0.95 * step(8, false));
  EXPECT_EQ(step(1, true), step(1, false));  // one micro-batch has no other
}

TEST(PairedPasses, RefuseMoreMultiprocessorsThanThereAre) {
  const planner::ResolvedJob job = planner::resolve(pipeline_of_experts(2));
  const ir::Plan plan = planner::compile(job);
  backends::Cluster cluster = job->cluster;
  cluster.framework->exchanges_beside_passes = true, cluster.framework->exchange_multiprocessors = 132;
  EXPECT_EQ(error_of([&] { act_seconds(plan, cluster, 0); }),
            "framework.exchange_multiprocessors: 132 of 132 multiprocessors of h100-sxm are for exchanges; "
            "kernels beside them need some");
}

}  // namespace
}  // namespace boxcar::sim
