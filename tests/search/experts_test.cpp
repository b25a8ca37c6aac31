// Experts that ranks of tensor parallelism share, or that each rank has some of.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "planner/resolve.h"
#include "planner/search/points.h"
#include "search/jobs.h"
#include "sim/simulate.h"

namespace boxcar::search {
namespace {

using planner::Job;

Job with_experts() {
  Job job = small_gpt(4);
  job.model->experts = 4;
  return job;
}

TEST(ExpertPoints, HaveWholeExpertsOnRanksOfTensorParallelismIfEtpHasARange) {
  const auto degrees = [&](const Fixed& fixed) {
    std::map<int, std::set<int>> found;  // of ep, by etp
    each_point(with_experts(), fixed, [&](const Job& point) {
      const planner::Hints h = planner::resolve(point)->parallel;
      if (h.tp == 2) found[h.etp].insert(h.ep);
      return true;
    });
    return found;
  };
  EXPECT_EQ(degrees({}), (std::map<int, std::set<int>>{{0, {1, 2}}}));
  EXPECT_EQ(degrees({{}, {{"etp", {1, 4}}}}), (std::map<int, std::set<int>>{{0, {1, 2}}, {1, {2, 4}}}));
}

TEST(ExpertPoints, AreEstimatedNearTheirSimulation) {
  Job job = with_experts();
  job.parallel.tp = 2, job.parallel.etp = 1;
  int points = 0;
  each_plan(job, {"tp", "etp", "micro_batch", "virtual_stages", "recompute"},
            [&](const Job& point, const ir::Plan& plan) {
              const Estimate e = estimated(point);
              const double seconds = sim::simulate(plan, point.cluster).step_seconds;
              EXPECT_NEAR(e.seconds / seconds, 1, 0.15) << "ep " << point.parallel.ep;
              EXPECT_NEAR(e.bytes / static_cast<double>(peak_of(plan)), 1, 0.4) << "ep " << point.parallel.ep;
              ++points;
            });
  EXPECT_GT(points, 4);
}

}  // namespace
}  // namespace boxcar::search
