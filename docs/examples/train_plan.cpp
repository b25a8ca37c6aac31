// Trains a small GPT on a text by a plan of two devices, without the command line: what boxcar::training is
// for. Prints the loss of each step.
//
//   train_plan README.md
#include <fmt/core.h>

#include "actors/training/beginning.h"
#include "actors/training/data.h"
#include "actors/training/trainer.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/machines/cluster.h"

using namespace boxcar;

struct Losses : training::RunListener {
  void step(const training::StepRecord& record) override {
    fmt::print("step {}: loss {:.4f}\n", record.step, record.loss);
  }
};

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  planner::Job job;
  job.model->layers = 1, job.model->hidden = 16, job.model->heads = 2, job.model->seq = 8,
  job.model->vocab = 256;
  job.global_batch = 4, job.parallel.dp = 2, job.parallel.micro_batch = 1;
  job.train.precision = ir::Precision::fp32, job.train.learning_rate = 0.01;
  job.cluster = backends::load_cluster("local", 2);

  training::TrainRun run;
  run.data = {argv[1]}, run.steps = 20;
  const training::Data data = training::open_data(run, job.model);
  const training::TrainingJob prepared = training::prepare_training(planner::resolve(job), run, 1);
  const auto backend = backends::cpu::make_cpu_backend(prepared.plan.devices);
  training::Beginning begin = training::beginning(run, prepared, data.training, "fp32");

  training::Trainer trainer(prepared, run, *backend, data, nullptr);
  trainer.begin(std::move(begin.tensors), begin.state, {.seed = run.seed});
  Losses losses;
  trainer.train(losses);
}
