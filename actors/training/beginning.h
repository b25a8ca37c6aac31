// The beginning of a run: a checkpoint, given weights, or drawn ones.
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

// Weights by position, so that every plan begins alike. Moments, which begin at zero, are left out.
backends::host::GlobalTensors drawn(const planner::Places& places, int64_t layers, int64_t seed);

// The folder that checkpoints are written to, made if missing; null where this process writes none. Throws
// Error (bad input) where it holds another run's.
std::unique_ptr<backends::host::HeldFolder> hold_folder(const TrainRun& run, bool writes,
                                                        const KeyName& name = by_path);

struct Beginning {
  backends::host::TrainState state;
  backends::host::GlobalTensors tensors;  // weights and moments
};

// `data`: Data::training. `settings`: all else that changes the numbers of every step, beside the data and
// the plan. A checkpoint with other settings is another run's and throws Error (bad input).
Beginning beginning(const TrainRun& run, const TrainingJob& prepared, const std::string& data,
                    const std::string& settings, const KeyName& name = by_path);

}  // namespace boxcar::training
