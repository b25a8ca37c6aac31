#include "program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "backends/cuda/cuda_backend.h"
#include "backends/host/checkpoint.h"
#include "backends/host/parts.h"
#include "cli/simulate_command.h"
#include "cli/train_command.h"
#include "ir/models/conv_net.h"
#include "laws.h"
#include "planner/training_graph.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

namespace fs = std::filesystem;
namespace host = backends::host;
using Words = std::vector<std::string>;

constexpr double tolerance = 1e-9;  // in float64, of the largest number of a tensor

// A folder that exists as long as this object.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "boxcar-random-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

struct Said {
  std::string error;  // empty: none
  Exit code = Exit::done;
  std::string out;
};

// Runs the command in this process, with standard output in a file of the folder.
Said say(const Folder& folder, const std::string& command, Words words) {
  const std::string file = folder / "out";
  std::fflush(stdout);
  const int kept = dup(STDOUT_FILENO), out = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(out, STDOUT_FILENO);
  close(out);
  Said said;
  try {
    CLI::App app;
    int exit_code = 0;
    cli::add_simulate_command(app, exit_code);
    cli::add_train_command(app);
    words.insert(words.begin(), command);
    std::reverse(words.begin(), words.end());  // CLI11's order
    app.parse(words);
  } catch (const Error& error) {
    said.error = error.what(), said.code = error.code();
  }
  std::fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  std::ifstream in(file);
  said.out.assign(std::istreambuf_iterator<char>(in), {});
  return said;
}

// A job's flags, with those of `others` replaced; an empty value drops the flag.
Words flags(const RandomJob& job, const std::map<std::string, std::string>& others, bool run) {
  cli::GivenKeys given = given_of(job, run);
  for (const auto& [path, text] : others) {
    const size_t dot = path.find('.');
    if (text.empty())
      given.erase(path);
    else
      given[path] = {text, cli::find_key(path.substr(0, dot), path.substr(dot + 1))->flag};
  }
  Words words;
  for (const auto& [path, value] : given) words.push_back(value.where + "=" + value.text);
  return words;
}

// On this machine, in float64.
const std::map<std::string, std::string> here{
    {"cluster.preset", "local"},
    {"cluster.device", ""},
    {"train.precision", "fp64"},
    {"train.fp8_recipe", ""},
    {"train.gradients", ""},
    {"train.moments", ""},
    {"train.logits", ""},
    {"parallel.attention_kernel", ""},
    {"train.grad_reduction", ""},
    {"parallel.offload_optimizer", ""},
    {"run.data", "random"},
    {"run.cuda_graph", ""},
    {"run.lr_schedule", "constant"},
    {"run.warmup_steps", ""},
    {"run.min_learning_rate", ""},
};

// The loss of a step in what `train --json` printed.
double loss_of(const Said& said, int64_t step) {
  std::istringstream lines(said.out);
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.at("event") == "step" && event.at("step") == step) return event.at("loss");
  }
  throw std::runtime_error(fmt::format("no loss of step {} in\n{}", step, said.out));
}

// Jobs that `docs/jobs.md` says `train` refuses although they can be simulated.
bool is_simulated_alone(const RandomJob& job) {
  const std::string& family = job.value("model.family");
  return family.ends_with("unet") || job.value("model.qkv_bias") == "true" ||
         job.value("train.precision") == "fp8";
}

// Another plan for the same model and batch: one device, or the first other degree that fits.
Words other_plan(const RandomJob& job, std::map<std::string, std::string> others) {
  for (const Dimension& d : dimensions())
    if (d.path.starts_with("parallel.")) others[d.path] = "";
  const cli::GivenKeys given = given_of(job);
  others["cluster.gpus"] = "";
  others["parallel.dp"] = "1";
  others["train.epilogues"] = "";
  if (job.value("train.off") == "accumulate") others["train.off"] = "";  // of one micro-batch only
  const int64_t batch = cli::resolve(given).request.job.global_batch;
  others["train.global_batch"] = std::to_string(batch);
  if (batch % 2 == 0)
    others["parallel.dp"] = "2", others["parallel.zero"] = batch % 4 == 0 ? "3" : "1";
  else
    others["parallel.micro_batch"] = std::to_string(batch);
  if (batch % 2 == 0 && job.value("train.sparse_tables") == "true")  // of one micro-batch only
    others["parallel.micro_batch"] = std::to_string(batch / 2);
  return flags(job, others, true);
}

host::Checkpoint checkpoint(const std::string& folder, const ir::models::Transformer& model) {
  auto found = host::read_checkpoint(folder, model);
  if (!found) throw std::runtime_error(folder + " has no checkpoint");
  return *std::move(found);
}

double largest(const host::StoredTensor& tensor) {
  double most = 0;
  for (int64_t i = 0; i < tensor.type.elements(); ++i)
    most = std::max(most, std::abs(backends::host::load_element(
                              tensor.type.dtype, tensor.bytes.data() + i * ir::size_of(tensor.type.dtype))));
  return most;
}

// "m" of "h0.attn.q.weight.m"
std::string ending(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// A gradient may be zero by cancellation: of queries that see one key, of keys' biases. What is left then is
// rounding, beside tensors of the same kind, which an optimizer divides by its eps.
void expect_same(const host::GlobalTensors& got, const host::GlobalTensors& wanted, double eps) {
  ASSERT_EQ(got.size(), wanted.size());
  std::map<std::string, double> rounding;
  for (const auto& [name, tensor] : wanted) {
    double& of_kind = rounding[ending(name)];
    of_kind = std::max(of_kind, 1e-19 / eps * largest(tensor));
  }
  for (const auto& [name, tensor] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name;
    const host::StoredTensor& other = got.at(name);
    ASSERT_EQ(other.type, tensor.type) << name;
    const int64_t size = ir::size_of(tensor.type.dtype);
    double gap = 0;
    for (int64_t i = 0; i < tensor.type.elements(); ++i) {
      const double a = backends::host::load_element(tensor.type.dtype, other.bytes.data() + i * size);
      const double b = backends::host::load_element(tensor.type.dtype, tensor.bytes.data() + i * size);
      gap = std::max(gap, std::abs(a - b));
      ASSERT_TRUE(std::isfinite(a)) << name << " element " << i;
    }
    EXPECT_LE(gap, tolerance * largest(tensor) + rounding[ending(name)]) << name;
  }
}

void check_going_on(const RandomJob& job, const Folder& folder) {
  std::map<std::string, std::string> others = here;
  const planner::Job resolved = cli::resolve(given_of(job)).request.job;
  others["run.steps"] = "2";
  others["run.checkpoint_dir"] = folder / "whole";
  const Words words = other_plan(job, others);
  Words json = words;
  json.push_back("--json");
  const Said whole = say(folder, "train", json);
  ASSERT_EQ(whole.error, "") << fmt::format("train {}", fmt::join(words, " "));

  others["run.steps"] = "1";
  others["run.checkpoint_dir"] = folder / "parts";
  Words first = flags(job, others, true);
  first.push_back("--json");
  const Said begun = say(folder, "train", first);
  ASSERT_EQ(begun.error, "") << fmt::format("train {}", fmt::join(first, " "));
  EXPECT_NEAR(loss_of(begun, 1), loss_of(whole, 1), tolerance * std::abs(loss_of(whole, 1)));

  others["run.steps"] = "2";
  others["run.resume"] = "true";
  Words second = other_plan(job, others);
  second.push_back("--json");
  const Said ended = say(folder, "train", second);
  ASSERT_EQ(ended.error, "") << fmt::format("train {}", fmt::join(second, " "));
  EXPECT_NEAR(loss_of(ended, 2), loss_of(whole, 2), tolerance * std::abs(loss_of(whole, 2)));

  ir::models::Transformer model = transformer_of(resolved.model);
  model.flash = false, model.document_length = 0, model.pad_vocab_to = 1;
  expect_same(checkpoint(folder / "parts", model).tensors, checkpoint(folder / "whole", model).tensors,
              resolved.train.eps);
}

}  // namespace

bool has_gpus() {
  static const bool found = [] {
    try {
      backends::cuda::make_cuda_backend(1, {.share_gpus = true});
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return found;
}

bool has_program_run(const RandomJob& job) { return job.value(layouts_dimension) == "hints"; }

void check_program(const RandomJob& job) {
  const Folder folder;
  const Said simulated = say(folder, "simulate", flags(job, {}, false));
  EXPECT_TRUE(simulated.error.empty() || simulated.code == Exit::cannot_run)
      << "simulate: " << simulated.error;
  const Said trained = say(folder, "train",
                           flags(job,
                                 {{"run.data", "random"},
                                  {"run.steps", "2"},
                                  {"run.cuda_graph", ""},
                                  {"run.checkpoint_every", ""},
                                  {"run.keep_checkpoints", ""}},
                                 true));
  if (is_simulated_alone(job)) {
    EXPECT_EQ(trained.code, Exit::bad_input) << "is simulated alone, and was trained";
    return;
  }
  if (!simulated.error.empty()) return;
  EXPECT_EQ(trained.error, "") << "train, of what was simulated";
  if (trained.error.empty() && !ir::models::is_conv_net(job.value("model.family")) &&
      job.value("train.off") != "double_precision" && !scales_rounding(job))
    check_going_on(job, folder);
}

void check_refused(const RandomJob& job) {
  const Folder folder;
  const Said simulated = say(folder, "simulate", flags(job, {}, false));
  const Said trained = say(folder, "train", flags(job, {{"run.data", "random"}, {"run.steps", "1"}}, false));
  EXPECT_EQ(simulated.code, Exit::bad_input) << "simulate took it";
  EXPECT_EQ(trained.code, Exit::bad_input) << "train took it";
  if (!is_simulated_alone(job)) {
    EXPECT_EQ(trained.error, simulated.error) << "refused with other words";
  }
}

}  // namespace boxcar::tests
