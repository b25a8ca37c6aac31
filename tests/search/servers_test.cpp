// Parameter servers in a search: the points that they leave, and their memory.
#include <gtest/gtest.h>

#include <tuple>

#include "backends/machines/cluster.h"
#include "planner/estimate/step_estimate.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "planner/search/points.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

// Servers that only add up hand sums back to registers of their own.
TEST(Search, EstimatesOfServersAreNearThePlans) {
  for (const bool update : {true, false}) {
    Job job = small_gpt(8);
    job.model->hidden = 2048, job.model->seq = 512, job.model->heads = 16;
    job.model = ir::models::complete(job.model);
    job.cluster = backends::load_cluster("dgx-1-v100-32g", 8);
    job.parallel.servers = 2, job.parallel.servers_update = update;
    const planner::ResolvedJob resolved = planner::resolve(job);
    const double plan = static_cast<double>(peak_of(planner::compile(resolved)));
    EXPECT_NEAR(estimated(resolved).bytes / plan, 1, 0.1) << update;
  }
}

TEST(Search, ServersLeaveDataParallelismAlone) {
  Job job = small_gpt(8);
  job.parallel.servers = 2;
  int points = 0;
  each_point(job, {}, [&](const Job& point) {
    const planner::Hints& h = point.parallel;
    EXPECT_EQ(std::tuple(h.dp, h.tp, h.pp, h.cp, h.zero), std::tuple(8, 1, 1, 1, 0));
    return ++points, true;
  });
  EXPECT_GT(points, 1);
}

// Layouts of their own would leave servers shares of parts.
TEST(Search, ServersKeepLayoutsByDegrees) {
  Job job = small_gpt(4);
  job.parallel.servers = 2;
  const Outcome found = search(job, {.lay_out = 4}, oracle());
  ASSERT_FALSE(found.best.empty());
  for (const Candidate& candidate : found.best) EXPECT_FALSE(candidate.layouts.has_value());
}

}  // namespace
}  // namespace boxcar::search
