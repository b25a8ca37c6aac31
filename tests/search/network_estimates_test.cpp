// Estimates of steps that wait for the network between nodes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/machines/presets.h"
#include "planner/estimate/placed_probe.h"
#include "planner/resolve.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

// 8 layers of 2,048 on 64 GPUs, with short steps.
Job wide(const std::string& cluster) {
  Job job = small_gpt(64);
  job.model->layers = 8, job.model->hidden = 2048, job.model->heads = 16, job.model->vocab = 51200;
  job.model->seq = 1024, job.model->ffn = 0;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster(cluster);
  job.cluster.nodes = 8;
  job.train.precision = ir::Precision::fp16;
  job.parallel.micro_batch = 1;
  return job;
}

Job on_leaves(int nodes_per_leaf, double oversubscription) {
  Job job = wide("dgx-h100");
  job.cluster.fabric.kind = backends::FabricKind::leaf_spine;
  job.cluster.fabric.nodes_per_leaf = nodes_per_leaf;
  job.cluster.fabric.oversubscription = oversubscription;
  return job;
}

// Gradients of many nodes go in buckets, each with its latency.
TEST(NetworkEstimates, CountTheLatencyOfBuckets) {
  for (const char* cluster : {"dgx-h100", "dgx-a100-80g", "p3-16xlarge"})
    for (const int zero : {0, 1}) {
      Job job = wide(cluster);
      job.parallel.dp = 64, job.parallel.zero = zero, job.global_batch = 64;
      EXPECT_NEAR(estimate_over_step(job), 1, 0.08) << cluster << " zero " << zero;
    }
}

// NCCL takes the algorithm that is fastest for a group alone.
TEST(NetworkEstimates, GroupsThatShareANicKeepTheirAlgorithms) {
  Job job = wide("pcie-a100-80g");
  job.gpus = 16, job.cluster.nodes = 2;
  job.parallel.tp = 8, job.parallel.dp = 2, job.global_batch = 16;
  job.parallel.mesh_order = planner::parse_mesh_order("cp,tp,dp,pp");
  EXPECT_NEAR(estimate_over_step(job), 1, 0.03);
}

TEST(NetworkEstimates, StagesHaveTheNicsWhileOthersCompute) {
  EXPECT_EQ(beside_computing(4, 2, 0), 4);
  EXPECT_EQ(beside_computing(4, 2, 2), 3);
  EXPECT_EQ(beside_computing(4, 2, 8), 1);
  EXPECT_EQ(beside_computing(4, 0, 8), 4);
  // One micro-batch at a time, then as many as there are stages.
  for (const int micro_batches : {1, 64}) {
    Job job = small_gpt(16);
    job.cluster = backends::load_cluster("p3-16xlarge", 16);
    job.model->layers = 8;
    job.parallel.tp = 4, job.parallel.pp = 4, job.parallel.micro_batch = 1, job.global_batch = micro_batches;
    job.parallel.mesh_order = planner::parse_mesh_order("cp,dp,tp,pp");
    EXPECT_NEAR(estimate_over_step(job), 1, 0.12) << micro_batches;
  }
}

TEST(NetworkEstimates, KnowLeavesThatAreOversubscribed) {
  struct Plan {
    int dp, tp, pp, zero, experts, global_batch;
    std::string order;
  };
  for (const Plan& plan :
       std::vector<Plan>{{64, 1, 1, 1, 64, 64, "pp,dp,cp,tp"},  // every token to every leaf
                         {64, 1, 1, 1, 16, 64, "pp,dp,cp,tp"},  // experts of a group on two nodes
                         {16, 1, 4, 0, 0, 128, "pp,dp,cp,tp"},  // the ends of a tied table under two leaves
                         {8, 2, 4, 1, 0, 128, "pp,dp,cp,tp"},   // a stage to a leaf
                         {2, 16, 2, 0, 0, 16, "pp,dp,cp,tp"},   // tensor parallelism over two nodes
                         {16, 1, 4, 1, 0, 64, "dp,pp,tp,cp"}}) {
    for (const auto& [nodes, oversubscription] :
         std::vector<std::pair<int, double>>{{4, 4}, {2, 3}, {1, 4}}) {
      Job job = on_leaves(nodes, oversubscription);
      job.parallel.dp = plan.dp, job.parallel.tp = plan.tp, job.parallel.pp = plan.pp;
      job.parallel.zero = plan.zero, job.global_batch = plan.global_batch;
      job.model->experts = plan.experts, job.parallel.ep = std::max(1, plan.experts);
      job.parallel.mesh_order = planner::parse_mesh_order(plan.order);
      EXPECT_NEAR(estimate_over_step(job), 1, 0.1)
          << fmt::format("dp {} tp {} pp {} zero {} experts {}, {} nodes under a leaf", plan.dp, plan.tp,
                         plan.pp, plan.zero, plan.experts, nodes);
    }
  }
}

}  // namespace
}  // namespace boxcar::search
