#include "cli/train_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/training/beginning.h"
#include "actors/training/data.h"
#include "actors/training/same_run.h"
#include "actors/training/trainer.h"
#include "backends/host/files.h"
#include "backends/mpi/mpi_transport.h"
#include "cli/arguments.h"
#include "cli/backend_rows.h"
#include "cli/catalog.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/train_log.h"
#include "planner/communication_order.h"
#include "planner/estimate/layout_labels.h"
#include "planner/retained.h"
#include "sbp/as_error.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/ran.h"
#include "sim/trace.h"

namespace boxcar::cli {
namespace {

namespace host = backends::host;
using Order = std::vector<std::pair<int, int>>;  // of communication

// Defaults of training: this machine, numbers as they are.
const std::map<std::string, std::string> defaults{
    {"cluster.preset", "local"}, {"train.precision", "fp32"}, {"train.learning_rate", "0.001"}};

bool is_of_text(const GivenKeys& given) {
  const auto family = given.find("model.family");
  const std::string name = family == given.end() ? "" : family_named(family->second.text);
  return !given.contains("model.graph") && !ir::models::is_conv_net(name);
}

// Data here is text, or images with one label each, and no backend has kernels in 8 bits.
void refuse_what_is_simulated_alone(const GivenKeys& given) {
  if (const auto family = given.find("model.family");
      family != given.end() && family_named(family->second.text).ends_with("unet"))
    throw Error::input(family->second.where,
                       "a U-Net is simulated, not trained (data are images of a label each)");
  if (const auto found = given.find("run.validate_every");
      given.contains("model.graph") && found != given.end())
    throw Error::input(found->second.where, "is for models of text and images (leave it out)");
  if (const auto type = given.find("train.precision"); type != given.end() && type->second.text == "fp8")
    throw Error::input(type->second.where, "fp8 is simulated, not trained (use bf16)");
}

GivenKeys with_defaults(GivenKeys given) {
  for (const auto& [path, text] : defaults) given.try_emplace(path, Given{text, path});
  const auto backend = given.find("run.backend");
  for (const BackendRow& row : backend_rows())
    if (row.name == (backend == given.end() ? training::TrainRun().backend : backend->second.text) &&
        is_of_text(given))
      given.try_emplace("model.pad_vocab", Given{std::to_string(row.pad_vocab), "model.pad_vocab"});
  if (!given.contains("cluster.gpus")) given.try_emplace("parallel.dp", Given{"1", "parallel.dp"});
  return given;
}

std::string where(const GivenKeys& given, const std::string& path) {
  const auto found = given.find(path);
  return found == given.end() ? path : found->second.where;
}

// Keys of another backend: at their defaults they ask for nothing.
void check_backend(const Request& request, const GivenKeys& given) {
  for (const BackendRow& row : backend_rows())
    for (const std::string& name : row.keys) {
      const Key& key = *find_key(run_section, name);
      if (row.name != request.run.backend && text_of(key, request) != text_of(key, Request()))
        throw Error::input(where(given, key.path()), fmt::format("needs backend {}", row.name));
    }
}

void check(const Request& request, const GivenKeys& given) {
  const training::TrainRun& run = request.run;
  if (run.data.empty())
    throw Error::input(
        where(given, "run.data"),
        request.job.model.graph()
            ? "missing; give a file of safetensors in the job file or as --data, or --data random"
            : "missing; give text, .bin files or JPEG images in the job file or as --data, or --data random");
  check_backend(request, given);
  if (!run.algorithms.empty() && !run.fast) throw Error::input(where(given, "run.algorithms"), "needs fast");
  const auto needs_folder = [&](const char* key) {
    if (run.checkpoint_dir.empty() && given.contains(std::string("run.") + key))
      throw Error::input(where(given, std::string("run.") + key), "needs checkpoint_dir");
  };
  for (const char* key : {"run.validation_fraction", "run.validation_batches"})
    if (run.validate_every == 0 && given.contains(key))
      throw Error::input(where(given, key), "needs validate_every");
  for (const char* key : {"run.decoders", "run.prefetch", "run.augment"})
    if (!request.job.model.conv_net() || !training::has_encoded_images(run))
      if (given.contains(key)) throw Error::input(where(given, key), "needs data that are JPEG images");
  const auto* text = request.job.model.transformer();
  if (given.contains("run.objective") && (!text || text->decoder_layers == 0))
    throw Error::input(where(given, "run.objective"), "needs family t5");
  needs_folder("checkpoint_every");
  needs_folder("keep_checkpoints");
  needs_folder("resume");
  if (run.warmup_steps >= run.steps && run.warmup_steps > 0)
    throw Error::input(where(given, "run.warmup_steps"),
                       fmt::format("{} of {} steps (leave some for training)", run.warmup_steps, run.steps));
  if (run.min_learning_rate > 0 && run.lr_schedule != "cosine")
    throw Error::input(where(given, "run.min_learning_rate"), "has no effect unless lr_schedule is cosine");
  if (run.min_learning_rate > request.job.train.learning_rate)
    throw Error::input(where(given, "run.min_learning_rate"),
                       fmt::format("is {}, expected at most learning_rate {}", run.min_learning_rate,
                                   request.job.train.learning_rate));
}

// The sizes of the model whose weights are given, from Hugging Face's config.json beside them, if the user
// gave none. Files have no padding, so they say nothing of it.
GivenKeys with_model(GivenKeys given) {
  const auto from = given.find("run.init_from");
  if (from == given.end() || !is_of_text(given)) return given;
  const host::InputFile weights(from->second.text);  // a folder is refused by its own name
  const auto config = std::filesystem::path(from->second.text).parent_path() / "config.json";
  Request request;
  request.job.model = host::read_hugging_face_config(config.string());
  const auto family = given.find("model.family");
  if (family != given.end() && family->second.text != request.job.model.family())
    throw Error::input(family->second.where,
                       fmt::format("is {}, {} has {} (leave it out)", family->second.text, config.string(),
                                   request.job.model.family()));
  for (const Key& key : keys())
    if (key.section == "model" && key.name != "pad_vocab" && key.is_of(request.job.model.family()))
      given.try_emplace(key.path(), Given{text_of(key, request), config.string() + ": " + key.name, true});
  return given;
}

// Settings that change the numbers of every step, beside the data and the plan.
std::string settings(const Request& request) {
  return fmt::format("optimizer {}, precision {}, dropout {}",
                     text_of(*find_key("train", "optimizer"), request),
                     text_of(*find_key("train", "precision"), request),
                     request.job.model.transformer() ? text_of(*find_key("model", "dropout"), request) : "0");
}

// Every key's value by path.
std::map<std::string, std::string> configuration(const Request& request) {
  std::map<std::string, std::string> values;
  for (const Key& key : keys())
    if (key.is_of(request.job.model.family())) values[key.path()] = text_of(key, request);
  return values;
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
    for (int device : cls.devices) at(bytes, device) = at(plan.programs, cls.program).arena_bytes;
  return bytes;
}

TrainLog make_log(const TrainArguments& arguments, const Request& request,
                  const training::TrainingJob& prepared, const backends::Backend& backend, int processes) {
  const planner::Job& job = request.job;
  TrainLog::Setup setup;
  setup.json = arguments.json;
  setup.quiet = !backend.is_local(0);
  setup.steps = request.run.steps, setup.log_every = request.run.log_every;
  setup.samples_per_step = job.global_batch;
  if (job.model.graph()) setup.samples = "samples";
  setup.tokens_per_step = job.global_batch * ir::models::tokens(job.model);
  setup.configuration = configuration(request);
  setup.parameters = ir::models::parameters(job.model);
  setup.trained = ir::models::trained_parameters(job.model);
  setup.devices = prepared.plan.devices, setup.processes = processes;
  setup.arena_bytes = arena_bytes(prepared.plan);
  return TrainLog(std::move(setup));
}

// A trace shows the last step, and needs the results of earlier steps that its acts read.
constexpr int64_t traced_steps = 3;

// State that lives until processes have agreed how a run ends.
struct Shared {
  std::unique_ptr<backends::Transport> transport;  // null in one process; the backend's once that is there
  std::unique_ptr<backends::Backend> backend;
  std::string last_checkpoint;  // left by a run that failed; empty: none
};

// Reports how the kernels of each op are carried out, a line for each way, with the reason if some could be
// faster. Processes whose programs others also run are silent. Throws Error (cannot run) at `where` if a
// kernel could be faster and `require_fast`.
void tell_kernels(const ir::Plan& plan, const backends::Backend& backend, bool require_fast,
                  const std::string& where) {
  const bool first = std::any_of(plan.classes.begin(), plan.classes.end(), [&](const ir::RankClass& cls) {
    return backend.is_local(cls.devices.front());
  });
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> ops;  // by reason and way
  for (const backends::Made& one : backend.made()) ops[{one.why, one.how}].push_back(one.op);
  const std::string here =
      backends::started_processes() > 1 ? fmt::format("process {}: ", backends::started_process()) : "";
  std::string slow;
  for (const auto& [way, names] : ops) {
    const auto& [why, how] = way;
    const std::string line =
        fmt::format("{}: {}{}", fmt::join(names, ", "), how, why.empty() ? "" : ", since " + why);
    if (!why.empty()) slow += (slow.empty() ? "" : "; ") + line;
    if (first) tell(here + "kernels of " + line);
  }
  if (require_fast && !slow.empty()) throw Error::cannot_run(where, "not all kernels are fast: " + slow);
}

// A saved plan, or the one that the job compiles to. `simulated`: the job with a simulated framework's
// memory, which a saved plan may have. It is then planned anew with that of `job`.
training::TrainingJob prepare(const TrainArguments& arguments, std::optional<PlanToTrain>& saved,
                              const planner::ResolvedJob& job, const planner::Job& simulated,
                              const training::TrainRun& run) {
  const double here = static_cast<double>(backends::started_processes_here()) / backends::started_processes();
  const double share = backend_row(run.backend).gpus ? 0 : here;
  if (!saved) return training::prepare_training(job, run, share);
  const double learning_rate = job_of(saved->plan, arguments.plan).job->train.learning_rate;
  const auto lay_out = [&](planner::Job changed) {
    changed.train.learning_rate = learning_rate;  // that of its acts, whatever the run's
    planner::ResolvedJob planned = planner::resolve(std::move(changed));
    planner::Choose choose;
    if (const auto layouts = search::layouts_of(saved->plan.labels))
      choose = search::chooser(planned, *layouts, nullptr);
    return std::pair(planner::lay_out(planned, choose), planned);
  };
  const auto [laid, planned] = lay_out(simulated);
  expect_plan_of(laid, planned, saved->plan, arguments.plan);
  if (simulated.parallel == job->parallel)
    return training::prepare_training(job, std::move(saved->plan), laid, run, share);
  const planner::LaidOut here_laid = lay_out(job).first;
  ir::Plan plan = planner::compile(here_laid);
  plan.name = saved->plan.name, plan.facts = saved->plan.facts, plan.labels = saved->plan.labels;
  return training::prepare_training(job, std::move(plan), here_laid, run, share);
}

void train(const TrainArguments& arguments, Extent extent, Shared& shared) {
  GivenKeys given = arguments.job.given();
  refuse_what_is_simulated_alone(given);
  if (arguments.plan.empty() || is_of_text(keys_of(read_plan(arguments.plan), arguments.plan)))
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
  if (const auto* model = resolved.request.job.model.transformer(); model && model->qkv_bias)
    throw Error::input(where(given, "model.qkv_bias"),
                       "checkpoints have biases in all linear layers or in none");
  const training::TrainRun& options = resolved.request.run;
  planner::Job here = resolved.job;
  // These are the simulated framework's: here every result has a place of its own.
  planner::keep_as_here(here.parallel);
  const planner::ResolvedJob job = planner::resolve(std::move(here));
  check(resolved.request, given);
  const auto name = [&given](const std::string& path) { return where(given, path); };
  const training::Data data = training::open_data(options, job->model, name);

  const std::unique_ptr<host::HeldFolder> held =
      training::hold_folder(options, backends::started_process() == 0, name);
  const int processes = backends::started_processes();
  check_apart({{"--plan", arguments.plan}, {"--trace", arguments.trace}});
  if (!arguments.trace.empty() && backends::started_process() == 0) check_writable(arguments.trace);
  if (!options.algorithms.empty() && backends::started_process() == 0) check_writable(options.algorithms);
  if (options.cuda_graph && (arguments.probe || !arguments.trace.empty()))
    throw Error::input(arguments.probe ? "--probe" : "--trace",
                       "shows a step act by act; leave it out, or train with --cuda-graph false");
  if (extent == Extent::reading) return;
  const training::TrainingJob prepared = prepare(arguments, saved, job, resolved.job, options);
  shared.backend =
      backend_row(options.backend).make(options, prepared.plan.devices, std::move(shared.transport));
  backends::Backend* const backend = shared.backend.get();
  backend->expect_room(prepared.plan, actors::beside_arenas(prepared.plan, *backend));
  training::Beginning begin =
      training::beginning(options, prepared, data.training, settings(resolved.request), name);
  if (backend->transport())
    training::expect_same_run(*backend->transport(),
                              training::run_facts(configuration(resolved.request), options, prepared.plan,
                                                  data.all, begin, *backend));
  TrainLog log = make_log(arguments, resolved.request, prepared, *backend, processes);
  training::Trainer trainer(prepared, options, *backend, data, held.get());
  std::vector<actors::RunAct> timeline;  // on the first process
  try {
    log.start();
    if (options.resume || begin.state.step > 0) log.resumed(begin.state.step, options.checkpoint_dir);
    trainer.begin(
        std::move(begin.tensors), begin.state,
        {.seed = options.seed,
         .timeline = !arguments.trace.empty(),
         .timeline_from = options.steps - traced_steps,
         .chaos = arguments.chaos,
         .graphs = options.cuda_graph,
         .probe = arguments.probe,
         .order =
             options.cuda_graph && backend->sends() ? planner::communication_order(prepared.plan) : Order{}});
    tell_kernels(prepared.plan, *backend, options.require_fast, name("run.require_fast"));
    trainer.train(log);
    if (!arguments.trace.empty()) timeline = trainer.timeline();
    if (backend->transport()) backend->transport()->finish();
  } catch (const std::exception& e) {
    shared.last_checkpoint = trainer.last_checkpoint();
    backend->abort(e.what());  // before the trainer ends and waits for the others
    throw;
  }
  if (arguments.trace.empty() || !backend->is_local(0)) return;
  const sim::Result result = sim::result_of(prepared.plan, timeline);
  write_file(arguments.trace,
             [&](std::ostream& out) { sim::write_chrome_trace(prepared.plan, result, out); });
}

void run(const TrainArguments& arguments, Extent extent) {
  Shared shared;
  const int processes = backends::started_processes();
  if (processes > 1) {
    for (const BackendRow& row : backend_rows())  // MPI may start what a backend uses
      if (row.prepare) row.prepare(processes);
    shared.transport = backends::make_mpi_transport();
  }
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
