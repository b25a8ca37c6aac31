#include "actors/training/beginning.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "backends/host/files.h"
#include "backends/host/initial.h"
#include "backends/host/parts.h"
#include "backends/host/vocabulary.h"
#include "sbp/error.h"

namespace boxcar::training {

namespace host = backends::host;

host::GlobalTensors drawn(const planner::Places& places, const ir::models::Model& model, int64_t seed) {
  host::GlobalTensors tensors;
  for (const planner::Place& place : places.places) {
    if (!is_state(place) || place.holding == planner::Holding::moment || tensors.contains(place.tensor))
      continue;
    const ir::Shape& shape = place.type.shape;
    const ir::TensorType real{host::without_padding(place.tensor, shape, model), place.type.dtype};
    const host::InitialRule rule = host::initial_rule(place.tensor, model.layers(), real.shape);
    host::StoredTensor tensor = host::initial_tensor(place.tensor, real, rule, seed);
    tensors[place.tensor] = real.shape == shape ? std::move(tensor) : host::fitted(tensor, shape);
  }
  return tensors;
}

std::unique_ptr<host::HeldFolder> hold_folder(const TrainRun& run, bool writes, const KeyName& name) {
  const std::string& folder = run.checkpoint_dir;
  if (folder.empty()) return nullptr;
  const std::string key = name("run.checkpoint_dir");
  std::unique_ptr<host::HeldFolder> held;
  try {
    if (writes) held = std::make_unique<host::HeldFolder>(folder);
  } catch (const host::FileError& error) {
    throw Error::input(key, error.what());
  }
  if (!run.resume && host::has_checkpoint(folder))
    throw Error::input(
        key, fmt::format("{} has checkpoints already (go on with --resume, or use another folder)", folder));
  return held;
}

namespace {

// A checkpoint with another beginning belongs to another run.
void check_resumed(const host::TrainState& state, int64_t global_batch, const host::TrainState& expected,
                   const KeyName& name) {
  const auto same = [&](const char* key, const auto& ours, const auto& theirs, const char* mend = "") {
    if (ours != theirs)
      throw Error::input(name(key),
                         fmt::format("is {}, the checkpoint was begun with {}{}", ours, theirs, mend));
  };
  same("run.seed", expected.seed, state.seed);
  same("run.data", expected.data, state.data,
       " (give the same files, validate_every, validation_fraction and document_end)");
  same("run.resume", expected.settings, state.settings, " (give the same optimizer, precision and dropout)");
  if (state.step > 0) same("train.global_batch", global_batch, state.samples / state.step);
}
// Random values would be wrong in a table that is not trained.
void need_no_table(const ir::models::GraphModel& model, const KeyName& name) {
  for (const ir::models::GraphParameter& parameter : ir::models::parameters_of(model))
    if (!parameter.trained)
      throw Error::input(name("run.init_from"),
                         fmt::format("is missing; %{} is a table that is not trained", parameter.name));
}

// Adds adapters and running averages that a file lacks, as they begin. A file has all other weights.
host::GlobalTensors completed(host::GlobalTensors read, const TrainingJob& prepared, int64_t seed) {
  const auto lacks = [&](const planner::Place& place) {
    return is_state(place) && place.holding == planner::Holding::weight && !read.contains(place.tensor);
  };
  if (std::ranges::any_of(prepared.places.places, lacks))
    read.merge(drawn(prepared.places, prepared.model, seed));
  return read;
}

}  // namespace

Beginning beginning(const TrainRun& run, const TrainingJob& prepared, const std::string& data,
                    const std::string& settings, const KeyName& name) {
  const host::TrainState state{0, 0, run.seed, data, settings};
  if (run.resume) {
    if (auto found = host::read_checkpoint(run.checkpoint_dir, prepared.model)) {
      check_resumed(found->state, prepared.job->global_batch, state, name);
      return {std::move(found->state), completed(std::move(found->tensors), prepared, run.seed)};
    }
  }
  if (!run.init_from.empty())
    return {state, completed(host::read_weights(run.init_from, prepared.model), prepared, run.seed)};
  if (const ir::models::GraphModel* graph = prepared.model.graph()) need_no_table(*graph, name);
  return {state, drawn(prepared.places, prepared.model, run.seed)};
}

}  // namespace boxcar::training
