// Training graphs of jobs that differ in their hints, each made once.
//
//   Graphs graphs;
//   planner::LaidOut laid = graphs.lay_out(job, choose);  // planner::lay_out(job, choose), faster
//
// A training graph depends on samples, layers and stages, but not on the sharding of states, and mostly not
// on the number of devices that share an op. With 51,200 words, tp 1 and tp 8 have the same graph unless
// there are epilogues. The key of a graph is its inputs (planner/training_graph.h).
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "planner/laid_out.h"
#include "planner/training_graph.h"

namespace boxcar::search {

// Safe for use by several threads.
class Graphs {
 public:
  // Keeps the last `most` graphs.
  explicit Graphs(size_t most) : most_(most) {}

  planner::LaidOut lay_out(const planner::ResolvedJob& job, const planner::Choose& choose);
  // The job with deduced layouts, for planner::compile(laid, job). Jobs in a row that differ only in what
  // lowering reads share one, so `hints` in it may be an earlier job's.
  std::shared_ptr<const planner::LaidOut> deduced(const planner::ResolvedJob& job);
  int made() const;

 private:
  struct Known;
  std::shared_ptr<Known> of(planner::GraphInputs inputs);
  static const ir::Graph& training(Known& known);

  mutable std::mutex mutex_;
  std::list<std::shared_ptr<Known>> known_;  // the most recently used first
  size_t most_;
  int made_ = 0;
};

}  // namespace boxcar::search
