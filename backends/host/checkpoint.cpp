#include "backends/host/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "backends/host/files.h"
#include "backends/host/json_file.h"
#include "backends/host/model_keys.h"
#include "backends/host/vocabulary.h"
#include "ir/ops/batch_statistics.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

namespace fs = std::filesystem;
using ir::models::Model;
using ir::models::Transformer;
using Json = nlohmann::ordered_json;

constexpr int64_t kSchemaVersion = 1;
constexpr const char *kModel = "model.safetensors", *kOptimizer = "optimizer.safetensors",
                     *kConfig = "config.json", *kState = "state.json", *kLatest = "latest", *kLock = "lock";
// Older checkpoints have the padding of weights beside the moments. It counts for nothing.
constexpr std::string_view kPadded = ".padded";

std::string step_name(int64_t step) { return fmt::format("step-{:06}", step); }

// The number of "step-000020", -1 for another name.
int64_t step_number(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  int64_t step = -1;
  if (!name.starts_with(prefix)) return -1;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, step);
  return error == std::errc() && rest == end && step_name(step) == name ? step : -1;
}

// --- writing

// Calls body(weight, tensor) on the vocabulary's weights and their moments.
template <class Body>
void for_vocabulary(const Model& model, GlobalTensors& tensors, Body body) {
  for (const auto& [weight, type] : parameter_types(model))
    for (auto& [name, tensor] : tensors)
      if (is_vocabulary(weight) && (name == weight || name.starts_with(weight + ".")) &&
          tensor.type.shape.size() == type.shape.size())
        body(weight, tensor);
}

// Tensors for model.safetensors, and those beside it, without padding.
std::pair<GlobalTensors, GlobalTensors> weights_and_moments(const Checkpoint& checkpoint) {
  const std::map<std::string, ir::TensorType> parameters = parameter_types(checkpoint.model);
  GlobalTensors weights, moments;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const bool weight = parameters.count(name) != 0 || ir::is_running_average(name);
    (weight ? weights : moments).emplace(name, tensor);
  }
  for_vocabulary(checkpoint.model, moments, [&](const std::string& weight, StoredTensor& moment) {
    const ir::Shape real = without_padding(weight, moment.type.shape, checkpoint.model);
    if (real != moment.type.shape) moment = fitted(moment, real);
  });
  return {std::move(weights), std::move(moments)};
}

std::string state_text(const Checkpoint& checkpoint) {
  const TrainState& state = checkpoint.state;
  const Json json = {{"schema_version", kSchemaVersion},
                     {"step", state.step},
                     {"samples", state.samples},
                     {"seed", state.seed},
                     {"data", state.data},
                     {"settings", state.settings},
                     {"model", identity(checkpoint.model)}};
  return json.dump(2) + "\n";
}

// Removes folders of steps older than the last `keep`, of which `step` is one.
void remove_older(const std::string& folder, int64_t step, int keep) {
  std::vector<int64_t> older;
  for (const std::string& name : names_in(folder))
    if (step_number(name) >= 0 && step_number(name) < step) older.push_back(step_number(name));
  std::sort(older.rbegin(), older.rend());
  for (size_t i = static_cast<size_t>(keep) - 1; i < older.size(); ++i)
    remove_folder(folder + "/" + step_name(older[i]));
}

}  // namespace

HeldFolder::HeldFolder(const std::string& folder) : path_(folder) { hold(); }

// If the file system has no locks, nobody is kept out.
void HeldFolder::hold() {
  make_folder(path_);
  const std::string lock = path_ + "/" + kLock;
  const int file = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) throw FileError(path_, "be written", errno);
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    char who[256];
    const ssize_t n = pread(file, who, sizeof who, 0);
    close(file);
    throw Error::input(
        path_, fmt::format("{} writes its checkpoints there (wait until it ends, or use another folder)",
                           n > 0 ? std::string_view(who, static_cast<size_t>(n)) : "another run"));
  }
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = file;
  char host[128] = {};
  gethostname(host, sizeof host - 1);
  const std::string me = fmt::format("process {} on {}", getpid(), host);
  if (ftruncate(file, 0) != 0 || pwrite(file, me.data(), me.size(), 0) < 0)
    return;  // only the text is lost: a full disk is reported where it matters
}

void HeldFolder::keep() {
  struct stat held {
  }, there{};
  const bool same = fstat(descriptor_, &held) == 0 && stat((path_ + "/" + kLock).c_str(), &there) == 0 &&
                    held.st_dev == there.st_dev && held.st_ino == there.st_ino;
  if (!same) hold();
}

HeldFolder::~HeldFolder() { close(descriptor_); }

bool has_checkpoint(const std::string& folder) {
  std::error_code none;
  return fs::exists(folder + "/" + kLatest, none);
}

void write_checkpoint(const std::string& folder, const Checkpoint& checkpoint, int keep) {
  const auto [weights, moments] = weights_and_moments(checkpoint);
  make_folder(folder);
  for (const std::string& name : names_in(folder))
    if (name.starts_with("step-") && name.ends_with(".tmp")) remove_folder(folder + "/" + name);

  const std::string name = step_name(checkpoint.state.step), whole = folder + "/" + name,
                    part = whole + ".tmp";
  make_folder(part);
  const Transformer* transformer = checkpoint.model.transformer();
  write_safetensors(part + "/" + kModel,
                    transformer ? to_hugging_face(*transformer, weights) : StoredFile{weights, {}});
  write_safetensors(part + "/" + kOptimizer, {moments, {}});
  if (transformer) write_whole(part + "/" + kConfig, {bytes_of(hugging_face_config(*transformer))});
  write_whole(part + "/" + kState, {bytes_of(state_text(checkpoint))});
  put_folder_in_place(part, whole);
  write_whole(folder + "/" + kLatest, {bytes_of(name + "\n")});
  if (keep > 0) remove_older(folder, checkpoint.state.step, keep);
}

// --- reading

namespace {

// Moments too, with the vocabulary's padding as the model has it now.
GlobalTensors with_moments(const Model& model, GlobalTensors tensors, const StoredFile& optimizer) {
  for (const auto& [name, tensor] : optimizer.tensors)
    if (!name.ends_with(kPadded)) tensors[name] = tensor;
  if (!model.transformer()) return tensors;
  const std::map<std::string, ir::TensorType> parameters = parameter_types(model);
  for_vocabulary(model, tensors, [&](const std::string& weight, StoredTensor& tensor) {
    ir::Shape padded = parameters.at(weight).shape;
    for (size_t axis = 0; axis < padded.size(); ++axis)
      if (tensor.type.shape[axis] == 1) padded[axis] = 1;  // of a factored moment
    const ir::Shape real = without_padding(weight, padded, model);
    if (padded != real || tensor.type.shape != real) tensor = fitted(fitted(tensor, real), padded);
  });
  return tensors;
}

// Throws if a link leads out of the folder, which could make a reader read other files of its own.
const std::string& inside(const std::string& folder, const std::string& path) {
  std::error_code none;
  const fs::path whole = fs::weakly_canonical(folder, none), at = fs::weakly_canonical(path, none);
  if (std::mismatch(whole.begin(), whole.end(), at.begin(), at.end()).first != whole.end())
    throw Error::input(path, fmt::format("is a link to {}, which is not in {} (put a copy in its place)",
                                         at.string(), folder));
  return path;
}

TrainState read_state(const JsonObject& file) {
  const int64_t version = file.whole("schema_version", 1);
  if (version != kSchemaVersion) file.refuse("schema_version", fmt::format("{}", kSchemaVersion));
  return {file.whole("step", 0), file.whole("samples", 0), file.whole("seed", INT64_MIN), file.text("data"),
          file.text("settings")};
}

// A tensor for each parameter, by its name, and any running averages.
GlobalTensors by_our_names(const Model& model, StoredFile file) {
  std::map<std::string, ir::TensorType> known = parameter_types(model);
  for (const auto& entry : known)
    if (!file.tensors.contains(entry.first))
      throw Error::input("", fmt::format("has no tensor {}, a parameter of the model", entry.first));
  known.merge(running_average_types(model));
  for (const auto& [name, tensor] : file.tensors) {
    const auto found = known.find(name);
    if (found == known.end())
      throw Error::input("", fmt::format("has a tensor {}, which is no parameter of the model", name));
    const ir::TensorType &got = tensor.type, &type = found->second;
    if (got.shape != type.shape || !ir::is_float(got.dtype))
      throw Error::input("", fmt::format("{} is {}, expected {}", name, ir::to_text(got), ir::to_text(type)));
  }
  return std::move(file.tensors);
}

bool has_adapters(const StoredFile& file) {
  return std::ranges::any_of(file.tensors,
                             [](const auto& entry) { return entry.first.ends_with(".lora_a.weight"); });
}

}  // namespace

GlobalTensors read_weights(const std::string& path, const Model& model) {
  StoredFile file = read_safetensors(path);
  try {
    const ir::models::Transformer* transformer = model.transformer();
    if (transformer && transformer->lora_rank > 0 && !has_adapters(file))
      return from_hugging_face(ir::models::without_adapters(*transformer), file);
    return model.transformer() ? from_hugging_face(*model.transformer(), file)
                               : by_our_names(model, std::move(file));
  } catch (const Error& error) {
    throw Error::input(path, error.what());
  }
}

std::optional<Checkpoint> read_checkpoint(const std::string& folder, const Model& expected) {
  if (!has_checkpoint(folder)) return std::nullopt;
  const std::string latest = folder + "/" + kLatest;
  std::string name = read_text(inside(folder, latest));
  if (name.ends_with('\n')) name.pop_back();
  if (step_number(name) < 0)
    throw Error::input(latest, fmt::format("names '{}', expected a checkpoint such as step-000020", name));

  const std::string path = folder + "/" + name;
  const JsonObject state = JsonObject::read(inside(folder, path + "/" + kState));
  const Model model = ir::models::complete(expected);
  const std::string different = different_identity(state.object("model"), model);
  if (!different.empty())
    throw Error::input(path, fmt::format("is of another model: {} (use the model's own settings, or another "
                                         "folder)",
                                         different));
  Checkpoint checkpoint{model, read_state(state), {}};
  checkpoint.tensors = with_moments(model, read_weights(inside(folder, path + "/" + kModel), model),
                                    read_safetensors(inside(folder, path + "/" + kOptimizer)));
  return checkpoint;
}

}  // namespace boxcar::backends::host
