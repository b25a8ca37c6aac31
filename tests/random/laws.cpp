#include "laws.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "backends/cuda/cuda_backend.h"
#include "ir/models/conv_net.h"
#include "ir/ops/optimizers.h"
#include "planner/estimate/layout_request.h"
#include "planner/law4.h"
#include "planner/retained.h"
#include "planner/training_graph.h"
#include "planner/verify.h"
#include "program.h"
#include "sbp/error.h"
#include "sim/simulate.h"
#include "train/models.h"
#include "train/random_pins.h"
#include "train/trainer.h"

namespace boxcar::tests {
namespace {

using planner::Job;

constexpr int steps = 2;

bool is_conv_net(const RandomJob& job) { return ir::models::is_conv_net(job.value("model.family")); }

// --- plans

planner::LaidOut lay_at_random(const Job& job) {
  const ir::Graph graph = planner::training_graph(planner::resolve(job));
  const planner::Mesh mesh = planner::mesh_of(job.parallel);
  std::mt19937 random(static_cast<unsigned>(graph.ops.size() * 31 + mesh.dims()));
  planner::Pins pins = random_pins(graph, mesh, random);
  planner::LaidOut laid = planner::lay_out(graph, mesh, std::move(pins), job.train.micro_batches);
  return laid;
}

// The layouts of a point, as lay_out takes them; null: those that follow from the hints.
planner::Choose choose_of(const Point& point) {
  if (point.layouts != "found") return nullptr;
  return search::chooser(point.job, {.open = search::Open::each}, nullptr);
}

planner::LaidOut lay_out(const Point& point) {
  return point.layouts == "random" ? lay_at_random(point.job)
                                   : planner::lay_out(planner::resolve(point.job), choose_of(point));
}

ir::Plan plan_of(const Point& point) {
  return point.layouts == "random" ? planner::compile(lay_out(point))
                                   : planner::compile(lay_out(point), planner::resolve(point.job));
}

void check_plan(const RandomJob& random) {
  const ir::Plan plan = plan_of(point_of(random));
  EXPECT_NO_THROW(planner::verify(plan));
  const std::string text = ir::to_text(plan);
  EXPECT_EQ(ir::to_text(ir::parse_plan(text)), text)
      << "the plan's text is another one when it was read back";
}

// --- simulation

double seconds(const ir::Plan& plan, const backends::Cluster& cluster, bool sim::Options::*without) {
  sim::Options options;
  if (without) options.*without = false;
  return sim::simulate(plan, cluster, options).step_seconds;
}

void check_shortcuts(const RandomJob& random) {
  const Point point = point_of(random);
  const ir::Plan plan = plan_of(point);
  const backends::Cluster& cluster = point.job.cluster;
  const double with = seconds(plan, cluster, nullptr);
  EXPECT_GT(with, 0);
  constexpr double of_flows = 1e-9;  // s, see sim/ticks.h
  EXPECT_NEAR(seconds(plan, cluster, &sim::Options::periodic), with, of_flows)
      << "without repeating a regime";
  EXPECT_NEAR(seconds(plan, cluster, &sim::Options::merge), with, of_flows) << "without merged acts";
  EXPECT_NEAR(seconds(plan, cluster, &sim::Options::fold), with, 1e-3 * with) << "without folding";
}

// --- law 4 on the reference kernels

bool has_reference_step(const RandomJob& job) {
  // Random layouts have no job to compare with here. Every micro-batch is alike, and norms are per device.
  return job.value(layouts_dimension) != "random" &&
         (job.value("model.dropout") == "0" || point_of(job).job.train.micro_batches == 1) &&
         !(is_conv_net(job) && job.value("parallel.dp") != "1") && !scales_rounding(job);
}

void check_reference(const RandomJob& random) {
  const Point point = point_of(random);
  planner::expect_law_4(point.job, choose_of(point));
}

// --- training

// One device in one micro-batch, op by op as the model is written; image jobs in as many micro-batches as
// they have separate norms.
planner::ResolvedJob alone_of(const Job& job) {
  Job alone;
  alone.model = planner::padded_model(job);
  if (alone.model.transformer()) alone.model->flash = false;
  alone.cluster = job.cluster;
  alone.gpus = alone.parallel.dp = 1;
  alone.global_batch = job.global_batch;
  const bool images = job.model.conv_net();
  alone.parallel.micro_batch = images ? job.parallel.micro_batch : static_cast<int>(job.global_batch);
  const ir::TrainOptions plain;
  alone.train = job.train;
  alone.train.recompute = plain.recompute, alone.train.recompute_layers = {}, alone.train.stage_starts = {};
  alone.train.recompute_others = plain.recompute_others, alone.train.recompute_stop = false;
  alone.train.epilogues = alone.train.fused_loss = false;
  alone.train.flash = job.model.transformer() && job.model->document_length > 0;  // there is no other form
  alone.train.whole_products = alone.train.whole_classes = true;
  alone.train.off = {"fuse_patterns", "fuse_elementwise"};
  for (const char* pass :
       {"clip", "mixed_precision", "double_precision", "sparse_tables", "running_averages"})
    if (job.train.off.contains(pass)) alone.train.off.insert(pass);
  return planner::resolve(alone);
}

Start start_of(const Job& job) {
  Start start = transformer_start(job);
  if (job.model.conv_net()) return start;
  const auto tokens = start.data;
  const int64_t seq = job.model->seq;
  start.data = [=](const std::string& input, int64_t step, int64_t element) {
    const double value = tokens(input, step, element);
    if (input == "positions") return std::fmod(value, static_cast<double>(seq));
    if (input == "segments" || input == "next") return std::fmod(value, 2.0);
    return value;
  };
  return start;
}

// The job as `boxcar train` runs it: without tensors that a simulated framework keeps or overwrites.
Point trained(const RandomJob& random) {
  Point point = point_of(random);
  planner::keep_as_here(point.job.parallel);
  return point;
}

Point in_precision(Point point, ir::Precision precision) {
  point.job.train.precision = precision;
  return point;
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (double value : values) most = std::max(most, std::abs(value));
  return most;
}

// "h0.ln1.gamma.m" -> ".m"; weights: "".
std::string kind_of(const std::string& name) {
  for (const char* moment : {".m", ".v", ".r", ".c"})
    if (name.ends_with(moment)) return moment;
  return "";
}

// Small images have norms over one or two pixels after the last stage: these turn rounding into anything, and
// Adam and its like divide by it.
bool is_rounding_alone(const RandomJob& job) {
  const ir::OptimizerRow* const row = ir::find_optimizer(job.value("train.optimizer"));  // null: adamw
  return is_conv_net(job) && (job.value("parallel.micro_batch") != "3" || !row || row->positive > 0);
}

bool runs_wide(const RandomJob& job) {
  return job.value("train.off") != "double_precision" && !is_rounding_alone(job) && !scales_rounding(job);
}

// The largest number over all tensors of one kind: weights, or the moments of one name.
std::map<std::string, double> largest_of_kinds(const std::map<std::string, HostTensor>& state) {
  std::map<std::string, double> most;
  for (const auto& [name, tensor] : state) {
    double& kind = most[kind_of(name)];
    kind = std::max(kind, largest(tensor.data));
  }
  return most;
}

// Within `tolerance` of the largest number of each kind: a mathematically zero gradient, of keys' biases, is
// noise in each tensor.
void expect_near(const Outcome& got, const Outcome& wanted, double tolerance) {
  EXPECT_LE(loss_distance(got, wanted), tolerance * largest(wanted.losses)) << "losses";
  ASSERT_EQ(got.state.size(), wanted.state.size());
  const std::map<std::string, double> kinds = largest_of_kinds(wanted.state);
  for (const auto& [name, tensor] : wanted.state) {
    ASSERT_TRUE(got.state.contains(name)) << name;
    EXPECT_LE(distance(got.state.at(name), tensor), tolerance * kinds.at(kind_of(name))) << name;
  }
}

// Rounding grows through norms of few samples, and with depth.
double wide_tolerance(const Job& job) {
  const double depth = std::max(1.0, static_cast<double>(job.model.layers()) / 2);
  return job.model.conv_net() ? 1e-6 : 1e-9 * depth;
}

void check_training(const RandomJob& random) {
  const Point wide = in_precision(trained(random), ir::Precision::fp64);
  const Start start = start_of(wide.job);
  const Outcome alone = train(planner::lay_out(alone_of(wide.job)), start, steps);
  EXPECT_GT(largest(alone.losses), 0);
  expect_near(train(lay_out(wide), start, steps), alone, wide_tolerance(wide.job));
}

bool runs_narrow(const RandomJob& job) {
  const std::string& precision = job.value("train.precision");
  return runs_wide(job) && !is_conv_net(job) &&
         (precision == "fp32" || precision == "fp16" || precision == "bf16");
}

// One device's losses have the magnitude of those in float64. A plan's differ from these by at most eight
// times one device's difference. A gradient in fp16 that is just below the largest number may be infinite
// under another plan, which then leaves the step out, so the loss is scaled less than by default.
void check_rounding(const RandomJob& random) {
  Point point = trained(random);
  point.job.train.loss_scale = 1024;
  const Start start = start_of(point.job);
  const Outcome exact =
      train(planner::lay_out(alone_of(in_precision(point, ir::Precision::fp64).job)), start, steps);
  const Outcome alone = train(planner::lay_out(alone_of(point.job)), start, steps);
  EXPECT_LE(loss_distance(alone, exact), 0.5 * largest(exact.losses)) << "losses of one device";
  const double tolerance = point.job.train.precision == ir::Precision::fp32 ? 1e-5 : 4e-2;
  EXPECT_LE(loss_distance(train(lay_out(point), start, steps), exact),
            8 * loss_distance(alone, exact) + tolerance * largest(exact.losses))
      << "losses";
}

// --- the CUDA backend, over a stand-in or GPUs

std::unique_ptr<backends::Backend> gpus(int devices) {
  return backends::cuda::make_cuda_backend(devices, {.share_gpus = true});
}

// Kernels of the host, which servers have, run on the CPU backend alone.
bool runs_on_gpus(const RandomJob& job) {
  return runs_wide(job) && job.value("parallel.servers") == "0" && has_gpus();
}

void check_gpus(const RandomJob& random) {
  const Point wide = in_precision(trained(random), ir::Precision::fp64);
  const Start start = start_of(wide.job);
  const planner::LaidOut laid = lay_out(wide);
  const Running running{.graphs = random.value("run.cuda_graph") == "true"};
  std::optional<Outcome> there;
  try {
    there = train(laid, start, steps, gpus, running);
  } catch (const Error& error) {
    if (error.code() != Exit::cannot_run) throw;
    return;  // the GPUs that are here have too little memory
  }
  expect_near(*there, train(laid, start, steps), 10 * wide_tolerance(wide.job));
}

}  // namespace

bool scales_rounding(const RandomJob& job) {
  const std::string& optimizer = job.value("train.optimizer");
  const ir::OptimizerRow* const row = ir::find_optimizer(optimizer);  // null: adamw
  const bool one_key = job.value("model.attention_window") == "1";
  if (row && (row->factored || optimizer == "adagrad")) {
    const planner::Job& jobs = point_of(job).job;
    const bool keys_have_biases = jobs.model.transformer() && (jobs.model->bias || jobs.model->qkv_bias);
    return one_key || keys_have_biases || (row->factored && !jobs.model.transformer());
  }
  return row && row->has_trust() && row->positive > 0 &&
         (one_key || job.value("model.family") == "diffusion_unet");
}

Point point_of(const RandomJob& job) {
  return {cli::resolve(given_of(job)).request.job, job.value(layouts_dimension)};
}

const std::vector<Law>& laws() {
  const auto all = [](const RandomJob&) { return true; };
  static const std::vector<Law> table{
      {"plan", "a legal job compiles to a plan that is proved, and whose text reads back", all, check_plan,
       60},
      {"shortcuts", "the simulator's shortcuts change no time", all, check_shortcuts, 240},
      {"reference", "a step on the reference kernels leaves one device's weights and moments",
       has_reference_step, check_reference, 240},
      {"training", "the CPU backend trains as one device does, in float64", runs_wide, check_training, 240},
      {"rounding", "and in the job's own precision but for rounding", runs_narrow, check_rounding, 240},
      {"gpus", "the CUDA backend trains as the CPU backend does", runs_on_gpus, check_gpus, 480},
      {"program", "`boxcar train` takes what `boxcar simulate` takes, and goes on under another plan",
       has_program_run, check_program, 240},
  };
  return table;
}

}  // namespace boxcar::tests
