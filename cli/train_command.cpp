#include "cli/train_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/host/files.h"
#include "backends/host/images.h"
#include "backends/host/initial.h"
#include "backends/mpi/mpi_transport.h"
#include "cli/arguments.h"
#include "cli/as_error.h"
#include "cli/catalog.h"
#include "cli/collector.h"
#include "cli/job.h"
#include "cli/layout_labels.h"
#include "cli/output.h"
#include "cli/parts.h"
#include "cli/plan_file.h"
#include "cli/same_run.h"
#include "cli/trainer.h"
#include "ir/models/conv_net.h"
#include "sbp/error.h"
#include "sim/trace.h"

namespace boxcar::cli {
namespace {

namespace host = backends::host;

// What training sets where nobody said: this machine, numbers as they are.
const std::map<std::string, std::string> defaults{{"cluster.preset", "local"},
                                                  {"train.precision", "fp32"},
                                                  {"train.learning_rate", "0.001"},
                                                  {"model.pad_vocab", "1"}};

bool is_of_images(const GivenKeys& given) {
  const auto family = given.find("model.family");
  return family != given.end() && ir::models::is_conv_net(family_named(family->second.text));
}

// Data here is text, or images of one label each, and no backend has kernels in 8 bits.
void refuse_what_is_simulated_alone(const GivenKeys& given) {
  if (const auto family = given.find("model.family");
      family != given.end() && family_named(family->second.text).ends_with("unet"))
    throw Error::input(family->second.where,
                       "a U-Net is simulated, not trained (data are images of a label each)");
  for (const char* key : {"run.checkpoint_dir", "run.validate_every", "run.init_from"})
    if (const auto found = given.find(key); is_of_images(given) && found != given.end())
      throw Error::input(found->second.where, "is for models of text (leave it out)");
  if (const auto family = given.find("model.family");
      family != given.end() && family_named(family->second.text) == "t5")
    throw Error::input(family->second.where,
                       "an encoder with a decoder is simulated, not trained (data is one text)");
  if (const auto masked = given.find("model.masked"); masked != given.end() && masked->second.text != "0")
    throw Error::input(masked->second.where, "pre-training heads are simulated, not trained (leave it out)");
  if (const auto type = given.find("train.precision"); type != given.end() && type->second.text == "fp8")
    throw Error::input(type->second.where, "fp8 is simulated, not trained (use bf16)");
}

GivenKeys with_defaults(GivenKeys given) {
  for (const auto& [path, text] : defaults)
    if (!path.starts_with("model.") || !is_of_images(given)) given.try_emplace(path, Given{text, path});
  if (!given.contains("cluster.gpus")) given.try_emplace("parallel.dp", Given{"1", "parallel.dp"});
  return given;
}

std::string where(const GivenKeys& given, const std::string& path) {
  const auto found = given.find(path);
  return found == given.end() ? path : found->second.where;
}

void check(const TrainRun& run, const GivenKeys& given) {
  if (run.data.empty())
    throw Error::input(where(given, "run.data"),
                       "missing; give text or .bin files in the job file or as --data, or --data random");
  const TrainRun otherwise;
  if (run.backend != "cuda")
    for (const auto& [path, asked] :
         {std::pair("run.cuda_graph", run.cuda_graph),
          {"run.fast", run.fast},
          {"run.algorithms", !run.algorithms.empty()},
          {"run.share_gpus", run.share_gpus},
          {"run.collective_timeout", run.collective_timeout != otherwise.collective_timeout}})
      if (asked) throw Error::input(where(given, path), "needs backend cuda");
  if (!run.algorithms.empty() && !run.fast) throw Error::input(where(given, "run.algorithms"), "needs fast");
  const auto needs_folder = [&](const char* key) {
    if (run.checkpoint_dir.empty() && given.contains(std::string("run.") + key))
      throw Error::input(where(given, std::string("run.") + key), "needs checkpoint_dir");
  };
  for (const char* key : {"run.validation_fraction", "run.validation_batches"})
    if (run.validate_every == 0 && given.contains(key))
      throw Error::input(where(given, key), "needs validate_every");
  needs_folder("checkpoint_every");
  needs_folder("keep_checkpoints");
  needs_folder("resume");
  if (run.warmup_steps >= run.steps && run.warmup_steps > 0)
    throw Error::input(where(given, "run.warmup_steps"),
                       fmt::format("{} of {} steps (leave some for training)", run.warmup_steps, run.steps));
}

// Both parts of the data, or all of it where nothing is held out, are a sequence or more.
void check_lengths(const host::TokenData& all, const std::optional<host::TokenData>& held_out, int64_t seq,
                   const GivenKeys& given) {
  const host::Sampler long_enough(all, seq, 0);
  if (!held_out) return;
  const auto check = [&](const char* does, int64_t tokens, const char* larger) {
    if (tokens <= seq)
      throw Error::input(
          where(given, "run.validation_fraction"),
          fmt::format("{} {} of {} tokens, expected at least seq + 1 = {} (use a {} one, more text or "
                      "a shorter seq)",
                      does, tokens, all.size(), seq + 1, larger));
  };
  check("holds back", held_out->size(), "larger");
  check("leaves", all.size() - held_out->size(), "smaller");
}

// What is trained on.
struct Data {
  std::unique_ptr<host::Samples> samples;
  std::optional<host::TokenData> held_out;
  std::string all, training;  // what data that is
};

Data open_data(const TrainRun& run, const planner::Job& job, const GivenKeys& given) {
  const ir::models::Transformer& model = job.model;
  const bool random = run.data == std::vector<std::string>{"random"};
  Data data;
  if (ir::models::is_conv_net(model.family)) {
    const auto images = random ? host::ImageData::random(model.image, model.vocab, run.seed)
                               : host::ImageData::open(run.data, model.image, model.vocab);
    data.samples = std::make_unique<host::ImageSamples>(images, run.seed);
    data.all = data.training = images.identity();
    return data;
  }
  const auto all =
      random ? host::TokenData::random(model.vocab, run.seed) : host::TokenData::open(run.data, model.vocab);
  if (run.validate_every > 0) data.held_out = all.tail(run.validation_fraction);
  check_lengths(all, data.held_out, model.seq, given);
  const host::TokenData training = data.held_out ? all.head(run.validation_fraction) : all;
  data.samples = std::make_unique<host::TextSamples>(training, model.seq, run.seed);
  data.all = all.identity(), data.training = training.identity();
  return data;
}

// The folder that the first process writes checkpoints to, made where it is not; null for the others.
std::unique_ptr<host::HeldFolder> hold_folder(const TrainRun& run, const GivenKeys& given) {
  const std::string& folder = run.checkpoint_dir;
  if (folder.empty()) return nullptr;
  const std::string key = where(given, "run.checkpoint_dir");
  std::unique_ptr<host::HeldFolder> held;
  try {
    if (backends::started_process() == 0) held = std::make_unique<host::HeldFolder>(folder);
  } catch (const host::FileError& error) {
    throw Error::input(key, error.what());
  }
  if (!run.resume && host::has_checkpoint(folder))
    throw Error::input(
        key, fmt::format("{} has checkpoints already (go on with --resume, or use another folder)", folder));
  return held;
}

// The sizes of the model whose weights are given, as Hugging Face's config.json beside them has them, where
// nobody said otherwise.
GivenKeys with_model(GivenKeys given) {
  const auto from = given.find("run.init_from");
  if (from == given.end()) return given;
  const auto config = std::filesystem::path(from->second.text).parent_path() / "config.json";
  Request request;
  request.job.model = host::read_hugging_face_config(config.string());
  const auto family = given.find("model.family");
  if (family != given.end() && family->second.text != request.job.model.family)
    throw Error::input(family->second.where,
                       fmt::format("is {}, {} has {} (leave it out)", family->second.text, config.string(),
                                   request.job.model.family));
  for (const Key& key : keys())
    if (key.section == "model" && key.is_of(request.job.model.family))
      given.try_emplace(key.path(), Given{get(key, request), config.string() + ": " + key.name});
  return given;
}

// Drawn by position, so that every plan begins alike.
host::GlobalTensors drawn(const planner::Places& places, int64_t layers, int64_t seed) {
  host::GlobalTensors tensors;
  for (const planner::Place& place : places.places) {
    if (!is_state(place) || tensors.contains(place.tensor)) continue;
    host::StoredTensor& tensor = tensors[place.tensor];
    tensor = {place.type, std::vector<std::byte>(static_cast<size_t>(place.type.bytes()))};
    const host::InitialRule rule = host::initial_rule(place.tensor, layers, place.type.shape);
    if (rule.mean == 0 && rule.deviation == 0) continue;
    std::vector<double> values(static_cast<size_t>(place.type.elements()));
    std::vector<sbp::Range> all;
    for (int64_t extent : place.type.shape) all.push_back({0, extent});
    host::fill_initial(place.tensor, place.type.shape, all, rule, seed, values);
    const int64_t size = ir::size_of(place.type.dtype);
    for (size_t i = 0; i < values.size(); ++i)
      store_element(place.type.dtype, tensor.bytes.data() + static_cast<int64_t>(i) * size, values[i]);
  }
  return tensors;
}

// A checkpoint that was begun otherwise is another run's.
void check_resumed(const host::TrainState& state, const planner::Job& job, const host::TrainState& expected,
                   const GivenKeys& given) {
  const auto same = [&](const char* key, const auto& ours, const auto& theirs, const char* mend = "") {
    if (ours != theirs)
      throw Error::input(where(given, key),
                         fmt::format("is {}, the checkpoint was begun with {}{}", ours, theirs, mend));
  };
  same("run.seed", expected.seed, state.seed);
  same("run.data", expected.data, state.data,
       " (give the same files, validate_every and validation_fraction)");
  same("run.resume", expected.settings, state.settings);
  if (state.step > 0) same("train.global_batch", job.global_batch, state.samples / state.step);
}

// What changes the numbers of every step, beside the data and the plan.
std::string settings(const Request& request) {
  return fmt::format("optimizer {}, precision {}, dropout {}", get(*find_key("train", "optimizer"), request),
                     get(*find_key("train", "precision"), request),
                     get(*find_key("model", "dropout"), request));
}

// What the run begins with: a checkpoint, given weights, or drawn ones.
host::Checkpoint beginning(const Request& request, const std::string& data, const TrainingJob& prepared,
                           const GivenKeys& given) {
  const planner::Job& job = request.job;
  const TrainRun& run = request.run;
  host::Checkpoint begin{prepared.model, {0, 0, run.seed, data, settings(request)}, {}};
  if (run.resume) {
    if (auto found = host::read_checkpoint(run.checkpoint_dir, prepared.model)) {
      check_resumed(found->state, job, begin.state, given);
      return *std::move(found);
    }
  }
  begin.tensors = run.init_from.empty() ? drawn(prepared.places, job.model.layers, run.seed)
                                        : host::read_weights(run.init_from, prepared.model);
  return begin;
}

// Every key's value by path.
std::map<std::string, std::string> configuration(const Request& request) {
  std::map<std::string, std::string> values;
  for (const Key& key : keys())
    if (key.is_of(request.job.model.family)) values[key.path()] = get(key, request);
  return values;
}

// What all processes must have alike. Of paths it is what lies there.
std::map<std::string, std::string> facts(const Request& request, const TrainingJob& prepared,
                                         const std::string& data, const host::Checkpoint& begin,
                                         backends::Backend& backend) {
  const TrainRun& run = request.run;
  std::map<std::string, std::string> facts = configuration(request);
  for (int d = 0; run.backend == "cuda" && d < backend.devices(); ++d)
    if (backend.is_local(d)) facts[gpu_fact] = backend.device(d).facts().name;
  const std::string plan = ir::to_text(prepared.plan);
  facts["plan"] = fmt::format("of fingerprint {:016x}", fingerprint(std::as_bytes(std::span(plan))));
  facts["run.data"] = data;
  facts.erase("run.checkpoint_dir");
  if (!run.resume && run.init_from.empty()) return facts;
  const std::string weights =
      fmt::format("step {}, weights of fingerprint {:016x}", begin.state.step, fingerprint(begin.tensors));
  facts["run.init_from"] = run.resume ? "" : weights;
  if (run.resume) facts["run.resume"] = weights;
  return facts;
}

struct TrainArguments {
  JobArguments job;
  std::string plan, trace;
  bool json = false, probe = false;
  int64_t chaos = -1;
};

// By device.
std::vector<int64_t> arena_bytes(const ir::Plan& plan) {
  std::vector<int64_t> bytes(static_cast<size_t>(plan.devices));
  for (const ir::RankClass& cls : plan.classes)
    for (int device : cls.devices)
      bytes[static_cast<size_t>(device)] = plan.programs[static_cast<size_t>(cls.program)].arena_bytes;
  return bytes;
}

TrainLog make_log(const TrainArguments& arguments, const Request& request, const TrainingJob& prepared,
                  const backends::Backend& backend, int processes) {
  const planner::Job& job = request.job;
  TrainLog::Setup setup;
  setup.json = arguments.json;
  setup.quiet = !backend.is_local(0);
  setup.steps = request.run.steps, setup.log_every = request.run.log_every;
  setup.samples_per_step = job.global_batch;
  setup.tokens_per_step = ir::models::is_conv_net(job.model.family) ? 0 : job.global_batch * job.model.seq;
  setup.configuration = configuration(request);
  setup.parameters = ir::models::parameters(job.model);
  setup.devices = prepared.plan.devices, setup.processes = processes;
  setup.arena_bytes = arena_bytes(prepared.plan);
  return TrainLog(std::move(setup));
}

// A trace shows the last step, and needs what its acts read of steps before.
constexpr int64_t traced_steps = 3;

// What ran, as the simulator has it: every device by itself, every act, as if it had begun with the first
// step that is there.
sim::Result result_of(const ir::Plan& plan, const std::vector<actors::RunAct>& acts) {
  sim::Result result;
  std::vector<std::vector<int>> per_step;  // by device, actor
  result.classes.resize(static_cast<size_t>(plan.devices));
  for (const ir::RankClass& cls : plan.classes)
    for (int device : cls.devices) {
      result.classes[static_cast<size_t>(device)].program = cls.program;
      result.classes[static_cast<size_t>(device)].devices = {device};
    }
  for (const sim::ClassResult& cls : result.classes) {
    const ir::Program& program = plan.programs[static_cast<size_t>(cls.program)];
    std::vector<int> runs(program.phases.size());
    for (const ir::PhaseRun& run : program.schedule) ++runs[static_cast<size_t>(run.phase)];
    auto& counts = per_step.emplace_back();
    for (const ir::Actor& actor : program.actors) counts.push_back(runs[static_cast<size_t>(actor.phase)]);
  }
  const auto count_of = [&](const actors::RunAct& act) {
    return per_step[static_cast<size_t>(act.device)][static_cast<size_t>(act.actor)];
  };
  int64_t first = acts.empty() ? 0 : acts.front().index / count_of(acts.front());
  for (const actors::RunAct& act : acts) first = std::min(first, act.index / count_of(act));
  for (const actors::RunAct& act : acts) {
    const int64_t index = act.index - first * count_of(act);
    const auto step = static_cast<size_t>(index / count_of(act));
    if (result.step_ends.size() <= step) result.step_ends.resize(step + 1);
    result.step_ends[step] = std::max(result.step_ends[step], act.end);
    result.timeline.push_back({act.device, act.actor, static_cast<int>(index), act.start, act.end});
  }
  std::sort(result.timeline.begin(), result.timeline.end(), [](const sim::Act& a, const sim::Act& b) {
    return std::tie(a.cls, a.actor, a.index) < std::tie(b.cls, b.actor, b.index);
  });
  return result;
}

// What is there until processes have agreed how a run ends.
struct Shared {
  std::unique_ptr<backends::Transport> transport;  // null in one process; the backend's once that is there
  std::unique_ptr<backends::Backend> backend;
  std::string last_checkpoint;  // what a run that failed leaves; empty: none
};

std::unique_ptr<backends::Backend> make_backend(const TrainRun& options, int devices,
                                                std::unique_ptr<backends::Transport>&& transport) {
  if (options.backend == "cpu") return backends::cpu::make_cpu_backend(devices, std::move(transport));
  return backends::cuda::make_cuda_backend(devices,
                                           {.share_gpus = options.share_gpus,
                                            .fast = options.fast,
                                            .algorithms = options.algorithms,
                                            .collective_seconds = options.collective_timeout},
                                           std::move(transport));
}

// A saved plan, or the one that the job compiles to.
TrainingJob prepare(const TrainArguments& arguments, std::optional<PlanToTrain>& saved,
                    const planner::Job& job, const TrainRun& run) {
  const double share =
      static_cast<double>(backends::started_processes_here()) / backends::started_processes();
  if (!saved) return prepare_training(job, run, share);
  planner::Job planned = job;  // with the learning rate that its acts name, whatever the run's is
  planned.train.learning_rate = job_of(saved->plan, arguments.plan).request.job.train.learning_rate;
  planner::Choose choose;
  if (const auto layouts = layouts_of(saved->plan.labels))
    choose = search::chooser(planned, *layouts, nullptr);
  const planner::LaidOut laid = planner::lay_out(planned, choose);
  expect_plan_of(laid, planned, saved->plan, arguments.plan);
  return prepare_training(job, std::move(saved->plan), laid, run, share);
}

void train(const TrainArguments& arguments, Extent extent, Shared& shared) {
  GivenKeys given = arguments.job.given();
  refuse_what_is_simulated_alone(given);
  given = with_model(given);
  std::optional<PlanToTrain> saved;
  if (arguments.plan.empty()) {
    given = with_defaults(given);
  } else {
    saved = plan_to_train(arguments.plan, given);
    given = saved->given;
    refuse_what_is_simulated_alone(given);
    if (given.try_emplace("run.data", Given{"random", "--data"}).second && backends::started_process() == 0)
      tell("--data: none is given: what is trained on is drawn (--data random)");
  }
  Resolved resolved = resolve(given);
  if (resolved.request.job.model.qkv_bias)
    throw Error::input(where(given, "model.qkv_bias"),
                       "checkpoints have biases in all linear layers or in none");
  const TrainRun& options = resolved.request.run;
  planner::Job& job = resolved.request.job;
  job.parallel.op_kept
      .clear();  // what the simulated framework keeps or overwrites: here every result has its place
  check(options, given);
  const Data data = open_data(options, job, given);

  const std::unique_ptr<host::HeldFolder> held = hold_folder(options, given);
  const int processes = backends::started_processes();
  check_apart({{"--plan", arguments.plan}, {"--trace", arguments.trace}});
  if (!arguments.trace.empty() && backends::started_process() == 0) check_writable(arguments.trace);
  if (!options.algorithms.empty() && backends::started_process() == 0) check_writable(options.algorithms);
  if (options.cuda_graph && (arguments.probe || !arguments.trace.empty()))
    throw Error::input(arguments.probe ? "--probe" : "--trace",
                       "shows a step act by act; leave it out, or train with --cuda-graph false");
  if (extent == Extent::reading) return;
  const TrainingJob prepared = prepare(arguments, saved, job, options);
  shared.backend = make_backend(options, prepared.plan.devices, std::move(shared.transport));
  backends::Backend* const backend = shared.backend.get();
  backend->expect_room(prepared.plan, actors::scratch_bytes(prepared.plan, *backend));
  host::Checkpoint begin = beginning(resolved.request, data.training, prepared, given);
  if (backend->transport())
    expect_same_run(*backend->transport(), facts(resolved.request, prepared, data.all, begin, *backend));
  TrainLog log = make_log(arguments, resolved.request, prepared, *backend, processes);
  Trainer trainer(prepared, options, *backend, *data.samples, data.held_out ? &*data.held_out : nullptr,
                  held.get());
  std::vector<actors::RunAct> timeline;  // on the first process
  try {
    log.start();
    if (options.resume || begin.state.step > 0) log.resumed(begin.state.step, options.checkpoint_dir);
    trainer.begin(std::move(begin.tensors), begin.state,
                  {.seed = options.seed,
                   .timeline = !arguments.trace.empty(),
                   .timeline_from = options.steps - traced_steps,
                   .chaos = arguments.chaos,
                   .graphs = options.cuda_graph,
                   .probe = arguments.probe});
    trainer.train(log);
    if (!arguments.trace.empty()) timeline = trainer.timeline();
    if (backend->transport()) backend->transport()->finish();
  } catch (const std::exception& e) {
    shared.last_checkpoint = trainer.last_checkpoint();
    backend->abort(e.what());  // before the trainer ends and waits for the others
    throw;
  }
  if (arguments.trace.empty() || !backend->is_local(0)) return;
  const sim::Result result = result_of(prepared.plan, timeline);
  write_file(arguments.trace,
             [&](std::ostream& out) { sim::write_chrome_trace(prepared.plan, result, out); });
}

void run(const TrainArguments& arguments, Extent extent) {
  Shared shared;
  if (backends::started_processes() > 1) shared.transport = backends::make_mpi_transport();
  backends::Transport* const transport = shared.transport.get();
  try {
    train(arguments, extent, shared);
  } catch (const std::exception& e) {
    const Error error = transport ? transport->agree(as_error(e)) : as_error(e);
    if (shared.last_checkpoint.empty()) throw error;
    throw Error(error.code(), "",
                fmt::format("{}; the last checkpoint is {}", error.what(), shared.last_checkpoint));
  }
}

}  // namespace

void add_train_command(CLI::App& app, Extent extent) {
  CLI::App* command = app.add_subcommand("train", "train a model for real");
  auto arguments = std::make_shared<TrainArguments>();
  arguments->job.add_to(*command, true, defaults);
  command->add_flag("--json", arguments->json, "print one JSON document per line");
  command
      ->add_option("--plan", arguments->plan,
                   "train a saved plan: its labels are the job, keys of section run are given beside")
      ->type_name("FILE")
      ->check(not_empty());
  command
      ->add_option("--trace", arguments->trace,
                   "write the last step as a Chrome trace (opens in Perfetto), as simulate does")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_flag("--probe", arguments->probe,
                    "watch every register: stop where the plan's memory is overstepped, tell the peak");
  command
      ->add_option("--chaos", arguments->chaos,
                   "permute messages and delay acts by this seed: no result may change")
      ->check(whole_number(0, 1000000000))
      ->type_name("SEED");
  command->callback([arguments, extent] { run(*arguments, extent); });
}

}  // namespace boxcar::cli
