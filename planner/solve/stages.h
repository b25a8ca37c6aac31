// The cut of a chain of blocks into pipeline stages, and the devices of each stage.
//
//   4 blocks of 1 s each on one device, 2 devices, 3 micro-batches, no memory limit:
//   2 + 2 blocks: (3 - 1) x max(2, 2) + 2 + 2 = 8 s; 1 + 3: 2 x 3 + 1 + 3 = 10 s; one stage: 2 x 4 + 4 = 12 s
//
// The step takes (micro-batches - 1) x the slowest stage + the sum of stages, each with the time that it adds
// once per step. A stage's bytes depend on its position: from the last stage on, 1, 2, 3, ... micro-batches
// are in flight. Exact: dynamic programming from the last block backwards. A state (stages, first block,
// devices used) keeps the front of (slowest, sum), without points that cannot reach the target time. That
// grows from a lower bound until a plan is found.
#pragma once

#include <functional>
#include <vector>

namespace boxcar::search {

// One way to run some blocks as a stage on a mesh. Bytes are those of the device that holds the most.
struct StageOption {
  double seconds = 0;          // of a micro-batch, forward and backward
  double once = 0;             // seconds that it adds to the step for any number of micro-batches
  double bytes = 0;            // that stay
  double bytes_in_flight = 0;  // for each micro-batch in flight
};

struct StageProblem {
  int blocks = 0;
  int devices = 0;          // that may be used; some may stay idle
  std::vector<int> meshes;  // by mesh: its number of devices
  int micro_batches = 1;
  double memory = 0;    // of a device, bytes
  int most_stages = 0;  // 0: any number
  // The ways to run blocks [first, last) on a mesh; none if impossible. Called once for each.
  std::function<std::vector<StageOption>(int first, int last, int mesh)> options;
  // Micro-batches in flight on the stage with `after` stages after it; empty: min(after + 1, micro_batches).
  std::function<int(int after)> in_flight;
  // The step's time from the slowest stage and the sum, growing in both; empty: as above.
  std::function<double(double slowest, double sum)> step;
};

struct StagePlan {
  struct Stage {
    int first = 0, last = 0;  // blocks [first, last)
    int mesh = 0;
    StageOption option;
  };
  double seconds = 0;         // of the step
  std::vector<Stage> stages;  // none: nothing fits
};

// Optimal. Errors: input (no blocks or devices, a mesh without devices).
StagePlan cut_into_stages(const StageProblem& problem);

}  // namespace boxcar::search
