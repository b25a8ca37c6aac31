// Training on JPEG files: the acts that read and decode change no number, in any order.
#include <gmock/gmock.h>

#include <set>

#include "actors/training/beginning.h"
#include "actors/training/data.h"
#include "actors/training/evaluate.h"
#include "actors/training/trainer.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/host/encoded_images.h"
#include "backends/jpeg/jpeg.h"
#include "backends/machines/cluster.h"
#include "host/temporary.h"
#include "support/picture_files.h"

namespace boxcar::training {
namespace {

using tests::TemporaryFolder;

struct Recorded : RunListener {
  std::vector<double> losses, validated;
  void step(const StepRecord& record) override { losses.push_back(record.loss); }
  void validation(int64_t, double loss) override { validated.push_back(loss); }
};

class ImageTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (!backends::jpeg::available()) GTEST_SKIP() << "this build has no libjpeg-turbo";
    std::vector<std::pair<std::string, std::string>> files;
    for (int i = 0; i < 10; ++i) {
      const auto paint = [i](int64_t x, int64_t y, int c) {
        return static_cast<uint8_t>((x * (i + 1) + y * c) % 256);
      };
      files.push_back({std::to_string(i) + ".jpg", tests::jpeg_file(40 + i, 36, paint)});
      files.push_back({std::to_string(i) + ".cls", std::to_string(i % 5)});
    }
    run.data = {folder.file("a.tar", tests::tar_file(files))};
    run.steps = 4;
  }

  static planner::ResolvedJob job(int dp) {
    planner::Job job;
    job.model = ir::models::ConvNet{"resnet", 16, 2, 1, 32, 5, false};
    job.train.optimizer = ir::Optimizer::momentum, job.train.learning_rate = 0.01;
    job.train.precision = ir::Precision::fp32;
    job.parallel.dp = dp, job.parallel.micro_batch = 3, job.global_batch = 6 * dp;
    job.cluster = backends::load_cluster("local", dp);
    return planner::resolve(job);
  }

  Recorded train(int dp, bool in_steps, actors::RunOptions options = {}) const {
    const planner::ResolvedJob resolved = job(dp);
    Data data = open_data(run, resolved->model);
    TrainRun plain = run;
    if (!in_steps) plain.data = {"random"}, data.encoded = nullptr;  // each sample in one call, by its load
    const TrainingJob prepared = prepare_training(resolved, plain, 1);
    const auto backend = backends::cpu::make_cpu_backend(prepared.plan.devices);
    Beginning begin = beginning(run, prepared, data.training, "fp32");
    options.seed = run.seed;
    Trainer trainer(prepared, run, *backend, data, nullptr);
    trainer.begin(std::move(begin.tensors), begin.state, options);
    Recorded told;
    trainer.train(told);
    if (options.timeline) acts_ = count_acts(prepared.plan, trainer.timeline());
    return told;
  }

  static std::map<std::string, int> count_acts(const ir::Plan& plan,
                                               const std::vector<actors::RunAct>& timeline) {
    std::map<std::string, int> counts;
    for (const actors::RunAct& act : timeline) {
      const ir::Actor& actor = at(plan.programs[0].actors, act.actor);
      if (actor.is(ir::OpKind::read) || actor.is(ir::OpKind::decode)) ++counts[actor.name];
    }
    return counts;
  }

  TemporaryFolder folder;
  TrainRun run;
  mutable std::map<std::string, int> acts_;
};

TEST_F(ImageTraining, IsTheSameForAnyNumberOfDecodersAndSlots) {
  for (const int dp : {1, 2}) {
    const std::vector<double> wanted = train(dp, false).losses;
    ASSERT_EQ(wanted.size(), 4U);
    EXPECT_NE(wanted[0], wanted[3]);
    for (const int decoders : {1, 2, 5})
      for (const int slots : {1, 3}) {
        run.decoders = decoders, run.prefetch = slots;
        EXPECT_EQ(train(dp, true).losses, wanted) << dp << ", " << decoders << ", " << slots;
      }
    run.decoders = 2, run.prefetch = 2;
    for (int seed = 0; seed < 5; ++seed) EXPECT_EQ(train(dp, true, {.chaos = seed}).losses, wanted) << seed;
  }
}

TEST_F(ImageTraining, ReadsAndDecodesAsActs) {
  run.decoders = 2;
  train(1, true, {.timeline = true});
  EXPECT_THAT(acts_, testing::UnorderedElementsAre(testing::Pair("images.read", 8),
                                                   testing::Pair("images.decode0", 8),
                                                   testing::Pair("images.decode1", 8)));
}

TEST_F(ImageTraining, IsWithoutChanceWhereNothingIsAugmented) {
  run.augment = false, run.seed = 1;
  const std::vector<double> plain = train(1, true).losses;
  EXPECT_THAT(open_data(run, job(1)->model).training, testing::EndsWith(", not augmented"));
  run.augment = true;
  EXPECT_NE(train(1, true).losses, plain);
}

TEST_F(ImageTraining, ValidatesOnImagesThatItDoesNotTrainOn) {
  run.validate_every = 2, run.validation_fraction = 0.3, run.validation_batches = 1;
  const Data data = open_data(run, job(1)->model);
  EXPECT_EQ(data.held_out->count, 3);
  EXPECT_THAT(data.training, testing::StartsWith("7 encoded images"));
  run.augment = false;
  const Data plain = open_data(run, job(1)->model);
  std::set<std::vector<float>> images;
  const auto add = [&images](const backends::host::Samples& samples, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      std::vector<float> image(3 * 32 * 32);
      const sbp::Range whole[] = {{0, 3}, {0, 32}, {0, 32}};
      samples.read("images", i, whole, false, reinterpret_cast<std::byte*>(image.data()));
      images.insert(image);
    }
  };
  add(*plain.samples, 7), add(*plain.held_out->samples, 3);
  EXPECT_EQ(images.size(), 10U);
  const Recorded told = train(1, true);
  ASSERT_EQ(told.validated.size(), 2U);
  EXPECT_NE(told.validated[0], told.validated[1]);
  run.validation_fraction = 0.05;
  EXPECT_EQ(tests::message_of(folder, [&] { open_data(run, job(1)->model); }),
            "2: run.validation_fraction: holds back 0 of 10 images, expected at least one on each side");
}

TEST_F(ImageTraining, EndsAtAFileThatIsNoImage) {
  run.data = {folder.file("b.tar", tests::tar_file({{"1.jpg", "text"}, {"1.cls", "0"}}))};
  EXPECT_THAT(tests::message_of(folder, [&] { train(1, true); }),
              testing::MatchesRegex("3: .*images.decode0: b.tar: 1.jpg: is no whole JPEG file.*"));
}

}  // namespace
}  // namespace boxcar::training
