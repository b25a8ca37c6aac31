// Reports of a training run to its caller while it runs.
//
//   struct Losses : RunListener {
//     void step(const StepRecord& record) override { fmt::print("{} {:.4f}\n", record.step, record.loss); }
//   };
//
// Calls come from threads of the run, one at a time; `step`, `validation` and `checkpoint` only on the first
// process. An exception from a call ends the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/runtime.h"

namespace boxcar::training {

struct StepRecord {
  int64_t step = 0;  // from 1: steps done
  double loss = 0;   // mean over the global batch
  double learning_rate = 0;
  double seconds = 0;  // since the previous step ended
};

struct RunEnd {
  double wall_seconds = 0;
  int64_t skipped_steps = 0;  // fp16: the state did not change because gradients overflowed
  // By device, if the runtime watched it; else zeros.
  std::vector<actors::Runtime::Memory> memory = {};
};

class RunListener {
 public:
  virtual ~RunListener() = default;
  virtual void step(const StepRecord& record) = 0;
  virtual void validation(int64_t /*step*/, double /*loss*/) {}
  virtual void checkpoint(int64_t /*step*/, const std::string& /*path*/) {}
  virtual void end(const RunEnd& /*run*/) {}
};

}  // namespace boxcar::training
