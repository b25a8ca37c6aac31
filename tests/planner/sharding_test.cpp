// Sharded states (ZeRO) as layouts: Figure 14 of the paper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/verify.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

ir::Plan plan_of(int zero, int micro_batches, ir::Precision precision = ir::Precision::fp16) {
  Job job = small_job(2, 1, 1, 1, micro_batches);
  job.parallel.zero = zero;
  job.train.precision = precision;
  return compile(resolve(job));
}

std::string type_of(const ir::Plan& plan, const std::string& name) {
  const ir::Register* reg = find_register(plan.programs[0], name);
  return reg ? ir::to_text(reg->type) : "none";
}

// Master weight and moments S(0); the half copy S(0), gathered to B after the update; gradients P to S once.
TEST(Sharding, Zero1SplitsWhatTheUpdateTouches) {
  const ir::Plan plan = plan_of(1, 2);
  const std::string w = "h0.attn.qkv.weight";
  EXPECT_EQ(type_of(plan, w), "float32[8, 48]");
  EXPECT_EQ(type_of(plan, w + ".m"), "float32[8, 48]");
  EXPECT_EQ(type_of(plan, w + ".v"), "float32[8, 48]");
  EXPECT_EQ(type_of(plan, w + ".half.shard"), "float16[8, 48]");
  EXPECT_EQ(type_of(plan, w + ".half"), "float16[16, 48]");
  EXPECT_EQ(type_of(plan, w + ".grad.sum"), "float32[16, 48]");
  EXPECT_EQ(type_of(plan, w + ".grad.sum.reduce_scatter"), "float32[8, 48]");
  EXPECT_EQ(communication(plan, 0, "F0") + communication(plan, 0, "B0"), "");
  const int parameters =
      64 * 16 + 8 * 16 + 16 * 48 + 48 + 16 * 16 + 16 + 16 * 64 + 64 + 64 * 16 + 16 + 6 * 16;
  EXPECT_EQ(communication(plan, 0, "G"), fmt::format("gradients.reduce_scatter dp {}\n", 4 * parameters));
  EXPECT_EQ(communication(plan, 0, "U"),
            fmt::format("grad_norm2.all_reduce dp 4\nparameters.all_gather dp {}\n", 2 * parameters));
}

TEST(Sharding, Zero2ReducesEveryMicroBatchByLayer) {
  const ir::Plan plan = plan_of(2, 2);
  EXPECT_EQ(type_of(plan, "h0.attn.qkv.weight.grad.sum"), "float32[8, 48]");
  EXPECT_EQ(communication(plan, 0, "B0"),
            "gradients.reduce_scatter dp 128\n"       // final norm
            "gradients.reduce_scatter.2 dp 13120\n"   // the layer
            "gradients.reduce_scatter.3 dp 4608\n");  // embeddings
  EXPECT_EQ(type_of(plan, "h0.attn.qkv.weight.half.grad"), "float16[16, 48]");
  EXPECT_EQ(type_of(plan, "h0.attn.qkv.weight.half.grad.float"), "float32[16, 48]");
  EXPECT_EQ(type_of(plan, "h0.attn.qkv.weight.half.grad.float.reduce_scatter"), "float32[8, 48]");
  EXPECT_EQ(communication(plan, 0, "G"), "");
}

// At every level of sharding, gradients are reduced in the requested type, or in that of their sums, and the
// update reads the reduced ones.
TEST(Sharding, GradientsAreReducedInOneTypeAtEveryLevel) {
  using ir::Gradients;
  const auto half_of = [](Reduction reduction, Gradients sums, bool table) {
    if (reduction != Reduction::sums) return reduction == Reduction::half;
    return sums == Gradients::half || (sums == Gradients::half_but_tables && !table);
  };
  for (const Reduction reduction : {Reduction::sums, Reduction::float32, Reduction::half})
    for (const Gradients sums : {Gradients::float32, Gradients::half, Gradients::half_but_tables})
      for (const ir::Precision precision : {ir::Precision::fp16, ir::Precision::bf16, ir::Precision::fp32})
        for (const int micro_batches : {1, 2})
          for (const int zero : {0, 1, 2, 3}) {
            Job job = small_job(4, 1, 1, 1, micro_batches);
            job.model->tied = false;
            job.parallel.zero = zero, job.parallel.grad_reduction = reduction;
            job.train.gradients = sums, job.train.precision = precision;
            const ir::Plan plan = compile(resolve(job));
            verify(plan);
            const ir::Program& program = plan.programs[0];
            int reduced = 0;
            for (const ir::Actor& actor : program.actors) {
              if (!actor.name.starts_with("gradients.")) continue;
              for (const ir::Input& input : actor.inputs) {
                const ir::Register& reg = at(program.registers, input.reg);
                if (reg.type.dtype == ir::DType::int8) continue;  // signals that another register is whole
                const bool half = ir::is_mixed(precision) &&
                                  half_of(reduction, sums, reg.name.starts_with("embedding.word"));
                EXPECT_EQ(ir::size_of(reg.type.dtype), half ? 2 : 4) << reg.name << " zero " << zero;
                ++reduced;
              }
            }
            EXPECT_GE(reduced, 16) << zero;
          }
}

// No cast where nothing is reduced, or where the type already matches.
TEST(Sharding, GradientsAreCastForAReductionAlone) {
  const auto casts = [](int dp, int zero, Reduction reduction, ir::Gradients sums) {
    Job job = small_job(dp, 2, 1, 1, 2);
    job.parallel.zero = zero, job.parallel.grad_reduction = reduction, job.train.gradients = sums;
    const ir::Plan plan = compile(resolve(job));
    int count = 0;
    for (const ir::Actor& actor : plan.programs[0].actors)
      if (actor.op == "cast" &&
          (actor.name.ends_with(".half.grad.float") || actor.name.find(".grad.sum.") != std::string::npos))
        ++count;
    return count;
  };
  using ir::Gradients;
  const std::pair<int, int> often[] = {{2, 2}, {2, 3}}, once[] = {{2, 0}, {2, 1}};
  for (const int zero : {0, 1, 2, 3})
    for (const Reduction reduction : {Reduction::sums, Reduction::float32, Reduction::half})
      EXPECT_EQ(casts(1, zero, reduction, Gradients::float32), 0);
  for (const auto& [dp, zero] : often) {
    EXPECT_GT(casts(dp, zero, Reduction::sums, Gradients::float32), 10);
    EXPECT_GT(casts(dp, zero, Reduction::float32, Gradients::half), 10);
    EXPECT_EQ(casts(dp, zero, Reduction::half, Gradients::float32), 0);
    EXPECT_EQ(casts(dp, zero, Reduction::sums, Gradients::half), 0);
  }
  for (const auto& [dp, zero] : once) {
    EXPECT_EQ(casts(dp, zero, Reduction::sums, Gradients::float32), 0);
    EXPECT_EQ(casts(dp, zero, Reduction::float32, Gradients::float32), 0);
    EXPECT_GT(casts(dp, zero, Reduction::half, Gradients::float32), 10);
    EXPECT_GT(casts(dp, zero, Reduction::float32, Gradients::half), 10);
  }
}

// Nothing is accumulated then: a layer's gradients are split as they come, and two layers' are whole at once.
TEST(Sharding, Zero2OfOneMicroBatchInFloat32KeepsNoWholeGradients) {
  const auto gradients = [](int zero, int layers, bool overlap) {
    Job job = small_job(4, 1, 1, layers);
    job.model->hidden = 256;
    job.train.precision = ir::Precision::fp32;
    job.parallel.zero = zero, job.parallel.overlap_grad = overlap;
    const ir::Plan plan = compile(resolve(job));
    verify(plan);
    return at(memory_use(plan)[0].by_kind, ir::MemoryKind::gradients);
  };
  const int64_t layer = 12 * 256 * 256 * 4;  // bytes, biases and norms aside
  for (bool overlap : {true, false}) {
    EXPECT_GT(gradients(1, 8, overlap), 8 * layer);
    for (int zero : {2, 3}) {
      EXPECT_LT(gradients(zero, 8, overlap), 8 * layer / 4 + 4 * layer);
      EXPECT_NEAR(static_cast<double>(gradients(zero, 16, overlap) - gradients(zero, 8, overlap)),
                  8 * layer / 4.0, 0.02 * 8 * layer);
    }
  }
}

TEST(Sharding, Zero3GathersEachLayerBeforeUseOneLayerAhead) {
  const ir::Plan plan = plan_of(3, 2);
  EXPECT_EQ(type_of(plan, "h0.attn.qkv.weight.half"), "float16[8, 48]");
  EXPECT_EQ(communication(plan, 0, "F0"),
            "embedding.parameters.all_gather dp 2304\n"
            "h0.parameters.all_gather dp 6560\n"
            "h1.parameters.all_gather dp 2112\n");
  const ir::Program& p = plan.programs[0];
  for (const ir::Actor& actor : p.actors) {
    if (actor.name != "h1.parameters.all_gather") continue;
    const ir::Register& last = at(p.registers, actor.inputs.back().reg);
    EXPECT_EQ(last.bytes, 0);
    EXPECT_EQ(at(p.actors, last.producer).name, "h0.ln1");
  }
}

TEST(Sharding, Float32ParametersAreGatheredOncePerStep) {
  const ir::Plan plan = plan_of(1, 1, ir::Precision::fp32);
  EXPECT_EQ(type_of(plan, "h0.attn.qkv.weight"), "float32[8, 48]");
  EXPECT_EQ(type_of(plan, "h0.attn.qkv.weight.whole"), "float32[16, 48]");
  EXPECT_EQ(communication(plan, 0, "F0") + communication(plan, 0, "B0"), "");
}

// 16 rows over 3: parts of 6, 5 and 5, so at least two kinds of ranks act jointly.
TEST(Sharding, UnevenShardsMakeClassesOfRanks) {
  Job job = small_job(3, 1, 1, 1, 1);
  job.parallel.zero = 1;
  const ir::Plan plan = compile(resolve(job));
  ASSERT_GT(plan.programs.size(), 1u);
  int64_t rows = 0;
  for (const ir::RankClass& cls : plan.classes)
    rows += static_cast<int64_t>(cls.devices.size()) *
            find_register(at(plan.programs, cls.program), "h0.attn.proj.weight")->type.shape[0];
  EXPECT_EQ(rows, 16);
}

TEST(Sharding, ASmallerGroupKeepsCopiesBetweenGroups) {
  Job job = small_job(4, 1, 1, 1, 2);
  job.parallel.zero = 3, job.parallel.fsdp_group = 2;
  const ir::Plan plan = compile(resolve(job));
  EXPECT_EQ(find_register(plan.programs[0], "h0.attn.qkv.weight")->type.shape, (sbp::Shape{8, 48}));
  EXPECT_THAT(communication(plan, 0, "F0"), testing::HasSubstr("h0.parameters.all_gather dp 6560\n"));
  EXPECT_THAT(communication(plan, 0, "G"), testing::HasSubstr("gradients.all_reduce replica"));
}

}  // namespace
}  // namespace boxcar::planner
