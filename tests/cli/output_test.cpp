#include "cli/output.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "support/run_program.h"

namespace boxcar::cli {
namespace {

namespace fs = std::filesystem;

class OutputTest : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  const fs::path folder_ = boxcar::tests::temporary_folder();
};

TEST_P(OutputTest, LeavesNothingWhereASignalEndsTheProcess) {
  const pid_t child = fork();
  if (child == 0) {
    write_file(folder_ / "t.json", [](std::ostream& out) {
      out << "half of it" << std::flush;
      raise(GetParam());
    });
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), GetParam());
  EXPECT_TRUE(fs::is_empty(folder_));
}

INSTANTIATE_TEST_SUITE_P(Signals, OutputTest, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_F(OutputTest, LeavesSignalsAsTheyWere) {
  const auto before = std::signal(SIGTERM, SIG_IGN);
  write_file(folder_ / "t.json", [](std::ostream& out) {
    raise(SIGTERM);
    out << "all of it";
  });
  EXPECT_EQ(std::signal(SIGTERM, before), SIG_IGN);
  EXPECT_EQ(read_file(folder_ / "t.json"), "all of it");
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_DFL);
}

}  // namespace
}  // namespace boxcar::cli
