// A writer killed at any moment leaves the previous checkpoint or its own, whole.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include "backends/host/checkpoint.h"
#include "models.h"
#include "sbp/at.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::Checkpoint;
using backends::host::read_checkpoint;
using backends::host::write_checkpoint;

class KilledWriter : public testing::Test {
 protected:
  KilledWriter() {
    std::mt19937_64 random(51);
    const ir::models::Transformer model = random_model(random, backends::host::Architecture::gpt2);
    for (int64_t step = 0; step < 5; ++step) {
      Checkpoint checkpoint{model, {step, 0, 0, ""}, random_weights(random, model)};
      checkpoint.tensors["ln_f.bias.m"] = random_stored(random, {{step + 1}, ir::DType::float32});
      steps_.push_back(std::move(checkpoint));
    }
  }

  static void child(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }

  // The current step, checked to be whole; -1 where there is none.
  int64_t found() const {
    const auto read = read_checkpoint(folder_.path(), steps_[0].model);
    if (!read) return -1;
    EXPECT_EQ(read->tensors, steps_.at(static_cast<size_t>(read->state.step)).tensors);
    return read->state.step;
  }

  TemporaryFolder folder_;
  std::vector<Checkpoint> steps_;
};

// Steps 0, 1, 2, ... written over and over, killed at 50 random moments.
TEST_F(KilledWriter, LeavesAWholeCheckpointAtRandomMoments) {
  using Clock = std::chrono::steady_clock;
  std::mt19937_64 random(52);
  const Clock::time_point start = Clock::now();
  write_checkpoint(folder_.path(), steps_[4]);
  const Clock::duration one = Clock::now() - start;
  std::set<int64_t> seen;
  for (int round = 0; round < 50 || (seen.size() < 2 && round < 200); ++round) {
    const int longest = 4000 + 1000 * std::max(0, round - 50);  // a busy machine starts more slowly
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0)
      child([&] {
        for (int i = 0;; ++i) write_checkpoint(folder_.path(), at(steps_, i % 5));
      });
    std::this_thread::sleep_for(one * static_cast<int>(random() % static_cast<uint64_t>(longest)) / 1000);
    kill(writer, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed";
    const int64_t step = found();
    ASSERT_GE(step, 0) << "round " << round << " lost what was there";
    seen.insert(step);
  }
  EXPECT_GT(seen.size(), 1u);
}

// Runs `work` in a child that is killed before its system call number `call`, counted in entries and exits.
// False where it ended before that, nothing where the system forbids tracing.
std::optional<bool> killed_at(int call, const std::function<void()>& work) {
  const pid_t writer = fork();
  if (writer == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
    raise(SIGSTOP);
    work();
  }
  int status = 0;
  waitpid(writer, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return std::nullopt;
  for (int i = 0; WIFSTOPPED(status) && i < call; ++i) {
    ptrace(PTRACE_SYSCALL, writer, nullptr, nullptr);
    waitpid(writer, &status, 0);
  }
  if (!WIFSTOPPED(status)) return false;
  kill(writer, SIGKILL);
  waitpid(writer, &status, 0);
  return true;
}

// Every moment between two system calls, over a write that makes, replaces and removes.
TEST_F(KilledWriter, LeavesAWholeCheckpointAtEveryMoment) {
  std::set<int64_t> seen;
  for (int call = 1;; ++call) {
    std::filesystem::remove_all(folder_.path());
    for (int64_t step : {0, 1}) write_checkpoint(folder_.path(), at(steps_, step));
    const std::optional<bool> killed =
        killed_at(call, [&] { child([&] { write_checkpoint(folder_.path(), steps_[2]); }); });
    if (!killed) GTEST_SKIP() << "tracing is not allowed here";
    const int64_t step = found();
    ASSERT_TRUE(step == 1 || step == 2) << "killed at call " << call << ": step " << step;
    seen.insert(step);
    write_checkpoint(folder_.path(), steps_[3]);
    ASSERT_EQ(found(), 3);
    if (!*killed) break;
  }
  EXPECT_EQ(seen, (std::set<int64_t>{1, 2}));
}

// The same for a write of a step that already exists and is the last one.
TEST_F(KilledWriter, LeavesAWholeCheckpointWhereItReplacesOne) {
  Checkpoint again = steps_[1];
  again.state.samples = 77;
  std::set<int64_t> seen;
  for (int call = 1;; ++call) {
    std::filesystem::remove_all(folder_.path());
    write_checkpoint(folder_.path(), steps_[1]);
    const std::optional<bool> killed =
        killed_at(call, [&] { child([&] { write_checkpoint(folder_.path(), again); }); });
    if (!killed) GTEST_SKIP() << "tracing is not allowed here";
    ASSERT_EQ(found(), 1) << "killed at call " << call;
    seen.insert(read_checkpoint(folder_.path(), again.model)->state.samples);
    if (!*killed) break;
  }
  EXPECT_EQ(seen, (std::set<int64_t>{0, 77}));
}

}  // namespace
}  // namespace boxcar::tests
