// experiments/cpu, which compares with PyTorch: its messages without PyTorch.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace boxcar::cli {
namespace {

using ::testing::MatchesRegex;

struct CompareSaid {
  int exit_code = -1;
  std::string text;  // both streams
};

CompareSaid compare_on_cpu(const std::string& arguments) {
  FILE* pipe = popen(
      fmt::format("'{}' '{}/experiments/cpu/compare' {} 2>&1", BOXCAR_PYTHON, BOXCAR_SOURCE_DIR, arguments)
          .c_str(),
      "r");
  if (!pipe) return {};
  CompareSaid said;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) said.text.append(buffer, n);
  said.exit_code = WEXITSTATUS(pclose(pipe));
  return said;
}

TEST(CpuCompare, TimesSteps) {
  const CompareSaid said = compare_on_cpu(
      fmt::format("gpt-1x16 --cores 1 --rounds 2 --steps 2 --alone --boxcar '{}' --beside '{}'",
                  BOXCAR_PROGRAM, BOXCAR_PROGRAM));
  EXPECT_THAT(said.text,
              MatchesRegex("gpt-1x16    1 core   boxcar   wall [0-9.]+ s \\(least [0-9.]+\\)  processor "
                           "[0-9.]+ s \\(user [0-9.]+\\)  loss 3\\.[0-9]+  of 4 steps\n"
                           "gpt-1x16    1 core   beside   wall .* of 4 steps\n"));
  EXPECT_EQ(said.exit_code, 0);
}

TEST(CpuCompare, SaysWhatIsWrong) {
  const CompareSaid unknown = compare_on_cpu(fmt::format("gpt --boxcar '{}'", BOXCAR_PROGRAM));
  EXPECT_EQ(unknown.text, "compare: no model is named gpt; known are gpt-6x384, gpt-12x768, resnet50\n");
  EXPECT_EQ(unknown.exit_code, 1);
  const CompareSaid failed = compare_on_cpu("gpt-1x16 --cores 1 --alone --boxcar /bin/false");
  EXPECT_EQ(failed.text, "compare: /bin/false: exit code 1\n");
  EXPECT_EQ(failed.exit_code, 1);
}

}  // namespace
}  // namespace boxcar::cli
