// Plans of adapters: where frozen weights count, and how adapters are split.
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "planner/resolve.h"
#include "planner/small_jobs.h"
#include "planner/verify.h"

namespace boxcar::planner {
namespace {

ResolvedJob adapted(int dp, int tp) {
  Job job = small_job(dp, tp, 1, 2, 1);
  job.model->lora_rank = 2, job.model->lora_mlp = true;
  return resolve(job);
}

// A's rows are split where the weight's are, B's columns where those are, so that adapters add no collective
// as wide as a layer.
TEST(LoraPlans, AdaptersAreSplitLikeTheirWeights) {
  const LaidOut laid = lay_out(adapted(1, 2));
  const auto layout = [&](const std::string& name) {
    return sbp::to_text(laid.layouts.stored.at(static_cast<size_t>(ir::find_tensor(laid.graph, name))));
  };
  for (const char* product : {"h0.attn.qkv", "h0.mlp.fc1"}) {
    EXPECT_EQ(layout(std::string(product) + ".lora_b.weight"), layout(std::string(product) + ".weight"));
    EXPECT_EQ(layout(std::string(product) + ".lora_a.weight"), "B");
  }
  for (const char* product : {"h0.attn.proj", "h0.mlp.fc2"}) {
    EXPECT_EQ(layout(std::string(product) + ".lora_a.weight"), layout(std::string(product) + ".weight"));
    EXPECT_EQ(layout(std::string(product) + ".lora_b.weight"), "B");
  }
}

TEST(LoraPlans, FrozenWeightsAreParameters) {
  const ResolvedJob job = adapted(1, 1);
  const ir::Plan plan = compile(job);
  const int64_t all = ir::models::parameters(job->model);
  EXPECT_GE(memory_use(plan).front().by_kind.at(static_cast<size_t>(ir::MemoryKind::parameters)), 2 * all);
}

}  // namespace
}  // namespace boxcar::planner
