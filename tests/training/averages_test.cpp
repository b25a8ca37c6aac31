// Running averages of batch norm: the same under every plan that normalises the same parts of the data, in
// checkpoints, and read in validation.
#include <gmock/gmock.h>

#include <cmath>

#include "actors/training/beginning.h"
#include "actors/training/data.h"
#include "actors/training/evaluate.h"
#include "actors/training/trainer.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/host/parts.h"
#include "backends/machines/cluster.h"
#include "host/temporary.h"
#include "ir/ops/batch_statistics.h"
#include "sbp/at.h"

namespace boxcar::training {
namespace {

using backends::host::GlobalTensors;
using backends::host::StoredTensor;
using tests::TemporaryFolder;

struct Validated : RunListener {
  std::vector<double> losses;
  void step(const StepRecord&) override {}
  void validation(int64_t, double loss) override { losses.push_back(loss); }
};

std::vector<double> numbers(const StoredTensor& tensor) {
  std::vector<double> all;
  for (int64_t i = 0; i < tensor.type.elements(); ++i)
    all.push_back(backends::host::load_element(tensor.type.dtype,
                                               tensor.bytes.data() + i * ir::size_of(tensor.type.dtype)));
  return all;
}

class RunningAverages : public testing::Test {
 protected:
  using Change = std::function<void(planner::Job&)>;

  // Two images on a device at once, eight in a step.
  static planner::ResolvedJob job(const Change& change) {
    planner::Job job;
    job.model = ir::models::ConvNet{"resnet", 16, 2, 1, 64, 5, false};
    job.train.optimizer = ir::Optimizer::momentum, job.train.learning_rate = 0.01;
    job.train.precision = ir::Precision::fp64;
    job.parallel.dp = 1, job.parallel.micro_batch = 2, job.global_batch = 8;
    change(job);
    job.gpus = job.parallel.dp * job.parallel.tp * job.parallel.pp;
    job.cluster = backends::load_cluster("local", job.gpus);
    return planner::resolve(job);
  }

  // The state after the run's steps, which ends in a checkpoint in the folder of this name.
  GlobalTensors train(
      const std::string& name, int64_t steps, const Change& change = [](auto&) {}) {
    const planner::ResolvedJob resolved = job(change);
    TrainRun run;
    run.data = {"random"}, run.lr_schedule = "constant", run.steps = steps;
    run.checkpoint_dir = folder / name, run.resume = true;
    const Data data = open_data(run, resolved->model);
    const TrainingJob prepared = prepare_training(resolved, run, 1);
    const auto backend = backends::cpu::make_cpu_backend(prepared.plan.devices);
    const auto held = hold_folder(run, true, by_path);
    Beginning begin = beginning(run, prepared, data.training, "fp64");
    Trainer trainer(prepared, run, *backend, data, held.get());
    trainer.begin(std::move(begin.tensors), begin.state, {.seed = run.seed});
    Validated told;
    trainer.train(told);
    return backends::host::read_checkpoint(run.checkpoint_dir, resolved->model)->tensors;
  }

  static void expect_same(const GlobalTensors& got, const GlobalTensors& wanted, const std::string& what) {
    SCOPED_TRACE(what);
    ASSERT_EQ(got.size(), wanted.size());
    int averages = 0;
    for (const auto& [name, tensor] : wanted) {
      if (ir::is_running_average(name)) ++averages;
      const std::vector<double> a = numbers(got.at(name)), b = numbers(tensor);
      ASSERT_EQ(a.size(), b.size()) << name;
      for (size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(a[i], b[i], 1e-7 * std::max(1.0, std::abs(b[i]))) << name;
    }
    EXPECT_EQ(averages, 2 * 53);
  }

  TemporaryFolder folder;
};

constexpr auto two_replicas_two_stages = [](planner::Job& job) { job.parallel.dp = job.parallel.pp = 2; };

TEST_F(RunningAverages, AreTheSameUnderEveryPlan) {
  const GlobalTensors alone = train("alone", 3);
  for (const auto& [name, tensor] : alone) {
    if (!ir::is_running_average(name)) continue;
    const double begin = name.ends_with(ir::running_mean) ? 0 : 1;
    EXPECT_THAT(numbers(tensor), testing::Not(testing::Contains(begin))) << name;
  }
  expect_same(train("dp2pp2", 3, two_replicas_two_stages), alone, "dp 2, pp 2");
  for (const int zero : {1, 2, 3})
    expect_same(train(fmt::format("zero{}", zero), 3,
                      [zero](planner::Job& job) { job.parallel.dp = 4, job.parallel.zero = zero; }),
                alone, fmt::format("dp 4, zero {}", zero));
  expect_same(train("again", 3,
                    [](planner::Job& job) {
                      job.parallel.pp = 2, job.train.recompute = ir::Recompute::full;
                      job.parallel.schedule = {planner::Schedule::zb_h1};
                    }),
              alone, "pp 2, recomputed, backward passes in two parts");
}

TEST_F(RunningAverages, GoOnFromACheckpoint) {
  const GlobalTensors whole = train("whole", 4);
  train("same", 2);
  const GlobalTensors same = train("same", 4);
  for (const auto& [name, tensor] : whole) EXPECT_EQ(same.at(name).bytes, tensor.bytes) << name;
  train("other", 2, two_replicas_two_stages);
  expect_same(train("other", 4, [](planner::Job& job) { job.parallel.dp = 4, job.parallel.zero = 2; }), whole,
              "from dp 2, pp 2 to dp 4, zero 2");
}

TEST_F(RunningAverages, AreReadInValidation) {
  const GlobalTensors state = train("alone", 3);
  GlobalTensors weights;
  for (const auto& entry : state)
    if (!ir::is_running_average(entry.first)) weights.insert(entry);
  TrainRun run;
  run.data = {"random"}, run.validate_every = 1;
  const ir::models::Model model = job([](auto&) {})->model;
  const Data data = open_data(run, model);
  const auto loss = [&](const GlobalTensors& tensors, int64_t rows) {
    return evaluate(model, tensors, *data.held_out->samples, 8, rows);
  };
  EXPECT_NEAR(loss(state, 2), loss(state, 8), 1e-5);  // however many images are read at once
  EXPECT_GT(std::abs(loss(weights, 2) - loss(weights, 8)), 1e-2);
  EXPECT_GT(std::abs(loss(state, 8) - loss(weights, 8)), 1e-2);
}

// As if this version had never kept them: they begin at mean 0 and variance 1.
TEST_F(RunningAverages, BeginWhereAFileHasNone) {
  const GlobalTensors state = train("alone", 1);
  GlobalTensors weights;
  for (const auto& [name, tensor] : state)
    if (!ir::is_running_average(name) && !name.ends_with(".m")) weights.emplace(name, tensor);
  TrainRun run;
  run.data = {"random"}, run.init_from = folder / "weights.safetensors";
  backends::host::write_safetensors(run.init_from, {weights, {}});
  const planner::ResolvedJob resolved = job([](auto&) {});
  const Beginning begin = beginning(run, prepare_training(resolved, run, 1), "random", "fp64");
  EXPECT_EQ(begin.tensors.at("head.weight").bytes, state.at("head.weight").bytes);
  EXPECT_THAT(numbers(begin.tensors.at("h3.norm1.running_mean")), testing::Each(0.0));
  EXPECT_THAT(numbers(begin.tensors.at("h3.norm1.running_var")), testing::Each(1.0));
  weights.emplace("h3.norm1.running_mean", begin.tensors.at("head.bias"));
  backends::host::write_safetensors(run.init_from, {weights, {}});
  EXPECT_THAT(
      tests::message_of(folder, [&] { backends::host::read_weights(run.init_from, resolved->model); }),
      testing::HasSubstr("h3.norm1.running_mean is float64[5], expected float32[4]"));
}

}  // namespace
}  // namespace boxcar::training
