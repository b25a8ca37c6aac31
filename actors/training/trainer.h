// Trains a job: runs its plan on a backend, with data in, and losses and checkpoints out.
//
//   Trainer trainer(job, run, backend, data, nullptr);
//   trainer.begin(std::move(checkpoint.tensors), checkpoint.state, options);
//   trainer.train(listener);
//
// All processes of a run make the same calls; results (lines, checkpoints) come from process 0. Checkpoints
// are written by actors of the plan (planner/checkpoints.h), the last one after all steps.
#pragma once

#include <memory>

#include "actors/runtime.h"
#include "actors/training/data.h"
#include "actors/training/run_listener.h"
#include "actors/training/train_run.h"
#include "backends/backend.h"
#include "backends/host/checkpoint.h"
#include "backends/host/data.h"
#include "ir/plan.h"
#include "planner/laid_out.h"
#include "planner/places.h"
#include "planner/planner.h"

namespace boxcar::training {

// A compiled and verified job.
struct TrainingJob {
  planner::ResolvedJob job;
  ir::models::Model model;  // the plan's
  ir::Plan plan;
  planner::Places places;
};
// Compiles, verifies, and refuses (Error, cannot run) plans that do not fit into this machine's memory. A
// `share` of the devices use that memory; 0 if devices have their own.
TrainingJob prepare_training(const planner::ResolvedJob& job, const TrainRun& run, double share);
// The same for an existing plan, compiled from `laid`.
TrainingJob prepare_training(const planner::ResolvedJob& job, ir::Plan plan, const planner::LaidOut& laid,
                             const TrainRun& run, double share);

class Trainer {
 public:
  // All arguments outlive the trainer. `folder` (of checkpoints) may be null if there are none, and on
  // processes other than the first.
  Trainer(const TrainingJob& job, const TrainRun& run, backends::Backend& backend, const Data& data,
          backends::host::HeldFolder* folder);
  ~Trainer();

  // Sets the first weights, and moments, which begin at zero if they are missing. Throws Error (bad input)
  // naming a weight that is missing, or a tensor with a different shape.
  void begin(backends::host::GlobalTensors tensors, const backends::host::TrainState& state,
             const actors::RunOptions& options);
  // Throws Error (fault) if a thread or another process fails, or a loss is not finite.
  void train(RunListener& listener);
  // The last checkpoint that this run wrote or began with, if it still exists; empty: none, or this is not
  // the first process.
  std::string last_checkpoint();

  // Called once, by all processes, after train(). Acts of all devices on process 0, which waits for those of
  // the others; none elsewhere. Seconds are since process 0 began, by the clocks of the machines.
  std::vector<actors::RunAct> timeline();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boxcar::training
