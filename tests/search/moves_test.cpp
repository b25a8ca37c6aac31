// Moves are rows: a row left out proposes nothing, and proposals are counted.
#include "planner/search/moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "backends/machines/cluster.h"
#include "planner/search/search.h"
#include "sbp/error.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;
using testing::HasSubstr;

// Steps are short, and stages, layouts and states have room for improvement.
Job short_steps() {
  Job job = small_gpt(8);
  job.global_batch = 16;
  return job;
}

int plans(const Outcome& found) {
  int all = 0;
  for (const MoveUse& use : found.moves) all += use.plans;
  return all;
}

TEST(Moves, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Move& move : moves()) {
    EXPECT_TRUE(names.insert(move.name).second) << move.name;
    EXPECT_EQ(&move_named(move.name), &move);
    EXPECT_EQ(move.group == MoveGroup::own, move.jobs == nullptr) << move.name;
    EXPECT_EQ(move.applies == nullptr, move.jobs == nullptr) << move.name;
  }
  try {
    move_named("move-a-layr");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean move-a-layer?"));
  }
}

TEST(Moves, ProposeWhatKeepsTheRules) {
  Job job = short_steps();
  job.parallel.dp = 4, job.parallel.pp = 2, job.parallel.zero = 1;
  const auto levels = [&](const Fixed& fixed) {
    std::set<int> all;
    for (const Job& one : proposals(move_named("shard-states"), {job, {}, fixed}))
      all.insert(one.parallel.zero);
    return all;
  };
  EXPECT_EQ(levels({}), (std::set<int>{0, 2, 3}));
  EXPECT_EQ(levels({.rules = {{{"pp", "zero"},
                               {},
                               "zero 1 at most where pp is 2 or more",
                               [](const Job& j) { return j.parallel.pp == 1 || j.parallel.zero < 2; }}}}),
            std::set<int>{0});
}

// The rules of all dimensions, not only those that a caller adds.
TEST(Moves, ProposeNoLevelOfZeroBesideServers) {
  Job job = short_steps();
  job.parallel.dp = job.gpus;
  const Move& move = move_named("shard-states");
  EXPECT_EQ(proposals(move, {job, {}, {}}).size(), 3);
  job.parallel.servers = 2;
  EXPECT_TRUE(proposals(move, {job, {}, {}}).empty());
}

TEST(Moves, AreCountedWithWhatTheyGain) {
  const Outcome found = search(short_steps(), {}, oracle());
  EXPECT_EQ(plans(found), found.compiled);
  MoveUses uses = found.moves;
  EXPECT_GT(use_of(uses, nullptr).plans, 0);
  EXPECT_GT(use_of(uses, &move_named("lay-out-best")).plans, 0);
  double left = 1, seconds = 0;
  for (const MoveUse& use : uses) {
    EXPECT_LE(use.left, 1);
    EXPECT_GE(use.left, 0);
    EXPECT_TRUE(use.plans == 0 || use.seconds > 0);
    left *= use.left, seconds += use.seconds;
  }
  EXPECT_GT(seconds, 0);
  EXPECT_LT(left, 1);
}

// Here estimates of data parallelism are a tenth too slow, and those of tensor parallelism are right. Of each
// kind one plan is simulated.
TEST(Moves, TryAPlanOfEachKind) {
  Job job = small_gpt(8);
  job.cluster = backends::load_cluster("p3-16xlarge", 8);
  job.model = ir::models::defaults("gpt");
  job.model->layers = 6, job.model->hidden = 2048, job.model->heads = 16;
  job.model->seq = 128, job.model->vocab = 32000;
  job.global_batch = 32, job.train.precision = ir::Precision::fp16;
  const Outcome all = search(job, {}, oracle()),
                some = search(job, {.without_moves = {"other-kinds"}}, oracle());
  MoveUses uses = all.moves;
  EXPECT_GT(use_of(uses, &move_named("other-kinds")).plans, 0);
  EXPECT_LT(all.best.front().seconds, 0.99 * some.best.front().seconds);
}

TEST(Moves, ThatAreLeftOutProposeNothing) {
  const Job job = short_steps();
  const Outcome whole = search(job, {}, oracle());
  for (const char* name : {"shard-states", "lay-out-best", "other-ways"}) {
    Outcome without = search(job, {.without_moves = {name}}, oracle());
    MoveUses uses = whole.moves;
    EXPECT_GT(use_of(uses, &move_named(name)).plans, 0) << name;
    EXPECT_EQ(use_of(without.moves, &move_named(name)).plans, 0) << name;
  }
  SearchOptions none;
  for (const Move& move : moves()) none.without_moves.insert(move.name);
  const Outcome points = search(job, none, oracle());
  EXPECT_EQ(plans(points), points.moves[0].plans);
  for (const Candidate& c : points.best) EXPECT_FALSE(c.move || c.layouts);
  EXPECT_GE(points.best.front().seconds, whole.best.front().seconds);
}

}  // namespace
}  // namespace boxcar::search
