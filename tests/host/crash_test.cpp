// A machine crash at any moment leaves the previous checkpoint or the new one, whole; after a write has
// returned, the new one. The test tries all states that a weak file system may leave (support/crash_states.h)
// and resumes from each.
#include <gtest/gtest.h>

#include <set>

#include "backends/host/checkpoint.h"
#include "backends/host/files.h"
#include "models.h"
#include "support/crash_states.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::host::Checkpoint;
using backends::host::read_checkpoint;
using backends::host::write_checkpoint;
using Calls = std::vector<FileCall>;

constexpr size_t most = 3000;  // states tried in order after one call; further ones are drawn

class Crash : public testing::Test {
 protected:
  Crash() {
    std::mt19937_64 random(61);
    const ir::models::Transformer model = random_model(random, backends::host::Architecture::gpt2);
    for (int64_t step = 0; step < 6; ++step) checkpoints_.push_back(checkpoint(random, model, step));
    replacement_ = checkpoint(random, model, 1);  // another version of an existing step
    replacement_.state.samples = 77;
  }

  static Checkpoint checkpoint(std::mt19937_64& random, const ir::models::Transformer& model, int64_t step) {
    Checkpoint made{model, {step, 0, 0, ""}, random_weights(random, model)};
    made.tensors["ln_f.bias.m"] = random_stored(random, {{step + 1}, ir::DType::float32});
    return made;
  }

  const Checkpoint& at(int64_t step) const { return checkpoints_.at(static_cast<size_t>(step)); }
  std::string folder() const { return disk_ / name_; }
  void write(const Checkpoint& checkpoint, int keep = 2) const {
    write_checkpoint(folder(), checkpoint, keep);
  }
  std::optional<Calls> recorded(const Checkpoint& checkpoint, int keep = 2) const {
    return recorded_calls([&] { write(checkpoint, keep); });
  }

  static bool same(const std::optional<Checkpoint>& found, const Checkpoint* expected) {
    if (!found || !expected) return !found && !expected;
    return found->state == expected->state && found->tensors == expected->tensors;
  }

  // `state` is one of those allowed (null: no checkpoint), and training can resume from it.
  void judge(const DiskState& state, const std::vector<const Checkpoint*>& allowed,
             const std::string& moment) {
    if (HasFailure()) return;
    std::string key = std::to_string(allowed.size());
    for (const auto& [path, bytes] : state) key += path + '\0' + bytes + '\0';
    if (!seen_.insert(std::hash<std::string>()(key)).second) return;
    put_on_disk(state, crashed_.path());
    const std::string folder = crashed_ / name_;
    try {
      const auto found = read_checkpoint(folder, at(0).model);
      const bool legal = std::any_of(allowed.begin(), allowed.end(),
                                     [&](const Checkpoint* expected) { return same(found, expected); });
      EXPECT_TRUE(legal) << moment << ": " << (found ? "step " + std::to_string(found->state.step) : "none");
      write_checkpoint(folder, at(5));
      EXPECT_TRUE(same(read_checkpoint(folder, at(0).model), &at(5))) << moment << ": cannot be gone on from";
    } catch (const Error& error) {
      ADD_FAILURE() << moment << ": " << error.what();
    }
    if (HasFailure())
      for (const auto& [path, bytes] : state) std::printf("%s %zu\n", path.c_str(), bytes.size());
  }

  // A crash after each call of a writer, and when all are done: allowed states are `before`, then `after`.
  void expect_survives(Disk disk, const Calls& calls, const Checkpoint* before, const Checkpoint* after) {
    for (size_t c = 0; c < calls.size(); ++c) {
      disk.apply(calls[c]);
      const bool returned = c + 1 == calls.size();
      std::vector<const Checkpoint*> allowed{after};
      if (!returned) allowed.push_back(before);
      const std::string moment = "after call " + std::to_string(c) + " on " + calls[c].path;
      disk.each_state(most, [&](const DiskState& state) { judge(state, allowed, moment); });
    }
    EXPECT_EQ(disk.now(), state_of(disk_.path())) << "the model is not what the kernel did";
  }

  const TemporaryFolder disk_, crashed_;
  std::string name_ = "out";
  std::vector<Checkpoint> checkpoints_;
  Checkpoint replacement_;
  std::set<size_t> seen_;
};

TEST_F(Crash, OfTheFirstCheckpointInNewFolders) {
  name_ = "runs/today/out";
  const Disk disk(disk_.path());
  const auto calls = recorded(at(0));
  if (!calls) GTEST_SKIP() << "tracing is not allowed here";
  expect_survives(disk, *calls, nullptr, &at(0));
  EXPECT_GT(seen_.size(), 100u);
}

TEST_F(Crash, OfTheNextCheckpoint) {
  write(at(0));
  const Disk disk(disk_.path());
  const auto calls = recorded(at(1));
  if (!calls) GTEST_SKIP() << "tracing is not allowed here";
  expect_survives(disk, *calls, &at(0), &at(1));
}

TEST_F(Crash, WhereOlderOnesAreRemoved) {
  for (int64_t step : {0, 1, 2}) write(at(step), 0);
  const Disk disk(disk_.path());
  const auto calls = recorded(at(3), 1);
  if (!calls) GTEST_SKIP() << "tracing is not allowed here";
  expect_survives(disk, *calls, &at(2), &at(3));
}

TEST_F(Crash, WhereACheckpointIsReplaced) {
  write(at(1));
  const Disk disk(disk_.path());
  const auto calls = recorded(replacement_);
  if (!calls) GTEST_SKIP() << "tracing is not allowed here";
  expect_survives(disk, *calls, &at(1), &replacement_);
}

// A writer killed at any moment, another that begins where it stopped, and a crash at any moment of the
// second.
class CrashAfterAKill : public Crash {
 protected:
  // After every `stride`-th call of the first writer, and after each that changes a name.
  void expect_survives(const Checkpoint* before, const Checkpoint& killed, const Checkpoint& after,
                       size_t stride) {
    if (before) write(*before);
    const Disk begin(disk_.path());
    const auto calls = recorded(killed);
    if (!calls) GTEST_SKIP() << "tracing is not allowed here";
    for (size_t kill = 0; kill <= calls->size(); ++kill) {
      const bool names = kill > 0 && !(*calls)[kill - 1].to.empty();
      if (kill % stride != 0 && !names) continue;
      Disk disk = begin;
      for (size_t c = 0; c < kill; ++c) disk.apply((*calls)[c]);
      put_on_disk(disk.now(), disk_.path());
      const auto rest = recorded(after);
      for (size_t c = 0; c < rest->size(); ++c) {
        disk.apply((*rest)[c]);
        std::vector<const Checkpoint*> allowed{&after};
        if (c + 1 < rest->size()) allowed.push_back(&killed);
        if (c + 1 < rest->size() && kill < calls->size()) allowed.push_back(before);
        disk.each_state(most, [&](const DiskState& state) {
          judge(state, allowed,
                "killed after call " + std::to_string(kill) + ", crashed after " + std::to_string(c));
        });
        if (HasFailure()) return;
      }
    }
  }
};

TEST_F(CrashAfterAKill, OfTheFirstCheckpoint) { expect_survives(nullptr, at(0), at(1), 10); }
TEST_F(CrashAfterAKill, OfTheNextCheckpoint) { expect_survives(&at(1), at(2), at(3), 10); }
TEST_F(CrashAfterAKill, WhereACheckpointIsReplaced) { expect_survives(&at(1), replacement_, at(2), 10); }
TEST_F(CrashAfterAKill, LongOfTheFirstCheckpoint) { expect_survives(nullptr, at(0), at(1), 1); }
TEST_F(CrashAfterAKill, LongOfTheNextCheckpoint) { expect_survives(&at(1), at(2), at(3), 1); }
TEST_F(CrashAfterAKill, LongWhereACheckpointIsReplaced) { expect_survives(&at(1), replacement_, at(2), 1); }

// Any other file has its old or its new contents.
TEST_F(Crash, OfAFileThatIsReplaced) {
  const std::string file = disk_.file("plan.txt", "the old plan\n"), fresh = "a new plan, which is longer\n";
  Disk disk(disk_.path());
  const auto calls =
      recorded_calls([&] { backends::host::write_whole(file, {backends::host::bytes_of(fresh)}); });
  if (!calls) GTEST_SKIP() << "tracing is not allowed here";
  for (size_t c = 0; c < calls->size(); ++c) {
    disk.apply((*calls)[c]);
    disk.each_state(most, [&](const DiskState& state) {
      const std::string& found = state.at("plan.txt");
      EXPECT_TRUE(found == fresh || (found == "the old plan\n" && c + 1 < calls->size())) << found;
    });
  }
}

}  // namespace
}  // namespace boxcar::tests
