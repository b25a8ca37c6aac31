// Refinement around the best estimate: a search with fewer open choices finds nothing better.
#include "planner/search/refine.h"

#include <gtest/gtest.h>

#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

// Fewer given keys leave more to find; times are compared to 1 %, since estimates decide what is tried.
void expect_no_better(const Job& job, const SearchOptions& options, Job pinned,
                      const std::set<std::string>& keys) {
  SearchOptions more = options;
  more.pinned.insert(keys.begin(), keys.end());
  const Outcome free = search(job, options, oracle()), with = search(pinned, more, oracle());
  ASSERT_FALSE(free.best.empty() || with.best.empty());
  if (options.goal == Goal::memory)
    EXPECT_LE(free.best.front().peak_bytes, with.best.front().peak_bytes);
  else
    EXPECT_LE(free.best.front().seconds, with.best.front().seconds * 1.005);
}

TEST(Search, FindsTheLeastMemoryOfAnyDegrees) {
  Job job = small_gpt(8);
  job.model->layers = 2, job.model->experts = 4, job.global_batch = 8;
  Job pinned = job;
  pinned.parallel.cp = 2;
  expect_no_better(job, {.goal = Goal::memory}, pinned, {"cp"});
}

// One sample for two whole nodes: heads or positions are split over both.
TEST(Search, SplitsSamplesWhereTheyAreFew) {
  Job job = small_gpt(16);
  job.global_batch = 1;
  job.model->hidden = 4096, job.model->heads = 64, job.model->seq = 4096;
  const Outcome free = search(job, {}, oracle());
  const planner::Hints& h = free.best.front().job.parallel;
  EXPECT_GT(h.cp * h.tp, 8);
  for (const int cp : {2, 4}) {
    Job pinned = job;
    pinned.parallel.cp = cp;
    expect_no_better(job, {}, pinned, {"cp"});
  }
}

TEST(Search, TakesMicroBatchesOfAnySize) {
  Job job = small_gpt(8);
  job.model->hidden = 256, job.model->heads = job.model->kv_heads = 4, job.model->seq = 64,
  job.global_batch = 2048;
  EXPECT_GT(search(job, {}, oracle()).best.front().job.parallel.micro_batch, 64);
}

// One micro-batch, and gradients reduced after its backward pass: the first stage, whose gradients come last,
// is shorter.
TEST(Search, MovesLayersBetweenStages) {
  Job job = small_gpt(64);
  job.model->layers = 16, job.model->seq = 2048, job.model->vocab = 51200, job.global_batch = 32;
  job.parallel.dp = 32, job.parallel.pp = 2;
  Job pinned = job;
  pinned.parallel.stage_layers = {6, 10};
  expect_no_better(job, {.pinned = {"dp", "pp"}}, pinned, {"stage_layers"});
}

// Large embedding tables and few samples over slow links: layouts let a pipeline win that ranks low under the
// hints, with another schedule and other micro-batches.
TEST(Search, LaysOutWhatLayoutsCouldLetWin) {
  Job job = small_gpt(0);
  job.model->layers = 2, job.model->hidden = 768, job.model->heads = job.model->kv_heads = 12;
  job.model->seq = 128, job.model->vocab = 32000, job.model->ffn = 3072;
  job.cluster = backends::load_cluster("p3-16xlarge", 32);
  job.gpus = 32, job.global_batch = 64;
  job.train.precision = ir::Precision::fp32;
  Job pinned = job;
  pinned.parallel.dp = 8, pinned.parallel.tp = pinned.parallel.pp = 2;
  expect_no_better(job, {}, pinned, {"dp", "tp", "pp"});
}

// Groups of experts are best with the hints' layouts; found layouts prefer whole experts whose weights are
// split over devices.
TEST(Search, LaysOutWithExpertsInOtherGroups) {
  Job job = small_gpt(0);
  job.model = ir::models::defaults("llama");
  job.model->layers = 2, job.model->hidden = 8192, job.model->heads = 128, job.model->seq = 64;
  job.model->vocab = 32000, job.model->experts = 8;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("dgx-h100", 64);
  job.gpus = job.global_batch = 64;
  job.parallel.dp = job.parallel.tp = 8, job.parallel.pp = 1, job.parallel.micro_batch = 8;
  const std::set<std::string> keys{"dp", "tp", "pp", "micro_batch"};
  Job pinned = job;
  pinned.parallel.zero = 1;
  expect_no_better(job, {.pinned = keys}, pinned, {"ep", "zero"});
}

// With few samples and slow links between nodes, the layouts of all degrees are far from the best ones, and
// so are estimates with them.
TEST(Search, LaysOutMeshesOfSeveralDimensions) {
  Job job = small_gpt(0);
  job.model->layers = 12, job.model->hidden = 2048, job.model->heads = job.model->kv_heads = 32;
  job.model->vocab = 32000, job.model->ffn = 8192;
  job.cluster = backends::load_cluster("p3-16xlarge", 16);
  job.gpus = 16, job.global_batch = 8;
  job.train.precision = ir::Precision::fp16;
  Job pinned = job;
  pinned.parallel.dp = 8, pinned.parallel.tp = 2, pinned.parallel.pp = 1;
  expect_no_better(job, {}, pinned, {"dp", "tp", "pp"});
}

// The best order of stages by estimate is not best with split backward passes.
TEST(Search, TriesOtherStagesOnSlowDevices) {
  Job job = small_gpt(0);
  job.model->layers = 24, job.model->hidden = 2048, job.model->seq = 1024, job.model->vocab = 51200;
  job.model->ffn = job.model->kv_heads = 0;
  job.model = ir::models::complete(job.model);
  job.cluster = backends::load_cluster("p3-16xlarge", 32);
  job.gpus = 32, job.global_batch = 128;
  job.train.precision = ir::Precision::fp16;
  for (int device = 16; device < 24; ++device) job.cluster.slowdown[device] = 1.3;
  job.parallel.dp = 8, job.parallel.tp = 1, job.parallel.pp = 4, job.parallel.micro_batch = 1;
  Job pinned = job;
  pinned.parallel.stage_order = {0, 1, 2, 3};
  expect_no_better(job, {.pinned = {"dp", "tp", "pp", "micro_batch"}}, pinned, {"stage_order"});
}

}  // namespace
}  // namespace boxcar::search
