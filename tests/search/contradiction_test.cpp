// If no combination of degrees is legal, the search names the keys and the rule that conflict.
#include <gtest/gtest.h>

#include <functional>

#include "sbp/error.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

std::string refusal(const std::function<void(Job&)>& change, const std::set<std::string>& pinned,
                    const std::map<std::string, std::pair<int, int>>& ranges = {},
                    const std::vector<LayoutPin>& pins = {}) {
  Job job = small_gpt(8);
  change(job);
  try {
    search(job, {.pinned = pinned, .ranges = ranges, .pins = pins}, oracle());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::cannot_run);
    return error.what();
  }
  return "found";
}

// 8 GPUs, 4 layers, 16 heads, 512 tokens, 16 sequences.
TEST(Contradiction, NamesAKeyWhatItContradictsAndWhatGoes) {
  EXPECT_EQ(
      refusal(
          [](Job& j) { j.parallel.tp = 8, j.model->hidden = 1280, j.model->heads = j.model->kv_heads = 20; },
          {"tp"}),
      "parallel: tp 8 contradicts heads 20: tp has to divide heads (use 1, 2 or 4)");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.dp = 3; }, {"dp"}),
            "parallel: dp 3 contradicts gpus 8: dp x tp x pp x context_parallel has to be gpus (use 1, 2, 4 "
            "or 8)");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.pp = 8; }, {"pp"}),
            "parallel: pp 8 contradicts layers 4: every stage but the first and the last has to have a layer "
            "(use 1, 2 or 4)");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.micro_batch = 3; }, {"micro_batch"}),
            "parallel: micro_batch 3 contradicts global_batch 16: dp x micro_batch has to divide "
            "global_batch (use 1, 2, 4, 8 or 16)");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.ep = 2; }, {"ep"}),
            "parallel: ep 2 contradicts experts 0: ep needs a model with experts (use 1)");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.ep = 3, j.model->experts = 4; }, {"ep"}),
            "parallel: ep 3 contradicts experts 4: ep has to divide experts (use 1, 2 or 4)");
  EXPECT_EQ(
      refusal([](Job& j) { j.model->experts = 8, j.parallel.tp = 4, j.parallel.ep = 2, j.parallel.etp = 1; },
              {"tp", "ep", "etp"}),
      "parallel: etp 1, ep 2, tp 4 contradict each other: with etp 1 ep has to be tp times a divisor of dp");
  EXPECT_EQ(
      refusal([](Job& j) { j.model->experts = 8, j.parallel.tp = 4, j.parallel.etp = 2; }, {"tp", "etp"}),
      "parallel: etp 2 contradicts tp 4: etp has to be 1 or tp");
  EXPECT_EQ(
      refusal(
          [](Job& j) {
            j.model->layers = 6, j.global_batch = 16;
            j.parallel.pp = 2, j.parallel.virtual_stages = 2, j.parallel.dp = 4;
          },
          {"pp", "virtual_stages", "stage_layers", "dp"}),
      "parallel: virtual_stages 2 contradicts stage_layers balanced with layers 6, gpus 8: virtual stages "
      "that are balanced have equally many layers, and stages one or more, and dp x tp x pp x "
      "context_parallel has to be gpus, and virtual_stages needs pp of 2 or more");
  const auto of_images = [](Job& j) { j.model = ir::models::ConvNet{"resnet", 16, 64, 1, 224, 1000}; };
  EXPECT_EQ(
      refusal([&](Job& j) { of_images(j), j.parallel.cp = 2; }, {"cp"}),
      "parallel: context_parallel 2 contradicts family resnet: images have no sequence to split (use 1)");
  EXPECT_EQ(refusal([&](Job& j) { of_images(j), j.parallel.tp = 2, j.parallel.sequence_parallel = true; },
                    {"sequence_parallel", "tp"}),
            "parallel: sequence_parallel true contradicts tp 2 with family resnet: images have no sequence "
            "to split");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.cp = 3; }, {"cp"}),
            "parallel: context_parallel 3 contradicts seq 512: context_parallel has to divide seq (use 1, 2, "
            "4 or 8)");
  EXPECT_EQ(refusal(
                [](Job& j) {
                  j.parallel.stage_layers = {3, 2};
                },
                {"stage_layers"}),
            "parallel: stage_layers 3,2 contradicts layers 4: stage_layers have to add up to layers");
  EXPECT_EQ(refusal(
                [](Job& j) {
                  j.parallel.stage_layers = {2, 0, 1, 1};
                },
                {"stage_layers"}),
            "parallel: stage_layers 2,0,1,1 is not possible: every stage but the first and the last has to "
            "have a layer");
  EXPECT_EQ(refusal(
                [](Job& j) {
                  j.parallel.stage_layers = {2, 1, 1};
                },
                {"stage_layers"}),
            "parallel: stage_layers 2,1,1 contradicts gpus 8: stage_layers has to have a number for each of "
            "pp x virtual_stages stages, and dp x tp x pp x context_parallel has to be gpus");
  EXPECT_EQ(refusal([](Job&) {}, {}, {{"tp", {3, 3}}}),
            "parallel: tp 3..3 contradicts heads 16: tp has to divide heads (use 1, 2, 4 or 8)");
}

TEST(Contradiction, NamesKeysThatDoNotGoTogether) {
  EXPECT_EQ(refusal([](Job& j) { j.parallel.tp = 8, j.parallel.pp = 4, j.parallel.zero = 1; },
                    {"tp", "pp", "zero"}),
            "parallel: pp 4 contradicts tp 8 with gpus 8: dp x tp x pp x context_parallel has to be gpus");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.dp = j.parallel.tp = j.parallel.pp = 4; }, {"dp", "tp", "pp"}),
            "parallel: tp 4 contradicts dp 4 with gpus 8: dp x tp x pp x context_parallel has to be gpus");
  EXPECT_EQ(
      refusal([](Job& j) { j.parallel.dp = j.parallel.tp = j.parallel.pp = 2, j.parallel.micro_batch = 16; },
              {"dp", "tp", "pp", "micro_batch"}),
      "parallel: micro_batch 16 contradicts dp 2 with global_batch 16: dp x micro_batch has to divide "
      "global_batch");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.dp = j.parallel.pp = 2, j.parallel.tp = 1; }, {"dp", "tp", "pp"}),
            "parallel: pp 2, tp 1, dp 2 contradict each other with seq 512, gpus 8: context_parallel is 1 "
            "where it is not given, seq is below 16384 and global_batch is gpus or more, and dp x tp x pp x "
            "context_parallel has to be gpus");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.tp = 8; }, {"tp"}, {{"pp", {2, 3}}}),
            "parallel: pp 2..3 contradicts tp 8 with gpus 8: dp x tp x pp x context_parallel has to be gpus");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.schedule = planner::parse_schedule("3,1"), j.parallel.pp = 4; },
                    {"schedule", "pp"}),
            "parallel: schedule 3,1 contradicts pp 4: schedule has to have a number for each of pp stages");
  EXPECT_EQ(refusal(
                [](Job& j) {
                  j.parallel.stage_layers = {3, 1}, j.parallel.pp = 4;
                },
                {"stage_layers", "pp"}),
            "parallel: stage_layers 3,1 contradicts pp 4: stage_layers has to have a number for each of pp x "
            "virtual_stages stages");
  EXPECT_EQ(
      refusal([](Job& j) { j.parallel.schedule = planner::Schedule::zb_h1, j.parallel.virtual_stages = 2; },
              {"schedule", "virtual_stages"}),
      "parallel: virtual_stages 2 contradicts schedule zb-h1: virtual_stages needs schedule 1f1b, zb-v or "
      "dualpipe-v");
  EXPECT_EQ(
      refusal([](Job& j) { j.parallel.sequence_parallel = true, j.parallel.tp = 8, j.model->seq = 500; },
              {"sequence_parallel", "tp"}),
      "parallel: sequence_parallel true contradicts tp 8 with seq 500: with sequence_parallel tp x "
      "context_parallel has to divide seq");
  EXPECT_EQ(
      refusal([](Job& j) { j.parallel.dp = 1; }, {"dp"}, {{"zero", {1, 3}}}),
      "parallel: zero 1..3 contradicts dp 1 with seq 512: context_parallel is 1 where it is not given, seq "
      "is below 16384 and global_batch is gpus or more, and zero shards over dp x context_parallel, which "
      "has to be 2 or more");
}

// One layer, two indivisible sequences, and heads with one key head: dp and pp are at most 2, tp and
// context_parallel 1.
TEST(Contradiction, NamesTheRulesWhereNothingIsGiven) {
  EXPECT_EQ(
      refusal(
          [](Job& j) { j.model->layers = 1, j.model->kv_heads = 1, j.model->seq = 511, j.global_batch = 2; },
          {}),
      "parallel: no combination of degrees is legal with kv_heads 1, seq 511, layers 1, gpus 8, "
      "global_batch 2: tp has to divide kv_heads, and context_parallel has to divide seq, and every stage "
      "but the first and the last has to have a layer, and dp x tp x pp x context_parallel has to be gpus, "
      "and dp x micro_batch has to divide "
      "global_batch");
}

// A pinned layout requires a mesh of as many dimensions.
TEST(Contradiction, NamesLayoutsAndTheDegreesOrLayoutsThatTheyContradict) {
  const LayoutPin two = parse_pin("h*.mlp.fc1.weight=(B,S(1))"), one = parse_pin("h*.attn.qkv.weight=S(1)");
  EXPECT_EQ(refusal([](Job& j) { j.parallel.tp = 8; }, {"tp"}, {}, {two}),
            "parallel: tp 8 contradicts gpus 8 and --pin h*.mlp.fc1.weight=(B, S(1)): dp x tp x pp x "
            "context_parallel has to be gpus, and a layout has an entry for each dimension of a stage's mesh "
            "(use 2 or 4)");
  EXPECT_EQ(refusal([](Job&) {}, {}, {}, {one, two}),
            "parallel: no combination of degrees is legal with --pin h*.attn.qkv.weight=S(1), --pin "
            "h*.mlp.fc1.weight=(B, S(1)): a layout has an entry for each dimension of a stage's mesh");
  EXPECT_EQ(refusal([](Job&) {}, {}, {}, {two}), "found");
}

}  // namespace
}  // namespace boxcar::search
