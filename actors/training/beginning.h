// The beginning of a run: a checkpoint, given weights, or random ones.
//
//   std::unique_ptr<HeldFolder> folder = hold_folder(run, true);   // on the first process
//   Beginning begin = beginning(run, prepared, data.training, "optimizer adam, precision fp32");
#pragma once

#include <memory>
#include <string>

#include "actors/training/data.h"
#include "actors/training/trainer.h"
#include "backends/host/checkpoint.h"

namespace boxcar::training {

// Random weights by position, so that every plan begins with the same. Moments, which begin at zero, are left
// out.
backends::host::GlobalTensors drawn(const planner::Places& places, const ir::models::Model& model,
                                    int64_t seed);

// The folder for checkpoints, made if missing; null if this process writes none. Throws Error (bad input) if
// it holds another run's.
std::unique_ptr<backends::host::HeldFolder> hold_folder(const TrainRun& run, bool writes,
                                                        const KeyName& name = by_path);

struct Beginning {
  backends::host::TrainState state;
  backends::host::GlobalTensors tensors;  // weights and moments
};

// `data`: Data::training. `settings`: everything else that changes the numbers of every step, besides the
// data and the plan. A checkpoint with other settings belongs to another run and throws Error (bad input).
Beginning beginning(const TrainRun& run, const TrainingJob& prepared, const std::string& data,
                    const std::string& settings, const KeyName& name = by_path);

}  // namespace boxcar::training
