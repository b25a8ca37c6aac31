// Training graphs that several jobs share, and what is measured with them, against each job's own.
#include "planner/search/graphs.h"

#include <gtest/gtest.h>

#include "planner/search/estimate.h"
#include "planner/search/points.h"
#include "sim/simulate.h"

namespace boxcar::search {
namespace {

using planner::Job;

Job small_gpt(int gpus) {
  Job job;
  job.model = ir::models::defaults("gpt");
  job.model.layers = 2, job.model.hidden = 256, job.model.heads = 4, job.model.seq = 64;
  job.model.vocab = 1100;  // padded to 1152, with tp 4 to 1536
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", gpus);
  job.gpus = gpus;
  job.global_batch = 4;
  return job;
}

TEST(Graphs, plans_are_those_of_graphs_made_for_them) {
  Graphs graphs(100);
  std::set<std::tuple<int64_t, int, int, ir::Recompute>> different;  // vocabulary, samples, stages
  int plans = 0;
  each_point(small_gpt(4), {{"virtual_stages"}, {}, true}, [&](const Job& point) {
    const Job job = planner::resolve(point);
    const ir::Plan plan = planner::compile(graphs.lay_out(job, nullptr), job);
    EXPECT_EQ(ir::to_text(plan), ir::to_text(planner::compile(job)));
    const planner::Hints& h = job.parallel;
    different.insert({h.tp == 4   ? 1536
                      : h.tp == 2 ? 1280
                                  : 1152,
                      h.micro_batch * h.dp, h.pp, job.train.recompute});
    return ++plans, true;
  });
  EXPECT_EQ(graphs.made(), static_cast<int>(different.size()));
  EXPECT_GT(plans, 3 * graphs.made());
}

TEST(Graphs, keeps_as_many_as_it_is_told) {
  Graphs graphs(1);
  Job one = small_gpt(1), two = one;
  two.parallel.micro_batch = 2;
  one = planner::resolve(one), two = planner::resolve(two);
  for (const Job* job : {&one, &one, &two, &two, &one}) graphs.lay_out(*job, nullptr);
  EXPECT_EQ(graphs.made(), 3);
}

// In other orders of the mesh, and after other jobs, what is measured is what it is alone.
TEST(Measuring, says_of_every_job_what_it_says_alone) {
  Job job = small_gpt(16);
  job.cluster.node.host_per_op = 0;  // launches take as long in every order
  job.parallel.pp = 2;
  job.global_batch = 16;
  const auto same = [](const StageCost& a, const StageCost& b) {
    return a.forward == b.forward && a.backward == b.backward && a.update.whole == b.update.whole &&
           a.bytes == b.bytes;
  };
  Measuring measuring(sim::act_seconds);
  std::set<double> forward;
  for (const int tp : {4, 2})
    for (const char* order : {"pp,dp,cp,tp", "tp,pp,dp,cp", "pp,dp,cp,tp", "dp,tp,cp,pp"}) {
      job.parallel.tp = tp;
      job.parallel.dp = 8 / tp;
      job.parallel.mesh_order = order;
      const Job resolved = planner::resolve(job);
      const ModelCost shared = measuring.of(resolved), alone = measure(resolved, sim::act_seconds);
      EXPECT_TRUE(same(shared.layer, alone.layer)) << tp << order;
      EXPECT_TRUE(same(shared.first, alone.first)) << tp << order;
      EXPECT_TRUE(same(shared.last, alone.last)) << tp << order;
      EXPECT_EQ(shared.boundary_bytes, alone.boundary_bytes);
      forward.insert(shared.layer.forward);
    }
  EXPECT_GE(forward.size(), 4u);  // orders differ
}

}  // namespace
}  // namespace boxcar::search
