// Mixtures of experts: dropped tokens, and the cost of uneven routing.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backends/cpu/evaluate.h"
#include "backends/machines/device_profile.h"
#include "planner/resolve.h"
#include "planner/training_graph.h"
#include "sbp/at.h"
#include "sim/durations.h"
#include "sim/simulate.h"
#include "small_jobs.h"
#include "support/error_of.h"

namespace boxcar::planner {
namespace {

Job experts_job(int dp, int ep, double skew) {
  Job job = small_job(dp, 1, 1);
  job.model->hidden = 1024, job.model->heads = 16, job.model->seq = 512;
  job.model->experts = 16, job.model->top_k = 1;
  job.parallel.ep = ep;
  job.routing_skew = skew;
  job.cluster = backends::load_cluster("dgx-a100-80g", dp);
  job.cluster.node.host_per_op = 0;  // kernels do not wait for the host
  return resolve(job);
}

// Seconds by actor, on the first device.
std::map<std::string, double> seconds_of(const Job& job) {
  const ir::Plan plan = compile(resolve(job));
  const std::vector<double> seconds = sim::act_seconds(plan, job.cluster, 0);
  const std::vector<ir::Actor>& actors = plan.programs[0].actors;
  std::map<std::string, double> result;
  for (size_t a = 0; a < actors.size(); ++a)
    result[actors[a].name + (actors[a].collective == sbp::Collective::all_to_all ? " all_to_all" : "")] =
        seconds[a];
  return result;
}

// Two experts per device on 8; the fullest has 1.5 times the mean, its device (1.5 + 14.5 / 15) / 2 times.
TEST(Experts, WaitForTheFullestDevice) {
  const Job even = experts_job(8, 8, 1), skewed = experts_job(8, 8, 1.5);
  const std::map<std::string, double> before = seconds_of(even), after = seconds_of(skewed);
  const double times = (1.5 + 14.5 / 15) / 2;
  const double launch = even.cluster.device->launch_latency + even.cluster.device->kernel_floor;
  int products = 0, exchanges = 0;
  for (const auto& [name, seconds] : before) {
    if (name == "h0.mlp.fc1" || name == "h0.mlp.fc2") {
      EXPECT_NEAR(after.at(name) - launch, times * (seconds - launch), 1e-9) << name;
      ++products;
    }
    if (name.ends_with("all_to_all")) {
      EXPECT_GT(after.at(name), seconds) << name;
      EXPECT_LE(after.at(name), times * seconds * (1 + 1e-9)) << name;
      ++exchanges;
    }
    if (name.find("mlp") == std::string::npos) {
      EXPECT_EQ(after.at(name), seconds) << name;
    }
  }
  EXPECT_EQ(products, 2);
  EXPECT_EQ(exchanges, 4);
  EXPECT_GT(sim::simulate(compile(resolve(skewed)), skewed.cluster).step_seconds,
            sim::simulate(compile(resolve(even)), even.cluster).step_seconds);
}

// The same two experts per device where ranks of context parallelism share a group's.
TEST(Experts, OfContextParallelismWaitForTheFullestDevice) {
  const auto seconds = [](double skew) {
    Job job = experts_job(2, 2, skew);
    job.parallel.cp = 4, job.gpus = 8;
    return seconds_of(resolve(job)).at("h0.mlp.fc1");
  };
  const Job even = experts_job(2, 2, 1);
  const double launch = even.cluster.device->launch_latency + even.cluster.device->kernel_floor;
  const double times = (1.5 + 14.5 / 15) / 2;
  EXPECT_NEAR(seconds(1.5) - launch, times * (seconds(1) - launch), 1e-9);
}

// Tokens are exchanged twice on the way forward and twice back; gradients of experts' weights are made whole,
// also where experts are narrower than the tokens that they read.
TEST(Experts, OnlyTokensAreExchanged) {
  for (const int64_t ffn : {256, 1024, 4096}) {
    Job job = experts_job(8, 8, 1);
    job.model->ffn = job.model->expert_ffn = ffn;
    const ir::Plan plan = compile(resolve(job));
    int exchanges = 0;
    for (const ir::Actor& actor : plan.programs[0].actors) {
      if (actor.name.find("mlp.fc") != std::string::npos) {
        EXPECT_NE(actor.collective, sbp::Collective::reduce_scatter) << actor.name;
        EXPECT_NE(actor.collective, sbp::Collective::all_reduce) << actor.name;
      }
      exchanges += actor.collective == sbp::Collective::all_to_all;
    }
    EXPECT_EQ(exchanges, 4 * job.model->layers) << ffn;
  }
}

// With etp 1 a rank of tp has whole experts. Its tokens are exchanged over dp, and nothing is summed inside
// an expert.
TEST(Experts, OfARankOfTensorParallelismAreWhole) {
  Job job = experts_job(4, 4, 1);
  job.model->top_k = 2;
  job.parallel.tp = 2, job.parallel.ep = 8, job.gpus = 8, job.parallel.sequence_parallel = true;
  const auto shape_of = [](const ir::Plan& plan, const char* name) {
    for (const ir::Register& r : plan.programs[0].registers)
      if (r.name == name) return r.type.shape;
    return sbp::Shape{};
  };
  job.parallel.etp = 1;
  const ir::Plan whole = compile(resolve(job));
  EXPECT_EQ(shape_of(whole, "h0.mlp.fc1.weight"), (sbp::Shape{2, 1024, 4096}));
  EXPECT_EQ(shape_of(whole, "h0.mlp.fc2.bias"), (sbp::Shape{2, 1, 1024}));
  EXPECT_EQ(shape_of(whole, "h0.mlp.fc2"), (sbp::Shape{2, 4 * 64, 1024}));
  int exchanges = 0;
  for (const ir::Actor& actor : whole.programs[0].actors) {
    if (actor.name.find("mlp.fc") != std::string::npos) {
      EXPECT_NE(actor.collective, sbp::Collective::reduce_scatter) << actor.name;
      EXPECT_NE(actor.collective, sbp::Collective::all_reduce) << actor.name;
    }
    const bool exchanges_tokens =
        actor.collective == sbp::Collective::all_to_all && at(whole.comms, actor.comm).name == "ep";
    exchanges += exchanges_tokens;
  }
  EXPECT_EQ(exchanges, 4 * job.model->layers);
  job.parallel.etp = 0, job.parallel.ep = 4;
  const ir::Plan cut = compile(resolve(job));
  EXPECT_EQ(shape_of(cut, "h0.mlp.fc1.weight"), (sbp::Shape{4, 1024, 2048}));
  EXPECT_EQ(shape_of(cut, "h0.mlp.fc2"), (sbp::Shape{4, 4 * 64, 1024}));
}

// Each rank of context parallelism makes the gradients of some experts and keeps their states: they are
// reduced over data parallelism alone.
TEST(Experts, GradientsStayOnTheirRankOfContextParallelism) {
  for (const int ep : {1, 2})
    for (const int zero : {1, 2, 3}) {
      Job job = experts_job(2, ep, 1);
      job.parallel.cp = 4, job.gpus = 8, job.parallel.zero = zero;
      const ir::Plan plan = compile(resolve(job));
      int reduced = 0;
      for (const ir::Actor& actor : plan.programs[0].actors) {
        if (actor.collective == sbp::Collective::none || actor.comm < 0) continue;
        for (const ir::Input& input : actor.inputs) {
          const std::string& name = at(plan.programs[0].registers, input.reg).name;
          if (!name.starts_with("h0.mlp.fc1.weight") || name.find(".grad") == std::string::npos) continue;
          EXPECT_EQ(at(plan.comms, actor.comm).name, "dp") << name;
          EXPECT_EQ(actor.collective, sbp::Collective::reduce_scatter) << name;
          ++reduced;
        }
      }
      EXPECT_EQ(reduced, ep == 1 ? 1 : 0) << "zero " << zero;
    }
}

// One device has all experts and so all tokens, however they are routed.
TEST(Experts, OnOneDeviceTakeTheUsualTime) {
  EXPECT_EQ(seconds_of(experts_job(1, 1, 4)), seconds_of(experts_job(1, 1, 1)));
}

TEST(Experts, CannotGetMoreThanAllTokens) {
  EXPECT_EQ(support::error_of([] { experts_job(8, 8, 17); }),
            "train.routing_skew: 17 times the mean is more than all tokens (use at most experts 16 / top_k 1 "
            "= 16)");
}

// The experts that the first mixture of a job chooses, by token and choice, on drawn weights.
std::vector<double> choices(const ResolvedJob& job) {
  const ir::Graph graph = training_graph(job);
  const auto values = backends::cpu::evaluate(graph, backends::cpu::draw(graph, 7, job->model->vocab));
  for (const ir::Op& op : graph.ops)
    if (op.type == "moe_dispatch") return values.at(graph.tensor(op.inputs[1]).name).data;
  return {};
}

// So that law 4 for such jobs shows that every plan drops the same tokens.
TEST(Experts, DropTokens) {
  Job job = small_job(2, 1, 1);
  job.model->experts = 4, job.model->top_k = 2;
  const ResolvedJob resolved = resolve(job);
  const std::vector<double> index = choices(resolved);
  const int64_t slots = ir::models::capacity(transformer_of(resolved->model));
  const size_t each = static_cast<size_t>(resolved->model->seq * resolved->model->top_k);  // of a sequence
  int64_t dropped = 0;
  for (size_t begin = 0; begin < index.size(); begin += each) {
    std::map<double, int64_t> tokens;
    for (size_t i = begin; i < begin + each; ++i) ++tokens[index[i]];
    for (const auto& [expert, count] : tokens) dropped += std::max<int64_t>(0, count - slots);
  }
  EXPECT_GT(dropped, 0);
}

TEST(Experts, OfATokenAreOfItsBestGroups) {
  Job job = small_job(2, 1, 1);
  job.model->experts = 12, job.model->top_k = 3;
  const std::vector<double> any = choices(resolve(job));
  job.model->expert_groups = 4, job.model->top_groups = 2;
  const std::vector<double> limited = choices(resolve(job));
  const auto most_groups = [](const std::vector<double>& index) {
    size_t most = 0;
    for (size_t i = 0; i < index.size(); i += 3) {
      std::set<int> groups;
      for (size_t k = i; k < i + 3; ++k) groups.insert(static_cast<int>(index[k]) / 3);
      most = std::max(most, groups.size());
    }
    return most;
  };
  EXPECT_EQ(most_groups(any), 3u);
  EXPECT_EQ(most_groups(limited), 2u);
}

// Sigmoids of two scores over their sum, times the scale; of one score its sigmoid.
TEST(Experts, AreWeighedBySigmoids) {
  for (const int top_k : {1, 2}) {
    Job job = small_job(1, 1, 1);
    job.model->experts = 4, job.model->top_k = top_k;
    job.model->router_scores = "sigmoid", job.model->expert_scale = 2.5;
    const ir::Graph graph = ir::models::build(job.model, 1);
    const auto values = backends::cpu::evaluate(graph, backends::cpu::draw(graph, 7, job.model->vocab));
    const auto& scores = values.at("h0.mlp.router").data;
    const auto& index = values.at("h0.mlp.top_k.indices").data;
    const auto& shares = values.at("h0.mlp.shares").data;
    const auto sigmoid = [&](size_t i) {
      return 1 / (1 + std::exp(-scores[i / static_cast<size_t>(top_k) * 4 + static_cast<size_t>(index[i])]));
    };
    ASSERT_EQ(shares.size(), index.size());
    for (size_t i = 0; i < shares.size(); ++i) {
      const double sum = top_k == 1 ? 1 : sigmoid(i / 2 * 2) + sigmoid(i / 2 * 2 + 1);
      EXPECT_NEAR(shares[i], 2.5 * sigmoid(i) / sum, 1e-12);
    }
  }
}

}  // namespace
}  // namespace boxcar::planner
