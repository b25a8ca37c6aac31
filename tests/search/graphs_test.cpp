// Training graphs that several jobs share, and measurements with them, compared with each job's own.
#include "planner/estimate/graphs.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "planner/estimate/estimate.h"
#include "planner/search/points.h"
#include "sim/simulate.h"

namespace boxcar::search {
namespace {

using planner::Job;

Job two_layer_gpt(int gpus) {
  Job job;
  job.model = ir::models::defaults("gpt");
  job.model->layers = 2, job.model->hidden = 256, job.model->heads = 4, job.model->seq = 64;
  job.model->vocab = 1100;  // padded to 1152, with tp 4 to 1536
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", gpus);
  job.gpus = gpus;
  job.global_batch = 4;
  return job;
}

// Plans of cached graphs equal those of fresh graphs, for jobs that set more about whole tensors on devices.
TEST(Graphs, PlansAreThoseOfGraphsMadeForThem) {
  for (const bool fused : {false, true})
    for (const bool gathers : {false, true}) {
      Job small = two_layer_gpt(4);
      small.train.epilogues = small.train.fused_loss = fused;
      small.parallel.gather_logits = gathers;
      if (fused) small.model->dropout = 0;
      Graphs graphs(100);
      // vocabulary, samples, stages; whether products and classes are whole
      std::set<std::tuple<int64_t, int, int, ir::Recompute, bool, bool>> different;
      int plans = 0;
      each_point(small, {{"virtual_stages"}, {}, true}, [&](const Job& point) {
        const planner::ResolvedJob job = planner::resolve(point);
        const ir::Plan plan = planner::compile(graphs.lay_out(job, nullptr), job);
        EXPECT_EQ(ir::to_text(plan), ir::to_text(planner::compile(job)));
        const planner::Hints& h = job->parallel;
        different.insert({h.tp == 4   ? 1536
                          : h.tp == 2 ? 1280
                                      : 1152,
                          h.micro_batch * h.dp, h.pp, job->train.recompute, fused && h.tp > 1,
                          fused && h.tp > 1 && !gathers});
        return ++plans, true;
      });
      EXPECT_EQ(graphs.made(), static_cast<int>(different.size()));
      EXPECT_GT(plans, 3 * graphs.made());
    }
}

// With a vocabulary that tensor parallelism does not pad, tp 1 and tp 2 share a graph unless there are
// epilogues or a fused loss: products and classes are whole only without tensor parallelism.
TEST(Graphs, AreSharedWhereNothingInThemDiffers) {
  for (const int fused : {0, 1, 2}) {
    Graphs graphs(4);
    Job job = two_layer_gpt(2);
    job.model->vocab = 1024, job.model->dropout = 0, job.global_batch = 4;
    job.train.epilogues = fused == 1, job.train.fused_loss = fused == 2;
    job.parallel.micro_batch = 2, job.parallel.tp = 2;
    graphs.lay_out(planner::resolve(job), nullptr);
    job.parallel.tp = 1, job.parallel.dp = 2, job.parallel.micro_batch = 1;
    graphs.lay_out(planner::resolve(job), nullptr);
    EXPECT_EQ(graphs.made(), fused == 0 ? 1 : 2);
  }
}

// Jobs that follow one another share layouts if they differ in what only lowering reads.
TEST(Graphs, ShareLayoutsOfJobsThatLoweringAloneTellsApart) {
  Job job = two_layer_gpt(8);
  job.parallel.dp = 4, job.parallel.tp = 2, job.global_batch = 16;
  const auto change = [](auto member, auto value) { return [=](Job& j) { j.parallel.*member = value; }; };
  using planner::Hints;
  const std::function<void(Job&)> by_lowering[] = {change(&Hints::grad_bucket_mb, 1),
                                                   change(&Hints::overlap_grad, false),
                                                   change(&Hints::overlap_param, false),
                                                   change(&Hints::scatter_gather, true),
                                                   change(&Hints::gathered_stay, true),
                                                   change(&Hints::fused_optimizer, true),
                                                   change(&Hints::keeps_float8, true),
                                                   change(&Hints::keeps_float8_of_experts, true),
                                                   [](Job& j) { j.parallel.retained_bytes["gelu"] = 2; }};
  const std::function<void(Job&)> by_layouts[] = {change(&Hints::zero, 1),
                                                  change(&Hints::zero, 3),
                                                  change(&Hints::sequence_parallel, true),
                                                  change(&Hints::fsdp_group, 2),
                                                  change(&Hints::overlap_tp, false),
                                                  [](Job& j) { j.parallel.micro_batch = 2; }};
  Graphs graphs(4);
  const auto laid_out = [&](const Job& asked) {
    const planner::ResolvedJob resolved = planner::resolve(asked);
    const auto laid = graphs.deduced(resolved);
    EXPECT_EQ(ir::to_text(planner::compile(*laid, resolved)), ir::to_text(planner::compile(resolved)));
    return laid;
  };
  for (const auto& other : by_layouts) {
    const auto first = laid_out(job);
    for (const auto& lower : by_lowering) {
      Job changed = job;
      lower(changed);
      EXPECT_EQ(laid_out(changed), first);
    }
    other(job);
    EXPECT_NE(laid_out(job), first);
  }
}

TEST(Graphs, KeepsAsManyAsItIsTold) {
  Graphs graphs(1);
  Job one = two_layer_gpt(1), two = one;
  two.parallel.micro_batch = 2;
  for (const Job* job : {&one, &one, &two, &two, &one}) graphs.lay_out(planner::resolve(*job), nullptr);
  EXPECT_EQ(graphs.made(), 3);
}

// In other mesh orders and after other jobs, a measurement equals the one made alone: regardless of earlier
// ones, and of which job with its key asked.
TEST(Measuring, SaysOfEveryJobWhatItSaysAlone) {
  Job job = two_layer_gpt(16);
  job.cluster.node.host_per_op = 0;  // launches take equally long in every order
  job.train.epilogues = true, job.model->dropout = 0;
  job.parallel.pp = 2;
  job.global_batch = 16;
  const auto same = [](const StageCost& a, const StageCost& b) {
    return a.forward == b.forward && a.backward == b.backward && a.update.whole == b.update.whole &&
           a.bytes == b.bytes;
  };
  Measuring measuring(job, sim::act_seconds);
  std::set<double> forward;
  std::map<CostKey, ModelCost> known;
  for (const int pp : {2, 1})
    for (const int tp : {4, 2, 1})
      for (const char* order : {"pp,dp,cp,tp", "tp,pp,dp,cp", "pp,dp,cp,tp", "dp,tp,cp,pp"}) {
        job.parallel.tp = tp, job.parallel.pp = pp;
        job.parallel.dp = 16 / pp / tp;
        job.parallel.mesh_order = planner::parse_mesh_order(order);
        const Job resolved = planner::resolve(job);
        const ModelCost shared = measuring.of(cost_key(resolved)),
                        alone = measure(resolved, sim::act_seconds);
        const ModelCost& first = known.emplace(cost_key(resolved), alone).first->second;
        for (const ModelCost* other : {&alone, &first}) {
          EXPECT_TRUE(same(shared.layer, other->layer)) << tp << order;
          EXPECT_TRUE(same(shared.first, other->first)) << tp << order;
          EXPECT_TRUE(same(shared.last, other->last)) << tp << order;
          EXPECT_EQ(shared.boundary_bytes, other->boundary_bytes);
        }
        forward.insert(shared.layer.forward);
      }
  EXPECT_GE(forward.size(), 5u);  // orders differ
  EXPECT_LT(known.size(), 24u);
}

}  // namespace
}  // namespace boxcar::search
