#include "planner/input_pipeline.h"

#include <gmock/gmock.h>

#include "planner/planner.h"
#include "planner/verify.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

ir::Plan image_plan(int dp, int pp) {
  Job job;
  job.model = ir::models::ConvNet{"resnet", 16, 2, 1, 32, 5, false};
  job.train.optimizer = ir::Optimizer::momentum;
  job.train.precision = ir::Precision::fp32;
  job.gpus = dp * pp, job.parallel.dp = dp, job.parallel.pp = pp;
  job.parallel.micro_batch = 3, job.global_batch = 6 * dp;
  return compile(resolve(job));
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (const std::string line = text.substr(at, end - at); line.find(part) != line.npos)
      lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

TEST(InputPipeline, ReadsAndDecodesInFrontOfALoad) {
  ir::Plan plan = image_plan(1, 1);
  const int64_t arena = plan.programs[0].arena_bytes;
  add_input_pipeline(plan, "images", 2, 3);
  EXPECT_THAT(
      lines_with(to_text(plan), "images."),
      testing::ElementsAre(
          "  %images.files: int8[] x3 workspace bytes 0", "  %images.pixels0: int8[] x3 workspace bytes 0",
          "  %images.pixels1: int8[] x3 workspace bytes 0",
          "  images copy load(%images.pixels0, %images.pixels1) -> %images on copy_in in F0 bytes 36864",
          "  images.read host read() -> %images.files on read in F0",
          "  images.decode0 host decode(%images.files) {decoders=2, part=0} -> "
          "%images.pixels0 on decode0 in F0",
          "  images.decode1 host decode(%images.files) {decoders=2, part=1} -> "
          "%images.pixels1 on decode1 in F0"));
  EXPECT_EQ(plan.programs[0].arena_bytes, arena);
}

// Plans of one and several stages, devices, slots and decoders end, are consistent, and read back. Each
// device that loads images has the actors, and no more decoders than samples.
TEST(InputPipeline, KeepsPlansWhole) {
  for (const auto& [dp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}})
    for (const int decoders : {1, 2, 7})
      for (const int slots : {1, 2, 5}) {
        ir::Plan plan = image_plan(dp, pp);
        add_input_pipeline(plan, "images", decoders, slots);
        ir::check(plan);
        ir::check_types(plan);
        verify(plan);
        EXPECT_EQ(to_text(ir::parse_plan(to_text(plan))), to_text(plan));
        int decode = 0, read = 0;
        for (const ir::RankClass& cls : plan.classes)
          for (const ir::Actor& actor : at(plan.programs, cls.program).actors) {
            decode += actor.is(ir::OpKind::decode) ? static_cast<int>(cls.devices.size()) : 0;
            read += actor.is(ir::OpKind::read) ? static_cast<int>(cls.devices.size()) : 0;
          }
        EXPECT_EQ(read, dp);
        EXPECT_EQ(decode, dp * std::min(decoders, 3));
      }
}

// Decoders have all samples, each once.
TEST(InputPipeline, DealsSamplesToDecoders) {
  for (int64_t rows = 1; rows < 20; ++rows)
    for (int64_t decoders = 1; decoders <= rows; ++decoders) {
      int64_t next = 0;
      for (int64_t part = 0; part < decoders; ++part) {
        const Rows dealt = decoded_rows(rows, part, decoders);
        EXPECT_EQ(dealt.first, next);
        EXPECT_GT(dealt.last, dealt.first);
        next = dealt.last;
      }
      EXPECT_EQ(next, rows);
    }
}

}  // namespace
}  // namespace boxcar::planner
