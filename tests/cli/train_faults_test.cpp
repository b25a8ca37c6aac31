// `boxcar train` when the machine fails: full disks, folders that cannot be written or are gone, another run
// in the same folder, a clock that jumps. It ends and leaves the last checkpoint whole, or continues. A
// resumed run equals an undisturbed one, bit for bit.
#include <grp.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <set>
#include <thread>

#include "support/own_mounts.h"
#include "train.h"

namespace boxcar::tests {
namespace {

using Clock = std::chrono::steady_clock;

class TrainFaults : public Train {
 protected:
  void SetUp() override {
    Train::SetUp();
    out_ = path("out");
  }
  // A run left by a failed test is still a child.
  void TearDown() override {
    if (running_ > 0 && waitpid(running_, nullptr, WNOHANG) == 0) kill(running_, SIGKILL);
    Train::TearDown();
  }
  // A run with the same numbers, whatever its number of steps.
  Words with(const std::string& folder, const Words& more) const {
    Words words =
        arguments({"--lr-schedule=constant", "--dp=2", "--zero=1", "--resume", "--checkpoint-dir=" + folder});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Output run_in(const std::string& folder, const Words& more) const {
    Output output = run_program(with(folder, more));
    output.err = replace_all(output.err, folder_.string(), "FOLDER");
    return output;
  }
  static int64_t last_step(const std::string& folder) {
    return std::stoi(bytes_of(folder + "/latest").substr(5));
  }
  // Resumes for one step from the existing checkpoint; the result equals an undisturbed run's.
  void expect_goes_on(const std::string& folder) const {
    const std::string steps = "--steps=" + std::to_string(last_step(folder) + 1),
                      whole = path("whole-" + steps);
    const Output rest = run_in(folder, {steps});
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_EQ(run_in(whole, {steps}).exit_code, 0);
    EXPECT_EQ(checkpoint(folder), checkpoint(whole));
  }

  // Starts a run beside the test, with output and messages in files; runs `as` first.
  pid_t start(
      const std::string& folder, const Words& more, const std::function<void()>& as = [] {}) {
    const Words words = with(folder, more);
    const std::string out = path("lines"), err = path("err");
    std::ofstream(out).close(), std::ofstream(err).close();
    fs::permissions(out, fs::perms::all), fs::permissions(err, fs::perms::all);
    const pid_t child = fork();
    if (child != 0) return running_ = child;
    as();
    if (!freopen(err.c_str(), "w", stderr)) _exit(126);
    run(words, out.c_str());
  }
  // The exit code; -1 where it had to be killed after a minute.
  static int end_of(pid_t child) {
    int status = 0;
    for (const auto end = Clock::now() + std::chrono::minutes(1); waitpid(child, &status, WNOHANG) == 0;) {
      if (Clock::now() > end) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return -1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  template <typename There>
  static bool wait_until(There there) {
    for (const auto end = Clock::now() + std::chrono::minutes(1); !there();) {
      if (Clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  bool wait_for_checkpoint(const std::string& folder) const {
    return wait_until([&] { return fs::exists(folder + "/latest"); });
  }
  std::string err() const { return replace_all(bytes_of(path("err")), folder_.string(), "FOLDER"); }

  std::string out_;
  pid_t running_ = 0;  // the latest started
};

const char* const last_is = "; the last checkpoint is FOLDER/out/step-000002\n";

// With more and more room left, so that each file in turn is the first that does not fit.
TEST_F(TrainFaults, AFullDiskLeavesTheLastCheckpoint) {
  with_own_mounts([&] {
    constexpr int64_t disk = 512 * 1024, step = 24 * 1024;
    mount_small_disk(out_, disk);
    ASSERT_EQ(run_in(out_, {"--steps=2"}).exit_code, 0);
    const auto before = checkpoint(out_);
    std::set<std::string> refused;
    for (int64_t room = 0; room < disk; room += step) {
      const auto space = static_cast<int64_t>(fs::space(out_).available);
      if (space > room) {
        std::ofstream(out_ + "/filler") << std::string(static_cast<size_t>(space - room), 'x');
        ASSERT_LE(static_cast<int64_t>(fs::space(out_).available), room);
      }
      const Output output = run_in(out_, {"--steps=3"});
      fs::remove(out_ + "/filler");
      if (output.exit_code == 0) break;
      EXPECT_EQ(output.exit_code, 3);
      EXPECT_THAT(output.err,
                  MatchesRegex("boxcar: FOLDER/out/.*: cannot be (written|created|flushed): No space left on "
                               "device" +
                               std::string(last_is)));
      refused.insert(output.err);
      EXPECT_EQ(checkpoint(out_), before);
    }
    EXPECT_GE(refused.size(), 2u) << "model and moments";
    expect_goes_on(out_);
  });
}

// The disk fills while steps go on, since all checkpoints are kept.
TEST_F(TrainFaults, ADiskThatFillsLeavesTheLastCheckpoint) {
  with_own_mounts([&] {
    mount_small_disk(out_, 512 * 1024);
    const Output output = run_in(out_, {"--steps=100", "--checkpoint-every=1", "--keep-checkpoints=0"});
    EXPECT_EQ(output.exit_code, 3);
    EXPECT_THAT(
        output.err,
        MatchesRegex(
            "boxcar: device 0: [a-z0-9_.]+: FOLDER/out/.*: cannot be (written|created|flushed): No space "
            "left on device; the last checkpoint is FOLDER/out/step-[0-9]+\n"));
    std::string last = bytes_of(out_ + "/latest");
    last.pop_back();  // the newline
    EXPECT_THAT(output.err, HasSubstr(last + "\n"));
    for (const auto& entry : fs::directory_iterator(out_))  // makes room for the next one
      if (entry.path().filename().string().starts_with("step-") && entry.path().filename() != last)
        fs::remove_all(entry.path());
    expect_goes_on(out_);
  });
}

// Drops rights: root may write everywhere.
void be_nobody() {
  if (getuid() != 0) return;
  if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(125);
}

TEST_F(TrainFaults, AFolderThatCannotBeWrittenIsRefused) {
  fs::create_directories(out_);
  fs::permissions(folder_, fs::perms::all);
  fs::permissions(
      out_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const int exit_code = end_of(start(out_, {"--steps=2"}, be_nobody));
  if (exit_code >= 125) GTEST_SKIP() << "nobody else may run the program";
  EXPECT_EQ(exit_code, 2);
  EXPECT_EQ(err(), "boxcar: --checkpoint-dir: FOLDER/out: cannot be written: Permission denied\n");
  EXPECT_EQ(bytes_of(path("lines")), "");
}

TEST_F(TrainFaults, AFolderThatCannotBeWrittenAnyMoreEndsTheRun) {
  fs::create_directories(out_);
  fs::permissions(folder_, fs::perms::all), fs::permissions(out_, fs::perms::all);
  const pid_t run = start(out_, {"--steps=1000000", "--checkpoint-every=5"}, be_nobody);
  int status = 0;
  ASSERT_TRUE(
      wait_until([&] { return fs::exists(out_ + "/latest") || waitpid(run, &status, WNOHANG) != 0; }));
  if (WIFEXITED(status) && WEXITSTATUS(status) >= 125) GTEST_SKIP() << "nobody else may run the program";
  fs::permissions(
      out_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  EXPECT_EQ(end_of(run), 3);
  EXPECT_THAT(
      err(),
      MatchesRegex("boxcar: device 0: [a-z0-9_.]+: FOLDER/out/.*: cannot be [a-z]+: Permission denied; the "
                   "last checkpoint is FOLDER/out/step-[0-9]+\n"));
  fs::permissions(out_, fs::perms::all);
  expect_goes_on(out_);
}

// The run recreates the folder and locks it. Moving it in the middle of a write is a fault.
TEST_F(TrainFaults, AFolderThatIsMovedIsMadeAnew) {
  int went_on = 0;
  for (int i = 0; i < 20 && went_on < 2; ++i) {
    const std::string moved = path("moved-" + std::to_string(i));
    fs::remove_all(out_);
    const pid_t run = start(out_, {"--steps=1000000", "--checkpoint-every=20"});
    ASSERT_TRUE(wait_for_checkpoint(out_));
    fs::rename(out_, moved);
    int status = 0;
    const auto is_held = [&] { return fs::exists(out_ + "/latest") && !bytes_of(out_ + "/lock").empty(); };
    ASSERT_TRUE(wait_until([&] { return is_held() || waitpid(run, &status, WNOHANG) != 0; }));
    if (is_held()) {
      ++went_on;
      EXPECT_THAT(
          run_in(out_, {"--steps=2"}).err,
          MatchesRegex(
              "boxcar: FOLDER/out: process " + std::to_string(run) +
              " on [^ ]+ writes its checkpoints there .wait until it ends, or use another folder.\n"));
      kill(run, SIGKILL);
      end_of(run);
      expect_goes_on(out_);
    } else {
      EXPECT_EQ(WEXITSTATUS(status), 3);
      EXPECT_THAT(err(), MatchesRegex(
                             "boxcar: device 0: [a-z0-9_.]+: FOLDER/out.*: cannot be [a-z]+: No such file or "
                             "directory\n"));
    }
    expect_goes_on(moved);
  }
  EXPECT_GE(went_on, 1);
}

// The second run names the folder's owner, and gets the folder once the owner is dead, however it died.
TEST_F(TrainFaults, TwoRunsDoNotShareAFolder) {
  const pid_t first = start(out_, {"--steps=1000000", "--checkpoint-every=5"});
  ASSERT_TRUE(wait_for_checkpoint(out_));
  const Output second = run_in(out_, {"--steps=2"});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(
      second.err,
      MatchesRegex("boxcar: FOLDER/out: process " + std::to_string(first) +
                   " on [^ ]+ writes its checkpoints there .wait until it ends, or use another folder.\n"));
  kill(first, SIGKILL);
  EXPECT_EQ(end_of(first), 128 + SIGKILL);
  expect_goes_on(out_);
}

// Nothing waits by the wall clock.
TEST_F(TrainFaults, AClockThatJumpsChangesNothing) {
  const auto jumping = [] { setenv("LD_PRELOAD", BOXCAR_JUMPING_CLOCK, 1); };
  jumping();
  const std::string later = run_another("/bin/date", {"+%s"}).out;
  unsetenv("LD_PRELOAD");
  ASSERT_GT(std::stoll(later), time(nullptr) + 1800) << "the clock does not jump";
  const std::string whole = path("whole");
  const Words words{"--steps=20", "--checkpoint-every=2", "--validate-every=5", "--validation-fraction=0.2",
                    "--chaos=1"};
  EXPECT_EQ(end_of(start(out_, words, jumping)), 0) << err();
  const auto jumped = losses(bytes_of(path("lines")));
  EXPECT_EQ(end_of(start(whole, words)), 0) << err();
  EXPECT_EQ(jumped.size(), 20u);
  EXPECT_EQ(jumped, losses(bytes_of(path("lines"))));
  EXPECT_EQ(checkpoint(out_), checkpoint(whole));
}

}  // namespace
}  // namespace boxcar::tests
