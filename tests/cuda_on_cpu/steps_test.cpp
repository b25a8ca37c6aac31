// A training step's use of CUDA: all memory, marks, streams and graphs exist after the first step, copies
// wait for the host in neither direction, and the host waits for no act, even if acts are timed.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "actors/runtime.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_device.h"
#include "loading_plan.h"
#include "models.h"
#include "support/error_of.h"
#include "tally.h"
#include "trainer.h"

namespace boxcar::tests {
namespace {

using planner::Job;

struct StepsRow {
  TransformerRow plan;
  bool graphs = false, fast = false;
  const char* name = "";
};

const StepsRow rows[] = {
    {{"alone", "gpt", 0.1, 2, [](Job&) {}}, false, false, "plain"},
    {{"pp2", "gpt", 0.1, 4, [](Job& j) { j.parallel.pp = j.parallel.dp = 2; }}, false, false, "pp2_dp2"},
    {{"fast", "llama", 0, 2, [](Job& j) { j.parallel.tp = 2, j.train.flash = true; }}, false, true, "fast"},
    {{"graphs", "gpt", 0.1, 3, [](Job& j) { j.parallel.pp = 2, j.parallel.zero = 1; }},
     true,
     false,
     "graphs"},
    {{"graphs", "gpt", 0.1, 2, [](Job& j) { j.parallel.dp = 2; }}, true, true, "graphs_fast"},
};

class CudaSteps : public testing::TestWithParam<StepsRow> {};

TEST_P(CudaSteps, HaveAllWhenTheFirstHasEnded) {
  const StepsRow& row = GetParam();
  ir::TrainOptions options;
  options.optimizer = ir::Optimizer::adam;
  options.clip_norm = 0.5;
  const planner::LaidOut laid = planner::lay_out(job_of(row.plan, 12, options));
  const Start start = transformer_start(job_of(row.plan, 12, options));
  const auto on_gpus = [&](int devices) {
    return backends::cuda::make_cuda_backend(devices, {.share_gpus = true, .fast = row.fast});
  };
  const auto had = [] {
    std::map<std::string, int> counts;
    for (const char* what : {"memory", "pinned memory", "streams", "events", "graphs"})
      counts[what] = cuda_on_cpu::tallied(what);
    return counts;
  };
  const auto at_first = had();
  const int pageable = cuda_on_cpu::tallied("copies of pageable memory");
  std::vector<std::map<std::string, int>> by_step;
  Running running;
  running.graphs = row.graphs;
  running.chunk = 1;
  running.after_chunk = [&] { by_step.push_back(had()); };
  train(laid, start, 5, on_gpus, running);
  ASSERT_EQ(by_step.size(), 5);
  for (const auto& [what, count] : by_step[0]) {
    EXPECT_EQ(count > at_first.at(what), what != "graphs" || row.graphs) << what;
    for (size_t step = 1; step < 5; ++step)
      EXPECT_EQ(by_step[step][what], count) << what << " in step " << step;
  }
  EXPECT_EQ(cuda_on_cpu::tallied("copies of pageable memory"), pageable);
}
INSTANTIATE_TEST_SUITE_P(Plans, CudaSteps, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CudaStepsMemory, SaysWhereTheHostHasNoMore) {
  EXPECT_EQ(
      support::error_of([] { backends::cuda::PinnedMemory(int64_t{1} << 40); }, Exit::cannot_run),
      "cuda: the host has no 1099511627776 bytes for what GPUs copy from and to (free some of its memory, "
      "or use fewer devices here)");
  EXPECT_EQ(backends::cuda::PinnedMemory(3).data()[2], std::byte{0});
}

// Two queues, one of which loads ahead: a step's acts in order, each as long as its kernel reports.
TEST(CudaTimeline, IsOfTheDevicesClockAndWaitsForNoAct) {
  const ir::Plan plan = loading_plan(2, "  %z: float32[3] x1 gradients bytes 512 @2048\n",
                                     "  z relu(%y) -> %z on compute in U\n");
  const auto run = [&](bool timeline) {
    const auto backend = backends::cuda::make_cuda_backend(1, {});
    actors::Runtime runtime(plan, *backend, {}, {.timeline = timeline, .timeline_from = 3});
    const int before = cuda_on_cpu::tallied("waits for streams");
    runtime.steps(5, 0);
    EXPECT_EQ(cuda_on_cpu::tallied("waits for streams") - before, timeline ? 4 : 2);
    return runtime.timeline();
  };
  EXPECT_TRUE(run(false).empty());
  const std::vector<actors::RunAct> acts = run(true);
  ASSERT_EQ(acts.size(), 2 * (2 + 2 + 1));  // of the last two steps
  std::array<double, 3> end{};              // by queue: copies in are actor 0
  for (const actors::RunAct& act : acts) {
    double& last = end[act.actor == 0 ? 0 : 1];
    EXPECT_GE(act.start, last - 1e-9);
    last = act.end;
    const bool adds = act.actor == 1 && act.index % 2 == 1;  // by a kernel of its own
    const double kernels = act.actor == 0 ? 0 : adds ? 2 : 1;
    EXPECT_NEAR(act.end - act.start,
                1e-3 * kernels * (cuda_on_cpu::kernel_milliseconds + 64 * cuda_on_cpu::thread_milliseconds),
                1e-8);
  }
}

}  // namespace
}  // namespace boxcar::tests
