// Parameter servers: traffic, the resource that binds, memory, refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/machines/collective_model.h"
#include "planner/laid_out.h"
#include "planner/planner.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sim/simulate.h"
#include "small_jobs.h"
#include "support/error_of.h"

namespace boxcar::planner {
namespace {

constexpr int per_node = 4;

// On `servers` nodes of four V100s. Every tensor has equal shares.
Job serving_job(int servers, bool update) {
  Job job = small_job(servers * per_node, 1, 1, 2);
  job.model->hidden = 64, job.model->ffn = 256, job.model->vocab = 256, job.model->seq = 64;
  job.train.precision = ir::Precision::fp32, job.train.clip_norm = 0;
  job.cluster = backends::load_cluster("dgx-1-v100-32g", servers);
  job.cluster.nodes = servers;
  job.cluster.node.gpus = per_node, job.cluster.node.host_per_op = 0;
  for (std::vector<int>& row : job.cluster.node.mesh_links) row.resize(per_node);
  job.cluster.node.mesh_links.resize(per_node);
  job.parallel.servers = servers, job.parallel.servers_update = update;
  return job;
}

double gradient_bytes(const ir::Plan& plan) { return 4 * plan.facts.at("parameters"); }

// Bytes of pulls into the devices of a server.
double pulled_bytes(const ir::Plan& plan, size_t server) {
  double bytes = 0;
  const ir::RankClass& cls = at(plan.classes, server);
  for (const ir::Actor& actor : at(plan.programs, cls.program).actors)
    if (actor.kind == ir::ActorKind::pull)
      bytes += static_cast<double>(actor.comm_bytes) * static_cast<double>(cls.devices.size());
  return bytes;
}

// 2 (n - 1) / n M bytes, as an all-reduce among nodes: servers on the hosts of workers in Jiang et al. 2020.
TEST(Servers, ANodeReceivesAsMuchAsInAnAllReduceAmongNodes) {
  for (const int servers : {2, 4})
    for (const bool update : {true, false}) {
      const ir::Plan plan = compile(resolve(serving_job(servers, update)));
      EXPECT_NO_THROW(verify(plan));
      ASSERT_EQ(plan.classes.size(), static_cast<size_t>(servers));
      for (size_t server = 0; server < plan.classes.size(); ++server)
        EXPECT_DOUBLE_EQ(pulled_bytes(plan, server), 2.0 * (servers - 1) / servers * gradient_bytes(plan));
    }
}

TEST(Servers, ASlowNicBindsAStep) {
  for (const int servers : {2, 4})
    for (const bool update : {true, false}) {
      Job job = serving_job(servers, update);
      job.cluster.node.nic_bandwidth = 1e7;
      const ir::Plan plan = compile(resolve(job));
      const backends::CollectiveModel& model = job.cluster.collective;
      const double rate = job.cluster.node.nic_bandwidth * model.net_exchange.share * model.nic_share;
      const double seconds = 2.0 * (servers - 1) / servers * gradient_bytes(plan) / rate;
      EXPECT_NEAR(sim::simulate(plan, job.cluster).step_seconds, seconds, 0.05 * seconds)
          << servers << " " << update;
    }
}

// Servers read and write what is pushed and pulled, what they add up and what they join.
TEST(Servers, SlowMemoryOfTheHostBindsAStep) {
  Job job = serving_job(2, false);
  job.cluster.node.host_bandwidth = 1e7;
  const ir::Plan plan = compile(resolve(job));
  // By node, of M bytes: slices of M / 2; sums of two halves into one; joins of two halves into M.
  const double seconds = (1 + 1.5 + 2) * gradient_bytes(plan) / job.cluster.node.host_bandwidth;
  EXPECT_NEAR(sim::simulate(plan, job.cluster).step_seconds, seconds, 0.05 * seconds);
  job.cluster.node.host_bandwidth = 0;
  EXPECT_EQ(support::error_of([&] { sim::simulate(plan, job.cluster); }),
            "node.host_bandwidth: it is not known how fast the memory of dgx-1-v100-32g's hosts is, which "
            "offload_optimizer and servers use (give it)");
}

// Servers of one node exchange through its memory.
TEST(Servers, OfOneNodeUseNoLink) {
  Job job = serving_job(2, false);
  job.cluster.nodes = 1, job.cluster.node = backends::load_cluster("dgx-1-v100-32g", 8).node;
  job.cluster.node.host_per_op = 0, job.parallel.servers = job.gpus;
  const auto step = [&](double host, double link) {
    job.cluster.node.host_bandwidth = host, job.cluster.node.link_bandwidth = link;
    return sim::simulate(compile(resolve(job)), job.cluster).step_seconds;
  };
  const double seconds = step(1e8, 150e9);
  EXPECT_NEAR(step(1e8, 15e6), seconds, 0.02 * seconds);
  EXPECT_GT(step(1e7, 150e9), 8 * seconds);
}

TEST(Servers, KeepStatesOffDevices) {
  const auto optimizer = [](bool update) {
    return at(memory_use(compile(resolve(serving_job(2, update))))[0].by_kind, ir::MemoryKind::optimizer);
  };
  const ir::Plan plan = compile(resolve(serving_job(2, true)));
  EXPECT_EQ(optimizer(true), 0);
  EXPECT_GE(static_cast<double>(optimizer(false)), 2 * gradient_bytes(plan));
  // A device's host: of its share of all parameters, the weight and two moments.
  EXPECT_GE(static_cast<double>(plan.programs[0].host_bytes), 3 * gradient_bytes(plan) / (2 * per_node));
}

TEST(Servers, RefuseWhatTheyDoNotFit) {
  const std::pair<const char*, std::function<void(Job&)>> cases[] = {
      {"parallel.servers: 1 server has no other to exchange with (use 2 or more, or 0)",
       [](Job& j) { j.parallel.servers = 1; }},
      {"parallel.servers: 3 does not divide dp 8 (use 1, 2, 4 or 8)", [](Job& j) { j.parallel.servers = 3; }},
      {"parallel.servers: 2 with tp 2, and every device must have the whole model (use tp 1, or no servers)",
       [](Job& j) { j.parallel.dp = 4, j.parallel.tp = 2; }},
      {"parallel.servers: 2 with pp 2, and every device must have the whole model (use pp 1, or no servers)",
       [](Job& j) { j.parallel.dp = 4, j.parallel.pp = 2; }},
      {"parallel.servers: 2 with zero 1, which shards what servers hold (use zero 0, or no servers)",
       [](Job& j) { j.parallel.zero = 1; }},
      {"parallel.servers: 2 with sparse_tables, whose rows differ between devices (switch one of them off)",
       [](Job& j) { j.train.sparse_tables = true; }},
      {"parallel.offload_optimizer: servers that update keep states on hosts anyway (switch it off, or "
       "servers_update)",
       [](Job& j) { j.parallel.offload_optimizer = true; }},
      {"parallel.servers_update: lamb needs norms of whole tensors, of which a server has a share (switch it "
       "off)",
       [](Job& j) { j.train.optimizer = ir::Optimizer::lamb; }},
  };
  for (const auto& [message, change] : cases) {
    Job job = serving_job(2, true);
    change(job);
    EXPECT_EQ(support::error_of([&] { resolve(job); }), message);
  }
}

// Shares of tensors that a layout has split would be added up as whole ones.
TEST(Servers, RefuseLayoutsOfTheirOwn) {
  const ResolvedJob job = resolve(serving_job(2, true));
  const Choose choose = [](const ir::Graph&, const Hints&, const Mesh&) { return Layouts(); };
  EXPECT_EQ(support::error_of([&] { lay_out(job, choose); }),
            "parallel.servers: every op has the layout of its degrees (use no pins, or 0)");
}

}  // namespace
}  // namespace boxcar::planner
