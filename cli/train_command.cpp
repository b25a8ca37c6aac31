#include "cli/train_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "backends/cpu/cpu_backend.h"
#include "backends/host/initial.h"
#include "cli/arguments.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/trainer.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

namespace host = backends::host;

// What training sets where nobody said: this machine, numbers as they are.
GivenKeys with_defaults(GivenKeys given) {
  const auto otherwise = [&](const char* path, const char* text) {
    given.try_emplace(path, Given{text, path});
  };
  otherwise("cluster.preset", "local");
  otherwise("train.precision", "fp32");
  otherwise("train.learning_rate", "0.001");
  if (!given.contains("cluster.gpus") && !given.contains("parallel.dp")) otherwise("parallel.dp", "1");
  return given;
}

std::string where(const GivenKeys& given, const std::string& path) {
  const auto found = given.find(path);
  return found == given.end() ? path : found->second.where;
}

void check(const TrainRun& run, const GivenKeys& given) {
  if (run.data.empty())
    throw Error::input(where(given, "run.data"),
                       "missing; give text or .bin files in the job file or as --data");
  const auto needs_folder = [&](const char* key) {
    if (run.checkpoint_dir.empty() && given.contains(std::string("run.") + key))
      throw Error::input(where(given, std::string("run.") + key), "needs checkpoint_dir");
  };
  needs_folder("checkpoint_every");
  needs_folder("keep_checkpoints");
  needs_folder("resume");
  if (run.warmup_steps >= run.steps && run.warmup_steps > 0)
    throw Error::input(where(given, "run.warmup_steps"),
                       fmt::format("{} of {} steps (leave some for training)", run.warmup_steps, run.steps));
}

// What the run begins with: a checkpoint, given weights, or drawn ones.
host::Checkpoint beginning(const planner::Job& job, const TrainRun& run, const planner::Places& places,
                           const GivenKeys& given) {
  const std::string data = fmt::format("{}", fmt::join(run.data, ","));
  host::Checkpoint begin{job.model, {0, 0, run.seed, data}, {}};
  if (run.resume) {
    if (auto found = host::read_checkpoint(run.checkpoint_dir, job.model)) {
      if (found->state.seed != run.seed)
        throw Error::input(where(given, "run.seed"),
                           fmt::format("{}, the checkpoint was begun with {}", run.seed, found->state.seed));
      if (found->state.samples != found->state.step * job.global_batch)
        throw Error::input(where(given, "train.global_batch"),
                           fmt::format("{}, the checkpoint was begun with {}", job.global_batch,
                                       found->state.samples / std::max<int64_t>(found->state.step, 1)));
      if (found->state.data != data)
        throw Error::input(where(given, "run.data"),
                           fmt::format("{}, the checkpoint was begun with {}", data, found->state.data));
      return *std::move(found);
    }
  }
  if (!run.init_from.empty()) {
    begin.tensors = host::from_hugging_face(job.model, host::read_safetensors(run.init_from));
    return begin;
  }
  begin.tensors = host::initial_weights(job.model, run.seed);
  (void)places;
  return begin;
}

struct TrainArguments {
  JobArguments job;
  bool json = false;
};

int run(const TrainArguments& arguments) {
  const GivenKeys given = with_defaults(arguments.job.given());
  Resolved resolved = resolve(given);
  const TrainRun& options = resolved.request.run;
  planner::Job& job = resolved.request.job;
  check(options, given);
  const host::TokenData all = host::TokenData::open(options.data, job.model.vocab);
  std::optional<host::TokenData> held_out;
  if (options.validate_every > 0) held_out = all.tail(options.validation_fraction);
  const host::TokenData training = held_out ? all.head(options.validation_fraction) : all;

  const TrainingJob prepared = prepare_training(job, 1);
  const auto backend = backends::cpu::make_cpu_backend(prepared.plan.devices);
  Trainer trainer(prepared, options, *backend, training, held_out ? &*held_out : nullptr);
  host::Checkpoint begin = beginning(job, options, prepared.places, given);

  TrainLog::Setup setup;
  setup.json = arguments.json;
  setup.steps = options.steps, setup.log_every = options.log_every;
  setup.samples_per_step = job.global_batch, setup.tokens_per_step = job.global_batch * job.model.seq;
  for (const Key& key : keys()) setup.configuration[key.path()] = get(key, resolved.request);
  setup.parameters = ir::models::parameters(job.model);
  setup.devices = prepared.plan.devices;
  setup.arena_bytes.resize(static_cast<size_t>(setup.devices));
  for (const ir::RankClass& cls : prepared.plan.classes)
    for (int device : cls.devices)
      setup.arena_bytes[static_cast<size_t>(device)] =
          prepared.plan.programs[static_cast<size_t>(cls.program)].arena_bytes;
  TrainLog log(setup);
  log.start();
  if (begin.state.step > 0) log.resumed(begin.state.step, options.checkpoint_dir);
  trainer.begin(std::move(begin.tensors), begin.state);
  trainer.train(log);
  return 0;
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("train", "train a model for real");
  auto arguments = std::make_shared<TrainArguments>();
  arguments->job.add_to(*command, true);
  command->add_flag("--json", arguments->json, "print one JSON document per line");
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace boxcar::cli
