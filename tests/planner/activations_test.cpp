// Activations that a plan keeps per layer, compared with the formula of published work: per s x b x h, in
// bytes, 10 + 24 / t with only tensor parallelism and 34 / t with sequence parallelism (Korthikanti et al.
// 2022, arXiv:2205.05198), less two dropout masks of one byte each, which are drawn again instead.
#include <gtest/gtest.h>

#include "backends/machines/framework.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sim/simulate.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

constexpr double hidden = 2048, heads = 16, seq = 512;

int64_t activations(Job job, int layers) {
  job.model->layers = layers;
  const ir::Plan plan = compile(resolve(job));
  verify(plan);
  return at(memory_use(plan)[0].by_kind, ir::MemoryKind::activations);
}

// In units of s x b x h bytes.
double per_layer(const Job& job) {
  const double unit = seq * job.parallel.micro_batch * hidden;
  return static_cast<double>(activations(job, 4) - activations(job, 2)) / 2 / unit;
}

Job wide_job(int tp, bool sequence_parallel) {
  Job job = small_job(1, tp, 1);
  job.model->hidden = static_cast<int64_t>(hidden), job.model->heads = static_cast<int64_t>(heads);
  job.model->seq = static_cast<int64_t>(seq), job.model->vocab = 1024;
  job.parallel.micro_batch = 4;
  job.global_batch = 4;
  job.parallel.sequence_parallel = sequence_parallel;
  return job;
}

// A first stage of two has two micro-batches in flight, or all four.
TEST(Activations, ForwardPassesLeaveWhatTheScheduleKeepsInFlight) {
  const auto kept = [](Schedule schedule, int pp, int micro_batches) {
    Job job = small_job(1, 1, pp, 2, micro_batches);
    job.model->dropout = 0;
    job.parallel.schedule = schedule;
    return memory_use(compile(resolve(job)))[0].kept_activations;
  };
  const int64_t one = kept(Schedule::one_f_one_b, 2, 1);
  EXPECT_GT(one, 0);
  EXPECT_EQ(kept(Schedule::one_f_one_b, 2, 4), 2 * one);
  EXPECT_EQ(kept(Schedule::gpipe, 2, 4), 4 * one);
  EXPECT_EQ(kept(Schedule::one_f_one_b, 1, 4), kept(Schedule::one_f_one_b, 1, 1));
}

// The second of two stages: under 1F1B it has one micro-batch in flight. Under zb-h1 one more waits for its
// weight gradients, which need less than its whole backward pass.
TEST(Activations, ASplitBackwardPassKeepsWhatGradientsOfWeightsRead) {
  const auto kept = [](Schedule schedule, int micro_batches) {
    Job job = small_job(1, 1, 2, 2, micro_batches);
    job.model->dropout = 0;
    job.parallel.schedule = schedule;
    return memory_use(compile(resolve(job)))[1].kept_activations;
  };
  const int64_t one = kept(Schedule::one_f_one_b, 4);
  EXPECT_GT(kept(Schedule::zb_h1, 1), one);  // a backward pass leaves more to W than it frees
  EXPECT_GT(kept(Schedule::zb_h1, 4), kept(Schedule::zb_h1, 1));
  EXPECT_LT(kept(Schedule::zb_h1, 4), 2 * kept(Schedule::zb_h1, 1));
  EXPECT_GT(kept(Schedule::zb_h2, 4), kept(Schedule::zb_h1, 4));
}

// States are allocated once and do not fragment.
TEST(Activations, AnAllocatorHoldsAShareOfWhatComesAndGoesInVain) {
  Job job = small_job(1, 1, 1);
  const MemoryUse exact = memory_use(compile(resolve(job)))[0];
  job.cluster.framework->fragmentation = 0.5;
  const MemoryUse held = memory_use(compile(resolve(job)))[0];
  const auto of = [](const MemoryUse& use, ir::MemoryKind kind) { return at(use.by_kind, kind); };
  int64_t moving = exact.total;
  for (const auto kind : {ir::MemoryKind::parameters, ir::MemoryKind::gradients, ir::MemoryKind::optimizer}) {
    EXPECT_EQ(of(held, kind), of(exact, kind));
    moving -= of(exact, kind);
  }
  EXPECT_GT(moving, 0);
  EXPECT_EQ(held.total - exact.total, moving / 2);
  EXPECT_EQ(of(held, ir::MemoryKind::workspace) - of(exact, ir::MemoryKind::workspace), moving / 2);
}

// The chunks of a stage have most micro-batches in flight at different times. An arena has room for each
// one's most; an allocator gives bytes for what there is, as the simulation counts them.
TEST(Activations, AnAllocatorGivesBytesForWhatThereIsAtOnce) {
  const auto compare = [](int chunks, int zero, ir::Recompute recompute, int micro_batches) {
    Job job = wide_job(1, false);
    job.model->layers = 8, job.gpus = 4, job.parallel.pp = job.parallel.dp = 2,
    job.global_batch = 8 * micro_batches;
    job.parallel.virtual_stages = chunks, job.parallel.zero = zero, job.train.recompute = recompute;
    const auto arena = static_cast<double>(memory_use(compile(resolve(job)))[0].total);
    for (const bool stay : {false, true}) {
      job.cluster.framework->allocator = backends::CachingAllocator{.gradients_stay = stay};
      const ir::Plan plan = compile(resolve(job));
      const auto given = static_cast<double>(memory_use(plan)[0].total);
      EXPECT_LT(given / arena, chunks == 1 ? 1.0 : 0.98);
      backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 4);
      cluster.framework->allocator = job.cluster.framework->allocator;
      const sim::Result result = sim::simulate(plan, cluster);
      EXPECT_NEAR(given / static_cast<double>(result.classes[0].peak_bytes), 1, 0.06) << stay;
    }
  };
  for (const int chunks : {1, 4})
    for (const int zero : {0, 1})
      for (const ir::Recompute recompute : {ir::Recompute::none, ir::Recompute::full}) {
        SCOPED_TRACE(
            fmt::format("{} chunks, ZeRO {}, recompute {}", chunks, zero, static_cast<int>(recompute)));
        compare(chunks, zero, recompute, 8);
        if (chunks == 1 && recompute == ir::Recompute::none) compare(chunks, zero, recompute, 1);
      }
}

TEST(Activations, ALayerKeepsWhatTheFormulaSays) {
  for (int tp : {2, 4, 8})
    for (bool sequence_parallel : {false, true})
      for (bool overlap : {false, true}) {
        Job job = wide_job(tp, sequence_parallel);
        job.parallel.overlap_tp = overlap;
        const double linear = sequence_parallel ? 32.0 / tp : 8 + 24.0 / tp;
        job.train.recompute = ir::Recompute::selective;
        EXPECT_NEAR(per_layer(job), linear, linear * 0.02) << tp << sequence_parallel << overlap;
        // Attention probabilities before and after dropout, two bytes each.
        job.train.recompute = ir::Recompute::none;
        const double whole = linear + 4 * heads * seq / hidden / tp;
        EXPECT_NEAR(per_layer(job), whole, whole * 0.02) << tp << sequence_parallel << overlap;
      }
}

// Between layers, one tensor of 2 bytes.
TEST(Activations, FullRecomputationKeepsALayersInput) {
  for (int tp : {2, 8})
    for (bool sequence_parallel : {false, true}) {
      Job job = wide_job(tp, sequence_parallel);
      job.train.recompute = ir::Recompute::full;
      const double input = sequence_parallel ? 2.0 / tp : 2;
      EXPECT_NEAR(per_layer(job), input, input * 0.02);
    }
}

// Each stage changes by its own number of layers only. On the last stage, with one micro-batch in flight, the
// first recomputed layer needs as much as it frees.
TEST(Activations, AStageNeedsLessMemoryAndMoreTimeWithEveryLayerThatComputesAgain) {
  struct Needs {
    std::vector<int64_t> bytes;
    double seconds = 0;
  };
  const auto needs = [](const std::vector<int>& counts, ir::Recompute others) {
    Job job = wide_job(1, false);
    job.model->layers = 6, job.gpus = job.parallel.pp = 2, job.global_batch = 16;
    job.train.recompute = ir::Recompute::full;
    job.train.recompute_layers = counts, job.train.recompute_others = others;
    const ir::Plan plan = compile(resolve(job));
    Needs needs;
    for (const MemoryUse& use : memory_use(plan)) needs.bytes.push_back(use.total);
    needs.seconds = sim::simulate(plan, backends::load_cluster("dgx-a100-80g", 2)).step_seconds;
    return needs;
  };
  for (const ir::Recompute others : {ir::Recompute::none, ir::Recompute::selective})
    for (const size_t stage : {0, 1}) {
      std::vector<int> counts{1, 1};
      counts[stage] = static_cast<int>(stage);
      Needs before = needs(counts, others);
      while (++counts[stage] <= 3) {
        const Needs now = needs(counts, others);
        EXPECT_LT(now.bytes[stage], before.bytes[stage]) << stage << " " << counts[stage];
        EXPECT_EQ(now.bytes[1 - stage], before.bytes[1 - stage]) << stage << " " << counts[stage];
        EXPECT_GT(now.seconds, before.seconds) << stage << " " << counts[stage];
        before = now;
      }
    }
}

// All activations are split along the sequence; attention does not keep its exchanged copies.
TEST(Activations, ContextParallelismKeepsItsPart) {
  for (int cp : {2, 4}) {
    Job job = wide_job(1, false);
    job.gpus = job.parallel.cp = cp;
    job.train.flash = true;
    EXPECT_NEAR(per_layer(job), 34.0 / cp, 34.0 / cp * 0.02);
  }
}

// Queries, keys, values and the result change between heads and sequence once forward, their gradients once
// backward. The exchanged tensor is kept, since it is no larger.
TEST(Activations, ContextParallelismExchangesATensorOnce) {
  const auto exchanged = [](int layers) {  // bytes of a device
    Job job = small_job(1, 1, 1, layers);
    job.gpus = job.parallel.cp = 4;
    job.train.flash = true;
    int64_t bytes = 0;
    const ir::Plan plan = compile(resolve(job));
    for (const ir::Actor& actor : plan.programs[0].actors)
      if (actor.collective == sbp::Collective::all_to_all) bytes += actor.comm_bytes;
    return bytes;
  };
  const int64_t tensor = 8 / 4 * 16 * 2;  // sequence, hidden, float16
  EXPECT_EQ(exchanged(3) - exchanged(2), 8 * tensor);
}

}  // namespace
}  // namespace boxcar::planner
