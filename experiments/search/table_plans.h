// Pipelines with times from tables of measured ops, as the tables' own planner calculates them; the best one.
//
// A stage is a range of ops on tp x dp devices; a convolution may have other degrees than the op before it,
// which costs an all-gather, forward or backward. A stage takes the sum of its ops, forward, backward and
// forward again if they are recomputed, and its input and output over a link; exchanges of gradients cost
// nothing. A step takes (micro-batches - 1) x the slowest stage + the sum of all. A device holds weights and
// their gradients and states, the activations of one micro-batch times those in flight, the most that is
// recomputed at once, and the allocator's reserve.
//
//   GPT 2.6B on 8 V100s, 1,024 samples, four stages of two devices, one sample in a micro-batch:
//   judge(...).seconds -> 111.01, the published value of that plan
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/search/op_tables.h"

namespace boxcar::measured {

// The ops of a whole model in order, as indices into a table's names.
struct Model {
  const OpTable* table = nullptr;
  std::vector<int> ops;
  double states = 0;  // MB of weights, gradients and optimizer by MB of weights: fp16 8, fp32 4
};
// "gpt": the ops between the first and the last two are one layer, which occurs `layers` times.
Model gpt(const OpTable& table, int layers);
Model resnet(const OpTable& table);

struct Stage {
  int first = 0, last = 0;  // ops [first, last)
  int devices = 1;
  std::vector<char> recomputed;  // by op: recomputed
  std::vector<int> tp, split;    // by op; dp is devices / tp; the kind of split
};

struct Plan {
  int samples = 0;  // of a micro-batch on a whole stage
  std::vector<Stage> stages;
};

struct Judged {
  double seconds = 0;          // of a step
  std::vector<double> memory;  // MB by stage
};

struct Task {
  Model model;
  int gpus = 0, node_gpus = 0;
  int global_batch = 0;
  double memory = 0;         // MB of a device
  std::vector<int> samples;  // measured numbers; micro-batches to look at
};

// Errors: input (an op that was not measured so; other degrees from one op to the next across nodes).
Judged judge(const Task& task, const Links& links, const Plan& plan);

// The best plan, by cut_into_stages: any cut between ops with small outputs, stages on 1, 2, 4, ... devices,
// for each the degrees, splits and recomputed ops that fit. Exact except for the choice of recomputed ops (by
// the memory that they free for their time), transfers between nodes (stages that fill nodes), and degrees
// that differ inside a stage (by prices of a MB). No stages if nothing fits.
Plan best(const Task& task, const Links& links);

std::string to_text(const Plan& plan);  // "4 samples; 157 ops on 2, tp 2, 12 again; 158 ops on 4, tp 1 to 4"

}  // namespace boxcar::measured
