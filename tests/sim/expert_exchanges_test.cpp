#include "sim/expert_exchanges.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/float8_recipe.h"
#include "backends/machines/framework.h"
#include "planner/planner.h"
#include "sbp/at.h"
#include "sim/durations.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

constexpr ExpertChoice four_of_16{16, 4, 4, 2};

// Two nodes of 8 GPUs, an expert on each GPU.
planner::Job job_with_experts(ir::Precision precision, bool weigh_inside = false, int tp = 1) {
  planner::Job job;
  job.model = ir::models::default_model("llama");
  job.model->layers = 1, job.model->hidden = 2048, job.model->heads = 16, job.model->seq = 1024,
  job.model->vocab = 32000;
  job.model->experts = four_of_16.experts, job.model->top_k = four_of_16.top_k;
  job.model->expert_groups = four_of_16.groups, job.model->top_groups = four_of_16.top_groups;
  job.model->weigh_inside = weigh_inside;
  job.cluster = backends::load_cluster("dgx-h100", 16);
  if (precision == ir::Precision::fp8)
    backends::use_float8(job.cluster.device, backends::float8_recipe("blocks"));
  job.gpus = job.global_batch = 16;
  job.train.precision = precision;
  job.parallel.ep = 16, job.parallel.dp = 16 / tp, job.parallel.tp = tp, job.parallel.pp = 1;
  if (tp > 1) job.parallel.etp = 1, job.parallel.sequence_parallel = true;
  return job;
}

// By name: to experts, or back.
std::map<std::string, bool> exchanges_of(const ir::Program& program) {
  std::map<std::string, bool> found;
  for (const ir::Actor& actor : program.actors) {
    const std::optional<ExpertExchange> exchange = expert_exchange(program, actor);
    if (!exchange) continue;
    EXPECT_EQ(exchange->choice.experts, four_of_16.experts) << actor.name;
    found[actor.moves] = exchange->to_experts;
    if (actor.moves.find("shares") != std::string::npos) continue;  // each choice of a token counts as one
    EXPECT_EQ(exchange->choice, four_of_16) << actor.name;
  }
  return found;
}

int all_to_alls(const ir::Program& program) {
  return static_cast<int>(
      std::count_if(program.actors.begin(), program.actors.end(),
                    [](const ir::Actor& actor) { return actor.collective == sbp::Collective::all_to_all; }));
}

TEST(ExpertExchanges, AreFoundInBothPasses) {
  const ir::Plan plan = planner::compile(planner::resolve(job_with_experts(ir::Precision::bf16)));
  const ir::Program& program = plan.programs[0];
  EXPECT_EQ(exchanges_of(program), (std::map<std::string, bool>{{"mlp.slots", true},
                                                                {"mlp.by_sequence", false},
                                                                {"mlp.fc2.grad", true},
                                                                {"mlp.dispatch.grad", false}}));
  EXPECT_EQ(all_to_alls(program), 4);
  const ir::Plan inside = planner::compile(planner::resolve(job_with_experts(ir::Precision::bf16, true)));
  EXPECT_EQ(static_cast<int>(exchanges_of(inside.programs[0]).size()), all_to_alls(inside.programs[0]));
}

// Each rank of tensor parallelism carries the slots of half of the experts.
TEST(ExpertExchanges, MayCarryAPartOfTheExperts) {
  const ir::Plan plan = planner::compile(planner::resolve(job_with_experts(ir::Precision::bf16, false, 2)));
  int exchanges = 0;
  for (const ir::Actor& actor : plan.programs[0].actors) {
    const std::optional<ExpertExchange> exchange = expert_exchange(plan.programs[0], actor);
    if (!exchange) continue;
    ExpertChoice half = four_of_16;
    half.parts = 2;
    EXPECT_EQ(exchange->choice, half) << actor.name;
    ++exchanges;
  }
  EXPECT_EQ(exchanges, 4);
}

struct TimedActs {
  std::vector<double> seconds;
  std::vector<MovedBytes> moved;
};

TimedActs timed_acts(const ir::Plan& plan, const backends::Cluster& cluster) {
  TimedActs run{act_seconds(plan, cluster, 0), {}};
  for (const ir::Actor& actor : plan.programs[0].actors)
    run.moved.push_back(moved_bytes(plan, cluster, plan.programs[0], actor, 0));
  return run;
}

TEST(ExpertExchanges, MoveATokenOnceByTheField) {
  const planner::ResolvedJob job = planner::resolve(job_with_experts(ir::Precision::bf16));
  const ir::Plan plan = planner::compile(job);
  backends::Cluster cluster = job->cluster;
  const TimedActs alone = timed_acts(plan, cluster);
  cluster.framework->experts_by_node = true;
  const TimedActs by_node = timed_acts(plan, cluster);
  for (size_t a = 0; a < alone.seconds.size(); ++a) {
    const ir::Actor& actor = plan.programs[0].actors[a];
    if (!expert_exchange(plan.programs[0], actor)) {
      EXPECT_EQ(by_node.seconds[a], alone.seconds[a]) << actor.name;
      EXPECT_EQ(by_node.moved[a].sent, alone.moved[a].sent) << actor.name;
      continue;
    }
    const double slots = static_cast<double>(actor.comm_bytes);
    EXPECT_DOUBLE_EQ(alone.moved[a].sent, slots * 15 / 16);
    const double nodes = expected_places(four_of_16, 2), gpus = expected_places(four_of_16, 16);
    EXPECT_DOUBLE_EQ(by_node.moved[a].size, slots / 4 * nodes / 2);
    EXPECT_DOUBLE_EQ(by_node.moved[a].sent, slots / 4 * (nodes / 2 + gpus * 7 / 8));
    EXPECT_LT(by_node.seconds[a], alone.seconds[a]) << actor.name;
  }
}

TEST(ExpertExchanges, GoToExpertsIn8BitsByTheField) {
  const planner::ResolvedJob job = planner::resolve(job_with_experts(ir::Precision::fp8));
  const ir::Plan plan = planner::compile(job);
  const auto moved = [&](backends::Cluster cluster, bool float8) {
    cluster.framework->float8_dispatch = float8;
    return timed_acts(plan, cluster).moved;
  };
  const std::vector<MovedBytes> half = moved(job->cluster, false), eight = moved(job->cluster, true);
  int exchanges = 0;
  for (size_t a = 0; a < half.size(); ++a) {
    const std::optional<ExpertExchange> exchange =
        expert_exchange(plan.programs[0], plan.programs[0].actors[a]);
    const double share = exchange && exchange->to_experts ? (1 + 4.0 / 128) / 2 : 1;
    EXPECT_DOUBLE_EQ(eight[a].sent, half[a].sent * share) << plan.programs[0].actors[a].name;
    exchanges += share < 1 ? 1 : 0;
  }
  EXPECT_EQ(exchanges, 2);
  // In 16 bits nothing is cast.
  const planner::ResolvedJob plain = planner::resolve(job_with_experts(ir::Precision::bf16));
  const ir::Plan other = planner::compile(plain);
  backends::Cluster cluster = plain->cluster;
  const TimedActs before = timed_acts(other, cluster);
  cluster.framework->float8_dispatch = true;
  EXPECT_EQ(timed_acts(other, cluster).seconds, before.seconds);
}

}  // namespace
}  // namespace boxcar::sim
