// Plans on tables of measured ops: published values, and every possible plan on random tables.
#include "experiments/search/table_plans.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "sbp/error.h"

namespace boxcar::tests {
namespace {

using measured::Judged;
using measured::Links;
using measured::OpTable;
using measured::Plan;
using measured::Stage;
using measured::Task;

const std::string sample = BOXCAR_SOURCE_DIR "/experiments/search/sample";

Stage stage(int first, int last, int devices, int tp, char recomputed) {
  const auto count = static_cast<size_t>(last - first);
  return {first,
          last,
          devices,
          std::vector<char>(count, recomputed),
          std::vector<int>(count, tp),
          std::vector<int>(count)};
}

// Megatron-LM's plan of GPT 2.6B on eight devices, one sample in a micro-batch.
Plan four_stages(char recomputed) {
  Plan plan{1, {}};
  for (const auto& [first, last] : {std::pair(0, 105), {105, 209}, {209, 313}, {313, 419}})
    plan.stages.push_back(stage(first, last, 2, 2, recomputed));
  plan.stages.front().recomputed.front() = plan.stages.back().recomputed.back() = 0;
  return plan;
}

Task gpt_task(const OpTable& table) { return {measured::gpt(table, 32), 8, 8, 1024, 28000, {1}}; }

TEST(TablePlans, StepsAreThePublishedOnes) {
  const Links links = Links::read(sample);
  const OpTable words = OpTable::read(sample, "gpt_2_6B"), images = OpTable::read(sample, "resnet_4B");
  EXPECT_NEAR(measured::judge(gpt_task(words), links, four_stages(0)).seconds, 111.01, 0.005);
  const Task task{measured::resnet(images), 8, 8, 1536, 28000, {16}};
  EXPECT_NEAR(measured::judge(task, links, {16, {stage(0, 134, 8, 8, 0)}}).seconds, 90.49, 0.005);
}

// From their planner's formulas, evaluated outside this project.
TEST(TablePlans, MemoryAndTimeComputedAgainAreWhatTheTablesPlannerSays) {
  const OpTable table = OpTable::read(sample, "gpt_2_6B");
  const Links links = Links::read(sample);
  const Judged kept = measured::judge(gpt_task(table), links, four_stages(0));
  const Judged recomputed = measured::judge(gpt_task(table), links, four_stages(1));
  const double wanted[2][4] = {{24148.128, 18574.768, 14196.512, 11113.297},
                               {7701.136, 6376.032, 6246.032, 7396.073}};
  Task nodes_of_four = gpt_task(table);
  nodes_of_four.node_gpus = 4;
  EXPECT_NEAR(measured::judge(nodes_of_four, links, four_stages(0)).seconds, 111.01507, 0.0001);
  EXPECT_NEAR(recomputed.seconds, 150.00094, 0.0001);
  for (size_t s = 0; s < 4; ++s) {
    EXPECT_NEAR(kept.memory[s], wanted[0][s], 0.01);
    EXPECT_NEAR(recomputed.memory[s], wanted[1][s], 0.01);
  }
}

TEST(TablePlans, TheBestOfTheSampleIsFasterThanTheGridAndFits) {
  const OpTable table = OpTable::read(sample, "gpt_2_6B");
  const Links links = Links::read(sample);
  Task task = gpt_task(table);
  const auto seconds_within = [&](double memory) {
    task.memory = memory;
    const Plan plan = measured::best(task, links);
    if (plan.stages.empty()) return std::numeric_limits<double>::infinity();
    const Judged judged = measured::judge(task, links, plan);
    for (const double held : judged.memory) EXPECT_LE(held, memory);
    return judged.seconds;
  };
  EXPECT_NEAR(seconds_within(28000), 90.69, 0.01);
  EXPECT_NEAR(seconds_within(14000), 95.67, 0.01);
  EXPECT_EQ(seconds_within(2000), std::numeric_limits<double>::infinity());
}

// A folder with tables of a few ops with random costs.
class RandomTables {
 public:
  RandomTables(std::mt19937_64& random, const std::vector<std::string>& ops)
      : folder_(std::filesystem::temp_directory_path() / fmt::format("boxcar_tables_{}", random())) {
    std::filesystem::create_directory(folder_);
    std::ofstream out(folder_ / "aceso_v100_op_profile.csv");
    out << "model,micro_batch,tp,algo,op,fwd_us,bwd_us,input_MB,output_MB,weights_MB,activations_MB,"
           "fwd_reserved_MB,bwd_reserved_MB\n";
    const auto draw = [&](int most) { return std::uniform_int_distribution(1, most)(random); };
    for (const std::string& op : ops)
      for (const int samples : {1, 2})
        for (const int tp : {1, 2})
          for (const int split : {0, 1})
            out << fmt::format("net,{},{},{},{},{},{},{},{},{},{},{},{}\n", samples, tp, split, op, draw(400),
                               draw(800), draw(30), draw(30), draw(40), draw(60), draw(10), draw(20));
    std::filesystem::copy(sample + "/aceso_v100_comm_profile.csv", folder_);
  }
  ~RandomTables() { std::filesystem::remove_all(folder_); }
  std::string folder() const { return folder_.string(); }

 private:
  std::filesystem::path folder_;
};

// Every cut, degree, split and choice of recomputed ops, on two devices.
double tried_exhaustively(const Task& task, const Links& links) {
  const int count = static_cast<int>(task.model.ops.size());
  double least = std::numeric_limits<double>::infinity();
  Plan plan;
  const auto look = [&] {
    const Judged judged = measured::judge(task, links, plan);
    if (*std::max_element(judged.memory.begin(), judged.memory.end()) <= task.memory)
      least = std::min(least, judged.seconds);
  };
  std::function<void(size_t, int)> each = [&](size_t s, int op) {
    if (s == plan.stages.size()) return look();
    Stage& stage = plan.stages[s];
    if (stage.first + op == stage.last) return each(s + 1, 0);
    const auto i = static_cast<size_t>(op);
    for (int tp = 1; tp <= stage.devices; ++tp)
      for (int split = 0; split < 2; ++split)
        for (char recomputed = 0; recomputed < (stage.first + op == 0 ? 1 : 2); ++recomputed) {
          stage.tp[i] = tp, stage.split[i] = split, stage.recomputed[i] = recomputed;
          each(s, op + 1);
        }
  };
  for (plan.samples = 1; plan.samples <= 2; ++plan.samples) {
    plan.stages = {stage(0, count, 2, 1, 0)};
    if (plan.samples == 2) each(0, 0);
    for (int cut = 1; cut < count; ++cut) {
      plan.stages = {stage(0, cut, 1, 1, 0), stage(cut, count, 1, 1, 0)};
      each(0, 0);
    }
  }
  return least;
}

TEST(TablePlans, TheBestIsNearThatOfAllPlansTried) {
  std::mt19937_64 random(7);
  double over = 0;
  int fitting = 0;
  for (int round = 0; round < 40; ++round) {
    const RandomTables tables(random, {"conv1", "a-conv1", "a-conv2", "b-conv1"});
    const OpTable table = OpTable::read(tables.folder(), "net");
    const Links links = Links::read(tables.folder());
    const Task task{measured::resnet(table), 2, 2, 8, 300.0 + 20 * (round % 10), {1, 2}};
    const double wanted = tried_exhaustively(task, links);
    const Plan plan = measured::best(task, links);
    if (plan.stages.empty()) continue;
    const double found = measured::judge(task, links, plan).seconds;
    EXPECT_GE(found, wanted * (1 - 1e-12)) << round;
    over += found / wanted - 1;
    ++fitting;
  }
  EXPECT_GE(fitting, 30);
  EXPECT_LE(over / fitting, 0.12);  // random costs here are not smooth
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TablePlans, TablesAreRefusedAndWhySaid) {
  EXPECT_EQ(refusal([] { OpTable::read("/nowhere", "net"); }),
            "/nowhere/aceso_v100_op_profile.csv: cannot be read");
  EXPECT_EQ(refusal([] { OpTable::read(sample, "net"); }),
            sample + "/aceso_v100_op_profile.csv: has no model net");
  const OpTable table = OpTable::read(sample, "gpt_2_6B");
  EXPECT_EQ(refusal([&] {
              judge(gpt_task(table), Links::read(sample), {2, four_stages(0).stages});
            }),
            "encoder-embedding: was not measured with 2 samples, tp 2, split 0");
  std::mt19937_64 random(1);
  const RandomTables tables(random, {"conv1"});
  const std::string ops = tables.folder() + "/aceso_v100_op_profile.csv",
                    comm = tables.folder() + "/aceso_v100_comm_profile.csv";
  std::ofstream(ops) << "model,op,micro_batch\nnet,conv1,x\n";
  EXPECT_EQ(refusal([&] { OpTable::read(tables.folder(), "net"); }),
            ops + ":2: micro_batch is 'x', no number");
  std::ofstream(ops) << "model,op\nnet,conv1\n";
  EXPECT_EQ(refusal([&] { OpTable::read(tables.folder(), "net"); }), ops + ":2: has no field micro_batch");
  std::ofstream(comm) << "collective,scope,data_size_MB,time_ms\np2p,intra-node,1,1\n";
  EXPECT_EQ(refusal([&] { Links::read(tables.folder()); }),
            comm + ": has no p2p rows within a node, or none between nodes");
  std::ofstream(comm) << "collective,scope,data_size_MB,time_ms\np2p,intra-node,1,1\np2p,inter-node,1,1\n";
  EXPECT_EQ(refusal([&] { Links::read(tables.folder()); }),
            comm + ": has no reduce_scatter rows of 4 GPUs, or none of 8");
}

}  // namespace
}  // namespace boxcar::tests
