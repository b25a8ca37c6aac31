// Training graphs of jobs that differ in their hints, each made once.
//
//   Graphs graphs;
//   planner::LaidOut laid = graphs.lay_out(job, choose);  // planner::lay_out(job, choose), sooner
//
// A training graph knows samples, layers and stages, but neither how many devices share an op nor how states
// are sharded: with 51,200 words, tp 1 and tp 8 have the same one.
#pragma once

#include <list>
#include <vector>

#include "planner/laid_out.h"

namespace boxcar::search {

// Not thread-safe.
class Graphs {
 public:
  // Keeps the last `most` graphs.
  explicit Graphs(size_t most) : most_(most) {}

  // `job` is resolved.
  planner::LaidOut lay_out(const planner::Job& job, const planner::Choose& choose);
  int made() const { return made_; }

 private:
  struct Known {
    ir::models::Transformer model;  // as it is built
    ir::TrainOptions options;
    int64_t batch = 0;
    int stages = 0;
    std::vector<int> stage_layers;
    ir::Graph graph = {};
    std::vector<planner::Replica> replicas = {};
    bool is_for(const Known& other) const;
  };

  const Known& of(const planner::Job& job);

  std::list<Known> known_;  // the last used first
  size_t most_;
  int made_ = 0;
};

}  // namespace boxcar::search
