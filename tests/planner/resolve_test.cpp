#include "planner/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "sbp/error.h"

namespace boxcar::planner {
namespace {

Job llama_job() {
  Job job;
  job.model = ir::models::defaults("gpt");
  job.model->layers = 12, job.model->hidden = 64, job.model->heads = 8, job.model->seq = 32,
  job.model->vocab = 100;
  job.gpus = 8;
  return job;
}

std::string refusal(const std::function<void(Job&)>& change) {
  try {
    Job job = llama_job();
    change(job);
    resolve(job);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::bad_input);
    return e.what();
  }
  return "accepted";
}

TEST(Resolve, FillsInWhatIsLeftOpen) {
  Job job = llama_job();
  job.parallel.tp = 2;
  job.parallel.pp = 2;
  const ResolvedJob done = resolve(job);
  EXPECT_EQ(done->parallel.dp, 2);
  EXPECT_EQ(done->global_batch, 2);
  EXPECT_EQ(done->train.micro_batches, 1);
  EXPECT_THAT(done->parallel.stage_layers, testing::ElementsAre(6, 6));
  EXPECT_EQ(done->model->ffn, 256);
}

// Changing a resolved job means resolving a copy: the original stays unchanged.
TEST(Resolve, LeavesAResolvedJobAsItIs) {
  Job job = llama_job();
  for (const auto& [dp, tp, pp, zero] :
       {std::array{4, 2, 1, 3}, std::array{2, 1, 4, 1}, std::array{1, 8, 1, 0}}) {
    job.parallel.dp = dp, job.parallel.tp = tp, job.parallel.pp = pp, job.parallel.zero = zero;
    const ResolvedJob done = resolve(job);
    EXPECT_EQ(*resolve(done), *done);
  }
}

TEST(Resolve, BalancesStagesThatLayersDoNotFillEvenly) {
  EXPECT_THAT(balanced_layers(13, 4), testing::ElementsAre(4, 3, 3, 3));
  Job job = llama_job();
  job.model->layers = 13;
  job.parallel.pp = 4;
  EXPECT_THAT(resolve(job)->parallel.stage_layers, testing::ElementsAre(4, 3, 3, 3));
  job.gpus = 4, job.parallel.virtual_stages = 2;
  EXPECT_THAT(resolve(job)->parallel.stage_layers, testing::ElementsAre(2, 2, 2, 2, 2, 1, 1, 1));
}

// The embedding and the head can have stages of their own.
TEST(Resolve, LetsTheFirstAndTheLastStageHaveNoLayers) {
  EXPECT_THAT(balanced_layers(4, 5), testing::ElementsAre(1, 1, 1, 1, 0));
  EXPECT_THAT(balanced_layers(4, 6), testing::ElementsAre(0, 1, 1, 1, 1, 0));
  Job job = llama_job();
  job.gpus = job.parallel.pp = 4, job.model->layers = 6, job.parallel.virtual_stages = 2;
  EXPECT_THAT(resolve(job)->parallel.stage_layers, testing::ElementsAre(0, 1, 1, 1, 1, 1, 1, 0));
  job.parallel.stage_layers = {0, 2, 1, 1, 1, 1, 0, 0};
  EXPECT_THROW(resolve(job), Error);
  job.parallel.stage_layers = {0, 2, 0, 1, 1, 1, 1, 0};
  EXPECT_THROW(resolve(job), Error);
}

TEST(Resolve, InterleavesAnyNumberOfMicroBatches) {
  Job job = llama_job();
  job.gpus = job.parallel.pp = 4, job.parallel.virtual_stages = 3, job.global_batch = 7;
  EXPECT_EQ(resolve(job)->train.micro_batches, 7);
}

TEST(Resolve, ChoosesAMicroBatchWhereNoneIsGiven) {
  Job job = llama_job();
  job.gpus = 4, job.global_batch = 128, job.parallel.micro_batch = 0;
  EXPECT_EQ(resolve(job)->parallel.micro_batch, 32);
  job.parallel.pp = 2;  // 64 samples in 8 micro-batches
  EXPECT_EQ(resolve(job)->parallel.micro_batch, 8);
  job.global_batch = 2 * 63;  // of 63 at most 7, which divides it
  EXPECT_EQ(resolve(job)->parallel.micro_batch, 7);
  job.global_batch = 0;
  EXPECT_EQ(resolve(job)->parallel.micro_batch, 1);
}

void images(Job& job) { job.model = ir::models::ConvNet{"resnet", 16, 64, 1, 224, 1000}; }

TEST(Resolve, CountsBlocksOfImagesAsLayers) {
  Job job = llama_job();
  images(job);
  job.model.layers() = 33;
  job.parallel.pp = 4;
  EXPECT_THAT(resolve(job)->parallel.stage_layers, testing::ElementsAre(9, 8, 8, 8));
}

struct Refusal {
  const char* name;
  std::function<void(Job&)> change;
  const char* message;
};

class ResolveRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ResolveRefuses, WithAClearMessage) { EXPECT_EQ(refusal(GetParam().change), GetParam().message); }

const Refusal refusals[] = {
    {"degrees", [](Job& j) { j.parallel.dp = 4, j.parallel.tp = 4; },
     "parallel: dp 4 x tp 4 x pp 1 x context_parallel 1 = 16 is not the 8 gpus of the cluster (use dp: 2, or "
     "16 gpus)"},
    {"no_dp", [](Job& j) { j.parallel.tp = 3; },
     "parallel: tp 3 x pp 1 x context_parallel 1 = 3 does not divide 8 gpus (use a multiple of 3 gpus, or "
     "other degrees)"},
    {"heads", [](Job& j) { j.gpus = 6, j.parallel.tp = 6; },
     "parallel.tp: 6 does not divide heads 8 (use 1, 2, 4 or 8)"},
    {"kv_heads", [](Job& j) { j.model->kv_heads = 2, j.parallel.tp = 4; },
     "parallel.tp: 4 does not divide kv_heads 2 (use 1 or 2)"},
    {"seq", [](Job& j) { j.gpus = 3, j.parallel.cp = 3; },
     "parallel.context_parallel: 3 does not divide seq 32 (use 1, 2, 4, 8, 16 or 32)"},
    {"batch", [](Job& j) { j.global_batch = 12; },
     "train.global_batch: 12 is not a multiple of dp 8 x micro_batch 1 (use 8 or 16)"},
    {"stages", [](Job& j) { j.gpus = 16, j.parallel.pp = 16; },
     "parallel.pp: 16 stages, of which the first and the last may have none, for 12 layers (use at most 14)"},
    {"stage_layers",
     [](Job& j) {
       j.parallel.pp = 2, j.parallel.stage_layers = {6, 7};
     },
     "parallel.stage_layers: 13 layers in all, the model has 12"},
    {"stage_count", [](Job& j) { j.parallel.pp = 2, j.parallel.stage_layers = {12}; },
     "parallel.stage_layers: 1 numbers for 2 stages (give one for each of pp 2 x virtual_stages 1)"},
    {"virtual_without_pp", [](Job& j) { j.parallel.virtual_stages = 2; },
     "parallel.virtual_stages: 2 without pipeline stages (use 1, or pp of 2 or more)"},
    {"virtual_with_a_decoder",
     [](Job& j) { j.model->family = "t5", j.parallel.pp = j.parallel.virtual_stages = 2; },
     "parallel.virtual_stages: 2 for a model with a decoder, all of whose layers read what the encoder made "
     "(use "
     "1)"},
    {"sequence_parallel_of_a_decoder",
     [](Job& j) {
       j.model->family = "t5", j.model->decoder_seq = 3, j.parallel.tp = 2,
       j.parallel.sequence_parallel = true;
     },
     "parallel.sequence_parallel: tp 2 x context_parallel 1 does not divide decoder_seq 3 (switch it off or "
     "change tp)"},
    {"more_virtual_stages_than_layers",
     [](Job& j) { j.model->layers = 2, j.gpus = 3, j.parallel.pp = j.parallel.virtual_stages = 3; },
     "parallel.virtual_stages: pp 3 x virtual_stages 3 = 9, of which the first and the last may have none, "
     "is "
     "more than layers 2 (use at most 1 with pp 3)"},
    {"virtual_stages_of_few_layers",
     [](Job& j) { j.model->layers = 3, j.gpus = j.parallel.pp = 2, j.parallel.virtual_stages = 3; },
     "parallel.virtual_stages: pp 2 x virtual_stages 3 = 6, of which the first and the last may have none, "
     "is "
     "more than layers 3 (use at most 2 with pp 2)"},
    {"empty_stage",
     [](Job& j) {
       j.parallel.pp = 4, j.parallel.stage_layers = {6, 0, 3, 3};
     },
     "parallel.stage_layers: 0 layers in stage 1 (use 1 or more, or 0 for the first and the last)"},
    {"empty_stage_of_images",
     [](Job& j) {
       images(j), j.parallel.pp = 2, j.parallel.stage_layers = {16, 0};
     },
     "parallel.stage_layers: 0 layers in stage 1 (use 1 or more)"},
    {"zero", [](Job& j) { j.parallel.zero = 4; }, "parallel.zero: 4 is out of range (use 0 to 3)"},
    {"negative", [](Job& j) { j.parallel.tp = -1; }, "parallel.tp: -1 is out of range (use 1 to 1048576)"},
    {"schedule", [](Job& j) { j.parallel.schedule = parse_schedule("zigzag"); },
     "parallel.schedule: unknown schedule 'zigzag' (use 1f1b, gpipe, zb-h1, zb-h2, zb-v, dualpipe-v or the "
     "micro-batches in "
     "flight on each stage, as 4,3,2,1; virtual_stages > 1 interleaves 1f1b)"},
    {"rows_of_images", [](Job& j) { images(j), j.parallel.cp = 2; },
     "parallel.context_parallel: 2 for images, which have no sequence to split (use 1)"},
    {"sequence_of_images", [](Job& j) { images(j), j.parallel.tp = 2, j.parallel.sequence_parallel = true; },
     "parallel.sequence_parallel: images have no sequence to split (switch it off)"},
    {"experts_of_images", [](Job& j) { images(j), j.parallel.ep = 2; },
     "parallel.ep: 2 for a model without experts (use 1)"},
    {"stages_of_images", [](Job& j) { images(j), j.gpus = j.parallel.pp = 17; },
     "parallel.pp: 17 stages for 16 layers (use at most 16)"},
    {"depth", [](Job& j) { images(j), j.model.conv_net()->layers = 18; },
     "layers: is 18, expected the blocks of ResNet-50, -101 or -152: 16, 33 or 50"},
    {"experts", [](Job& j) { j.parallel.ep = 2; }, "parallel.ep: 2 for a model without experts (use 1)"},
    {"groups_of_experts",
     [](Job& j) {
       j.model->experts = 8, j.model->top_k = 2, j.model->expert_groups = 3, j.model->top_groups = 1;
     },
     "expert_groups: 3 does not divide experts 8 (use 1, 2, 4, 8)"},
    {"too_few_groups",
     [](Job& j) {
       j.model->experts = 8, j.model->top_k = 3, j.model->expert_groups = 4, j.model->top_groups = 1;
     },
     "top_k: is 3, but top_groups 1 have 2 experts"},
    {"no_groups", [](Job& j) { j.model->experts = 8, j.model->top_groups = 1; },
     "top_groups: needs expert_groups"},
    {"scores", [](Job& j) { j.model->experts = 8, j.model->router_scores = "tanh"; },
     "router_scores: unknown 'tanh' (use softmax or sigmoid)"},
    {"part_of_an_expert",
     [](Job& j) { j.gpus = j.parallel.tp = 4, j.parallel.etp = 2, j.model->experts = 8; },
     "parallel.etp: 2, expected 1 or tp 4: all ranks of tp share an expert, or none do"},
    {"experts_not_over_tp",
     [](Job& j) {
       j.gpus = 16, j.parallel.tp = 4, j.parallel.etp = 1, j.parallel.ep = 2, j.model->experts = 8;
     },
     "parallel.ep: 2 is no multiple of tp 4, over which etp 1 deals experts out (use 4, or etp 4)"},
    {"experts_over_tp_and_replicas",
     [](Job& j) {
       j.gpus = 16, j.parallel.tp = 4, j.parallel.etp = 1, j.parallel.ep = 12, j.model->experts = 24;
     },
     "parallel.ep: 12 with etp 1 is tp 4 times 3, which does not divide dp 4 (use tp times 1, 2 or 4)"},
};
INSTANTIATE_TEST_SUITE_P(Jobs, ResolveRefuses, testing::ValuesIn(refusals),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::planner
