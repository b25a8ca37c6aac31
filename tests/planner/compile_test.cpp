// Communication in a compiled plan: the collectives that follow from the layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/verify.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

ir::Plan plan_of(const Job& job) { return compile(resolve(job)); }

// 10 tokens over 4 devices; the model is the same as on one.
TEST(Compile, AVocabularyThatIsNotPaddedSplitsUnevenly) {
  Job job = small_job(1, 4, 1);
  job.model->vocab = 10, job.model->pad_vocab_to = 1;
  const ir::Plan plan = compile(resolve(job));
  std::vector<int64_t> rows;
  for (const ir::Program& program : plan.programs)
    rows.push_back(find_register(program, "embedding.word")->type.shape[0]);
  EXPECT_THAT(rows, testing::ElementsAre(3, 2));
}

// Every device gathers the head's result and computes the loss alone, without a collective.
TEST(Compile, GatheredLogitsLeaveTheLossWhole) {
  Job job = small_job(1, 2, 1);
  const std::string split = communication(plan_of(job), 0, "F0");
  EXPECT_THAT(split, testing::HasSubstr("loss.sum_exp.all_reduce"));
  job.parallel.gather_logits = true;
  const std::string whole = communication(plan_of(job), 0, "F0");
  EXPECT_THAT(whole, testing::HasSubstr("head.all_gather"));
  EXPECT_THAT(whole, testing::Not(testing::HasSubstr("loss.")));
}

// Queries stay in place and attention reads all keys and values; otherwise heads are exchanged for tokens.
TEST(Compile, GatheredKeysLeaveQueriesWhereTheyAre) {
  Job job = small_job(1, 1, 1);
  job.parallel.cp = job.gpus = 2, job.train.flash = true;
  const std::string exchanged = communication(plan_of(job), 0, "F0");
  EXPECT_THAT(exchanged, testing::HasSubstr("all_to_all"));
  job.parallel.gather_keys = true;
  const std::string gathered = communication(plan_of(job), 0, "F0");
  EXPECT_THAT(gathered, testing::HasSubstr("all_gather"));
  EXPECT_THAT(gathered, testing::Not(testing::HasSubstr("all_to_all")));
  const std::string backward = communication(plan_of(job), 0, "B0");
  EXPECT_THAT(backward, testing::HasSubstr("reduce_scatter"));
  EXPECT_THAT(backward, testing::Not(testing::HasSubstr("all_to_all")));
}

TEST(Compile, BytesThatAFrameworkKeepsBesideAResultCountWithIt) {
  Job job = small_job(1, 1, 1);
  const int64_t alone = find_register(plan_of(job).programs[0], "h0.mlp.gelu")->bytes;
  ASSERT_GT(alone, 512);
  job.parallel.retained_bytes = {{"bias_gelu", 3}, {"gelu", 3}, {"fused", 3}};
  EXPECT_EQ(find_register(plan_of(job).programs[0], "h0.mlp.gelu")->bytes, 3 * alone);
  job.parallel.retained_bytes["bias_gelu"] = job.parallel.retained_bytes["gelu"] =
      job.parallel.retained_bytes["fused"] = 0;
  EXPECT_EQ(find_register(plan_of(job).programs[0], "h0.mlp.gelu")->bytes,
            512);  // in place: the minimum size of a register
  job.parallel.retained_bytes = {{"bias_gelu", 3}, {"gelu", 3}, {"fused", 3}};
  job.train.recompute = ir::Recompute::full;  // recomputation then keeps it
  EXPECT_EQ(find_register(plan_of(job).programs[0], "h0.mlp.gelu")->bytes, alone);
  EXPECT_EQ(find_register(plan_of(job).programs[0], "h0.mlp.gelu.recomputed")->bytes, 3 * alone);
}

TEST(Compile, DataParallelismReducesGradientsOnceAStep) {
  const ir::Plan plan = plan_of(small_job(8, 1, 1, 2, 2));
  ASSERT_EQ(plan.programs.size(), 1u);
  ASSERT_EQ(plan.classes.size(), 1u);
  EXPECT_EQ(plan.classes[0].devices.size(), 8u);
  EXPECT_EQ(communication(plan, 0, "F0"), "");
  EXPECT_EQ(communication(plan, 0, "B0"), "");
  EXPECT_EQ(communication(plan, 0, "G"), "gradients.all_reduce dp 30976\n");  // 7,744 parameters in float32
  EXPECT_EQ(communication(plan, 0, "U"), "");
}

// The ranks that share a sequence have the same parameters, as replicas have.
TEST(Compile, StatesAreShardedOverReplicasAndContextParallelism) {
  for (const int zero : {1, 2, 3}) {
    const auto shard = [&](int dp, int cp) {
      Job job = small_job(dp, 1, 1, 2, 2);
      job.parallel.cp = cp, job.gpus = dp * cp, job.parallel.zero = zero;
      const ir::Plan plan = plan_of(job);
      EXPECT_EQ(plan.classes.size(), 1u);
      return at(at(memory_use(plan), 0).by_kind, ir::MemoryKind::optimizer);
    };
    EXPECT_EQ(shard(4, 2), shard(8, 1)) << zero;
    EXPECT_EQ(shard(1, 8), shard(8, 1)) << zero;
  }
}

// A parameter under Adam has a master weight in 4 bytes and two moments.
TEST(Compile, MomentsTakeHalfInSixteenBits) {
  const auto optimizer = [](ir::Precision precision, ir::Moments moments) {
    Job job = small_job(2, 1, 1, 2, 2);
    job.train.precision = precision, job.train.moments = moments;
    const ir::Plan plan = plan_of(job);
    double bytes = 0;
    for (const ir::Register& reg : plan.programs[0].registers)
      if (reg.memory == ir::MemoryKind::optimizer) bytes += static_cast<double>(reg.type.bytes());
    return bytes;
  };
  using enum ir::Moments;
  EXPECT_EQ(optimizer(ir::Precision::fp16, bf16), optimizer(ir::Precision::fp16, float32) * 8 / 12);
  EXPECT_EQ(optimizer(ir::Precision::fp64, bf16), optimizer(ir::Precision::fp64, float32));
}

// One collective over both at once; positions alone lie split over context parallelism before.
TEST(Compile, GradientsAreReducedOverContextParallelismWithReplicas) {
  Job job = small_job(2, 1, 1, 2, 2);
  job.parallel.cp = 2, job.gpus = 4, job.parallel.zero = 1;
  const ir::Plan plan = plan_of(job);
  EXPECT_EQ(communication(plan, 0, "G"),
            "gradients.all_gather cp 512\n"
            "gradients.reduce_scatter dp 512\n"
            "gradients.reduce_scatter.2 dp_cp 30464\n");
}

// One slot is read while the next one is filled; a pipeline's first stage has a micro-batch more in flight.
TEST(Compile, DataAreLoadedBesideComputingIntoTwoRegisters) {
  for (const auto& [pp, micro_batches] : {std::pair{1, 1}, std::pair{1, 4}, std::pair{2, 4}}) {
    const ir::Plan plan = plan_of(small_job(2, 1, pp, 2, micro_batches));
    for (const char* input : {"tokens", "labels"}) {
      const ir::Program& p = *input == 't' ? plan.programs.front() : plan.programs.back();
      const ir::Register* reg = find_register(p, input);
      ASSERT_NE(reg, nullptr);
      EXPECT_EQ(reg->count, *input == 't' && pp == 2 ? 3 : 2) << input << " on " << pp << " stages";
      const ir::Actor& loader = at(p.actors, reg->producer);
      EXPECT_EQ(loader.op, "load");
      for (const ir::Actor& actor : p.actors) EXPECT_EQ(actor.queue == loader.queue, actor.op == "load");
    }
  }
}

TEST(Compile, GradientsAreReducedInPlaceAndKeptOnce) {
  const ir::Plan plan = plan_of(small_job(8, 1, 1, 2, 2));
  const ir::Program& p = plan.programs[0];
  EXPECT_EQ(find_register(p, "embedding.word.grad.sum0"), nullptr);  // the tied embedding's two uses
  EXPECT_NE(find_register(p, "embedding.word.grad.sum"), nullptr);
  int64_t gradients = 0;
  for (const ir::Register& reg : p.registers)
    if (reg.memory == ir::MemoryKind::gradients && reg.every > 1) gradients += reg.type.bytes();
  EXPECT_EQ(gradients, 4 * 7744);
  for (const ir::Actor& actor : p.actors) {
    if (actor.name == "gradients.all_reduce") {
      EXPECT_EQ(actor.outputs.size(), 1u);
      EXPECT_EQ(at(p.registers, actor.outputs[0]).bytes, 0);
    }
  }
}

// Three uses of one table, of which two are added up before the third: each is in parts by tensor
// parallelism.
TEST(Compile, NoRankMakesTheGradientOfAWholeTiedTable) {
  planner::Job job = small_job(1, 4, 1, 2, 2);
  job.model = ir::models::defaults("t5");
  job.model->layers = 2, job.model->hidden = 16, job.model->heads = 4, job.model->seq = 8;
  job.model->vocab = 128, job.model->pad_vocab_to = 1;
  job.model = ir::models::complete(job.model);
  job.train.precision = ir::Precision::fp32;
  for (const bool sequence_parallel : {false, true}) {
    job.parallel.sequence_parallel = sequence_parallel;
    const ir::Plan plan = planner::compile(planner::resolve(job));
    int addends = 0;
    for (const ir::Register& reg : plan.programs[0].registers) {
      if (!reg.name.starts_with("embedding.word.grad.")) continue;
      EXPECT_EQ(reg.type.shape[0], 128 / 4) << reg.name;
      ++addends;
    }
    EXPECT_GE(addends, 3);
  }
}

TEST(Compile, TensorParallelismIsMegatrons) {
  const ir::Plan plan = plan_of(small_job(2, 2, 1, 1, 2));
  EXPECT_EQ(communication(plan, 0, "F0"),
            "embedding.lookup.all_reduce tp 256\n"
            "h0.attn.proj.all_reduce tp 256\n"
            "h0.mlp.fc2.all_reduce tp 256\n"
            "loss.max.all_reduce tp 32\n"
            "loss.sum_exp.all_reduce tp 32\n"
            "loss.pick.all_reduce tp 32\n");
  EXPECT_EQ(communication(plan, 0, "B0"),
            "ln_f.grad.all_reduce tp 256\n"
            "h0.ln2.grad.all_reduce tp 256\n"
            "h0.ln1.grad.all_reduce tp 256\n");
  EXPECT_EQ(communication(plan, 0, "U"), "grad_norm2.all_reduce tp 4\n");
}

// One collective for all norms of one layout: of matrices that tp splits, and of those that it does not.
TEST(Compile, NormsOfTrustRatiosGoTogether) {
  Job job = small_job(2, 2, 1, 1, 2);
  job.train.optimizer = ir::Optimizer::lamb;
  const std::string clip = "grad_norm2.all_reduce ";
  EXPECT_EQ(communication(plan_of(job), 0, "U"), clip + "tp 4\nnorms.all_reduce tp 40\n");
  job.parallel.zero = 3;
  EXPECT_EQ(communication(plan_of(job), 0, "U"),
            clip + "dp_tp 4\nnorms.all_reduce dp_tp 40\nnorms.all_reduce.2 dp 8\n");
}

TEST(Compile, StagesPullActivationsAndGradients) {
  const ir::Plan plan = plan_of(small_job(1, 1, 2, 2, 2));
  ASSERT_EQ(plan.programs.size(), 2u);
  EXPECT_EQ(communication(plan, 0, "F0"), "");
  EXPECT_EQ(communication(plan, 0, "B0"), "h0.residual2.grad.pull 256\n");
  EXPECT_EQ(communication(plan, 1, "F0"), "h0.residual2.pull 256\n");
  EXPECT_EQ(communication(plan, 1, "B0"), "");
  // Gradients of the tied embedding, and of the gradient norm.
  EXPECT_EQ(communication(plan, 0, "G"), "embedding.word.grad.sum.all_reduce stages0_1 4096\n");
  EXPECT_EQ(communication(plan, 1, "G"), "embedding.word.replica1.grad.sum.all_reduce stages0_1 4096\n");
  for (size_t p : {0u, 1u}) EXPECT_EQ(communication(plan, p, "U"), "grad_norm2.all_reduce pp 4\n");
}

TEST(Compile, WithScatterGatherEachRankSendsItsPart) {
  Job job = small_job(1, 2, 2, 2, 2);
  job.parallel.scatter_gather = true;
  const ir::Plan plan = plan_of(job);
  EXPECT_THAT(communication(plan, 1, "F0"),
              testing::HasSubstr("h0.residual2.pull 128\nh0.residual2.all_gather tp 256\n"));
  EXPECT_THAT(communication(plan, 0, "B0"),
              testing::HasSubstr("h0.residual2.grad.pull 128\nh0.residual2.grad.all_gather tp 256\n"));
  job.parallel.sequence_parallel = true;  // ranks hold parts anyway
  const ir::Plan split = plan_of(job);
  job.parallel.scatter_gather = false;
  EXPECT_EQ(ir::to_text(split), ir::to_text(plan_of(job)));
}

// Gradients of logits wait on the last stage: those of n micro-batches plus one, at most all.
TEST(Compile, ADeferredGradientOfTheHeadKeepsTheLogitsGradients) {
  Job job = small_job(1, 1, 2, 2, 4);
  const auto kept = [&](int micro_batches) {
    job.parallel.defer_head_grad = micro_batches;
    const ir::Plan plan = plan_of(job);
    EXPECT_EQ(plan.programs[0].phases.size(), 4u);  // the first stage has no head
    for (const ir::Register& reg : plan.programs[1].registers)
      if (reg.name == "head.grad") return reg.count;
    return 0;
  };
  EXPECT_EQ(kept(0), 1);
  EXPECT_EQ(kept(1), 2);
  EXPECT_EQ(kept(2), 3);
  EXPECT_EQ(kept(9), 4);
}

// An operand gathered for the forward pass stays for the backward pass where a framework keeps it.
TEST(Compile, GatheredOperandsMayStay) {
  Job job = small_job(1, 2, 1, 1, 1);
  job.parallel.sequence_parallel = true;
  EXPECT_THAT(communication(plan_of(job), 0, "B0"), testing::HasSubstr("h0.ln1.all_gather"));
  job.parallel.gathered_stay = true;
  const ir::Plan plan = plan_of(job);
  EXPECT_THAT(communication(plan, 0, "F0"), testing::HasSubstr("h0.ln1.all_gather tp 256\n"));
  EXPECT_THAT(communication(plan, 0, "B0"), testing::Not(testing::HasSubstr("h0.ln1.all_gather")));
}

TEST(Compile, SequenceParallelismScattersAndGathers) {
  Job job = small_job(1, 2, 1, 1, 1);
  job.parallel.sequence_parallel = true;
  const ir::Plan plan = plan_of(job);
  EXPECT_EQ(communication(plan, 0, "F0"),
            "embedding.lookup.reduce_scatter tp 256\n"
            "h0.ln1.all_gather tp 256\n"
            "h0.attn.proj.reduce_scatter tp 256\n"
            "h0.ln2.all_gather tp 256\n"
            "h0.mlp.fc2.reduce_scatter tp 256\n"
            "ln_f.all_gather tp 256\n"
            "loss.max.all_reduce tp 32\n"
            "loss.sum_exp.all_reduce tp 32\n"
            "loss.pick.all_reduce tp 32\n");
  // Gathered again rather than kept. Tensors between the products are partial in their parameters' gradients.
  EXPECT_THAT(communication(plan, 0, "B0"), testing::HasSubstr("h0.ln2.all_gather.2 tp 256\n"));
  EXPECT_THAT(communication(plan, 0, "G"), testing::HasSubstr("gradients.all_reduce tp"));
}

TEST(Compile, ContextParallelismMovesHeadsForTheAttention) {
  Job job = small_job(1, 1, 1, 1, 1);
  job.gpus = job.parallel.cp = 2;
  job.train.flash = true;
  const ir::Plan plan = plan_of(job);
  EXPECT_EQ(communication(plan, 0, "F0"),
            "h0.attn.heads.all_to_all cp 128\n"
            "h0.attn.heads.k.all_to_all cp 128\n"
            "h0.attn.heads.v.all_to_all cp 128\n"
            "h0.attn.merge.all_to_all cp 128\n");
}

// A decoder stage accumulates gradients of the encoder's output before that of its own input, which the
// previous stage reads first. On one queue each would wait for the other's turn.
TEST(Compile, PullsWhatIsReadInAnotherOrderBeside) {
  Job job = small_job(1, 1, 3, 6, 4);
  const auto beside = [&] {
    const ir::Plan plan = compile(resolve(job));
    planner::verify(plan);
    std::string pulled;
    for (const ir::Program& program : plan.programs)
      for (const ir::Actor& actor : program.actors)
        if (actor.kind == ir::ActorKind::pull && at(program.queues, actor.queue).name == "net.pp.backward.2")
          pulled += program.name + " " + actor.name + "\n";
    return pulled;
  };
  EXPECT_EQ(beside(), "");
  job.model->family = "t5";
  EXPECT_EQ(beside(), "stage1 encoder.ln_f.grad.partial3.pull\n");  // of keys and values of both layers
}

// Tokens go to their experts and back; each rank keeps half of the experts, whole.
TEST(Compile, ExpertParallelismExchangesTokens) {
  Job job = small_job(2, 1, 1, 1, 1);
  job.model->family = "llama", job.model->bias = job.model->tied = false, job.model->dropout = 0;
  job.model->experts = 4, job.model->top_k = 1, job.model->ffn = 32;
  job.parallel.ep = 2;
  const ir::Plan plan = plan_of(job);
  EXPECT_THAT(
      communication(plan, 0, "F0"),
      testing::MatchesRegex("h0.mlp.slots.all_to_all ep [0-9]+\nh0.mlp.by_sequence.all_to_all ep [0-9]+\n"));
  EXPECT_EQ(find_register(plan.programs[0], "h0.mlp.fc2.weight")->type.shape, (sbp::Shape{2, 32, 16}));
}

// Chunk 1 of stage 0 pulls from the last stage.
TEST(Compile, InterleavedStagesPullAroundTheEnd) {
  Job job = small_job(1, 1, 2, 4, 2);
  job.parallel.virtual_stages = 2;
  const ir::Plan plan = plan_of(job);
  EXPECT_EQ(communication(plan, 0, "F0"), "");
  EXPECT_EQ(communication(plan, 0, "F1"), "h1.residual2.pull 256\n");
  EXPECT_EQ(communication(plan, 0, "B0"), "h0.residual2.grad.pull 256\n");
  EXPECT_EQ(communication(plan, 1, "F0"), "h0.residual2.pull 256\n");
  EXPECT_EQ(communication(plan, 1, "F1"), "h2.residual2.pull 256\n");
}

TEST(Compile, AttributesSayHowTheyDifferBetweenRanks) {
  const ir::Plan plan = plan_of(small_job(1, 4, 1, 1, 1));
  for (const ir::Actor& actor : plan.programs[0].actors) {
    if (actor.name == "loss.pick") {
      EXPECT_EQ(ir::to_text(actor.attrs), "{below=0, offset=0, offset_step_tp=16}");
    }
  }
}

TEST(Compile, FactsCountTheModelsFlops) {
  Job job = small_job(2, 1, 1, 2, 2);
  job.train.recompute = ir::Recompute::full;
  const ResolvedJob resolved = resolve(job);
  const ir::Plan plan = compile(resolved);
  EXPECT_EQ(plan.facts.at("samples"), 4);
  EXPECT_EQ(plan.facts.at("tokens"), 32);
  EXPECT_NEAR(plan.facts.at("model_flops") / ir::models::model_flops(transformer_of(resolved->model), 4), 1,
              1e-12);
  EXPECT_GT(plan.facts.at("hardware_flops"), 1.2 * plan.facts.at("model_flops"));
}

// The casts that remain are copies read in another layout than the weights are kept in.
TEST(Compile, OneActUpdatesAllThatDecaysAlike) {
  const auto acts = [](const Job& job) {
    std::map<std::string, int> counts;
    const ir::Plan plan = plan_of(job);
    for (const ir::Actor& actor : plan.programs[0].actors)
      if (actor.phase == static_cast<int>(plan.programs[0].phases.size()) - 1) ++counts[actor.op];
    return counts;
  };
  for (const int dp : {1, 2}) {
    Job job = small_job(dp, 1, 1);
    job.parallel.zero = dp - 1;
    auto apart = acts(job);
    EXPECT_EQ(apart["adam"], 16);
    EXPECT_EQ(apart["cast"], 16);
    job.parallel.fused_optimizer = true;
    auto together = acts(job);
    EXPECT_EQ(together["adam"] + together["cast"], 0);
    EXPECT_EQ(together["adam_all"], 1);
    job.train.weight_decay = 0.1;
    EXPECT_EQ(acts(job)["adam_all"], 2);
  }
}

TEST(Compile, RatesAndCreditsFollowFromWhoReadsWhatWhen) {
  const ir::Plan plan = plan_of(small_job(1, 1, 2, 2, 4));
  const ir::Register* saved = find_register(plan.programs[0], "h0.ln1");
  ASSERT_NE(saved, nullptr);
  EXPECT_EQ(saved->count, 2);  // p - s micro-batches in flight on stage 0
  const ir::Register* half = find_register(plan.programs[0], "h0.attn.qkv.weight.half");
  EXPECT_EQ(half->count, 1);
  EXPECT_EQ(half->initial, 1);
  EXPECT_EQ(find_register(plan.programs[0], "h0.attn.qkv.weight.grad.sum")->every, 4);
  for (const ir::Actor& actor : plan.programs[0].actors)
    if (actor.name == "h0.attn.qkv") {
      EXPECT_EQ(actor.inputs[1].repeat, 4);
    }
}

// Reports count by stage, also where ranks of one run several programs; text keeps it.
TEST(Compile, ProgramsSayTheirStage) {
  const ir::Plan plan = ir::parse_plan(ir::to_text(compile(resolve(small_job(1, 2, 2)))));
  ASSERT_EQ(plan.programs.size(), 2u);
  EXPECT_EQ(plan.programs[0].stage, 0);
  EXPECT_EQ(plan.programs[1].stage, 1);
}

}  // namespace
}  // namespace boxcar::planner
