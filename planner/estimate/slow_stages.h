// The stages that are on slow devices of a job's cluster.
//
//   dp 8, pp 4, devices 16 to 23 slow by 1.3: {1, 1, 1.3, 1}; in mesh_order "dp,pp,cp,tp"
//   {1.3, 1.3, 1.3, 1.3}
//
// A stage waits for its slowest device: tensor parallelism in every layer, data parallelism once per step.
#pragma once

#include <vector>

#include "planner/planner.h"

namespace boxcar::search {

// By stage, the factor of its slowest device on kernel times, at least 1.
std::vector<double> slowness_by_stage(const planner::Hints& hints, const backends::Cluster& cluster);

// The least factors that stages have in any order; the fastest first.
std::vector<double> least_slowness(const planner::Hints& hints, const backends::Cluster& cluster);

// Stage orders, except that of the hints, in which the slowest devices have the first stages, which keep most
// micro-batches, or the last ones, which have the head.
std::vector<std::vector<int>> slow_orders(const planner::Hints& hints, const backends::Cluster& cluster);

double slowest_device(const planner::Job& job);  // the largest factor of the job's devices

}  // namespace boxcar::search
