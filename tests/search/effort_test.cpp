// The effort of a search: the number of plans that it simulates, and its bound. More is never worse.
#include <gtest/gtest.h>

#include "backends/machines/device_profile.h"
#include "planner/resolve.h"
#include "planner/search/points.h"
#include "planner/search/search.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

struct Case {
  int gpus = 0;
  const char* cluster = nullptr;
  int64_t layers = 0, hidden = 0, seq = 0, global_batch = 0;
};
constexpr Case cases[] = {{2, "dgx-a100-80g", 4, 256, 512, 8},
                          {4, "p3-16xlarge", 6, 1024, 128, 16},
                          {8, "dgx-a100-80g", 2, 1024, 512, 16}};

Job job_of(const Case& one) {
  Job job = small_gpt(one.gpus);
  job.model->layers = one.layers, job.model->hidden = one.hidden, job.model->seq = one.seq;
  job.model->heads = job.model->kv_heads = 8;
  job.cluster = backends::load_cluster(one.cluster, one.gpus);
  job.global_batch = one.global_batch;
  return job;
}

TEST(SearchEffort, MoreIsNeverWorse) {
  int better = 0, spent = 0;
  for (const Case& one : cases) {
    const Job job = job_of(one);
    double last = infinity;
    const auto check = [&](const SearchOptions& options) {
      const Outcome found = search(job, options, oracle());
      ASSERT_FALSE(found.best.empty()) << one.gpus << " GPUs";
      EXPECT_LE(found.best.front().seconds, last * 1.001) << one.gpus << " GPUs, plans " << options.plans;
      if (options.plans > 0) {
        EXPECT_LE(found.best.size(), static_cast<size_t>(options.plans));
      }
      if (found.best.front().seconds < last && last < infinity) ++better;
      last = std::min(last, found.best.front().seconds);
      spent += found.spent ? 1 : 0;
      EXPECT_EQ(found.ended, !found.spent);
      EXPECT_TRUE(found.least) << found.unknown_least;
    };
    for (const int plans : {1, 3, 8, 20}) check({.plans = plans, .gap = 0});
    check({});
    check({.gap = 0});
  }
  EXPECT_GT(better, 1);
  EXPECT_GT(spent, 6);
}

// Nothing that was left out is faster.
TEST(SearchEffort, ClosesTheGapThatIsAskedFor) {
  double widest = 0;
  for (const Case& one : cases) {
    Job job = job_of(one);
    job.gpus = 4, job.global_batch = 8;
    backends::resize(job.cluster, 4);
    const auto gap_of = [](const Outcome& found) { return 1 - *found.least / found.best.front().seconds; };
    const Outcome plain = search(job, {.lay_out = 0, .simulate = 1}, oracle()),
                  near = search(job, {.lay_out = 0, .simulate = 1, .gap = 0.05}, oracle()),
                  all = search(job, {.lay_out = 0, .simulate = 1, .gap = 0}, oracle());
    widest = std::max(widest, gap_of(plain));
    EXPECT_LE(gap_of(near), 0.05);
    EXPECT_LE(gap_of(all), 0);
    EXPECT_LE(near.compiled, all.compiled);
    const double best = all.best.front().seconds;
    EXPECT_LE(best, plain.best.front().seconds);
    each_point(job, {}, [&](const Job& hints) {
      const Job point = planner::resolve(hints);
      EXPECT_GE(sim::simulate(planner::compile(planner::resolve(point)), point.cluster).step_seconds,
                best * (1 - 1e-6));
      return true;
    });
  }
  EXPECT_GT(widest, 0.05);
}

}  // namespace
}  // namespace boxcar::search
