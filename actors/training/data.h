// Training data of a model, and the part held out for validation.
//
//   TrainRun run;
//   run.data = {"book.txt"}, run.validate_every = 100;
//   Data data = open_data(run, job.model);   // 95 % of the text as samples, 5 % held out
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/training/train_run.h"
#include "backends/host/data.h"
#include "backends/host/encoded_images.h"
#include "ir/models/model.h"

namespace boxcar::training {

// The name of a job's key in messages: its path, "run.data", or the place where a person wrote it.
using KeyName = std::function<std::string(const std::string& path)>;
inline std::string by_path(const std::string& path) { return path; }

// Samples for validation, always in the same order and not cropped or mirrored at random.
struct HeldOut {
  std::unique_ptr<backends::host::Samples> samples;
  int64_t count = 0;
};

struct Data {
  std::unique_ptr<backends::host::Samples> samples;
  std::string all, training;  // identities of the data
  std::optional<HeldOut> held_out = {};
  const backends::host::EncodedSamples* encoded = nullptr;  // `samples`, if acts of the plan prepare them
};

// `model` is that of the job, not padded. Throws Error (bad input) if files cannot be read, or if the
// held-out part or the rest has no sample.
Data open_data(const TrainRun& run, const ir::models::Model& model, const KeyName& name = by_path);

// Whether the data are encoded images, which a plan's own actors prepare (planner/input_pipeline.h).
bool has_encoded_images(const TrainRun& run);

}  // namespace boxcar::training
