// Each row of the dimensions occurs once in each order, and alone distinguishes jobs that differ in it.
#include "planner/search/dimensions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/search/candidate.h"
#include "planner/search/points.h"
#include "search/jobs.h"

namespace boxcar::search {
namespace {

using planner::Job;

Job two_stages() {
  Job job = small_gpt(8);
  job.parallel.pp = 2;
  job.parallel.stage_layers = {1, 1};
  return job;
}

// The same job with another value of one dimension.
Job otherwise(Job job, const Dimension& d) {
  std::visit(
      [&](auto member) {
        auto& value = field(job, member);
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::vector<int>>)
          value.assign(2, value.empty() ? 1 : value.front() + 1);
        else if constexpr (std::is_same_v<T, planner::PipelineSchedule>)
          value = planner::Schedule::gpipe;
        else if constexpr (std::is_same_v<T, planner::MeshOrder>)
          std::ranges::reverse(value);
        else
          value = static_cast<T>(value == T{} ? 1 : 0);
      },
      d.field);
  return job;
}

TEST(Dimensions, HaveAPlaceOfTheirOwnInEachOrder) {
  std::set<std::string> keys, names;
  for (const Dimension& d : dimensions()) {
    EXPECT_TRUE(keys.insert(d.key).second) << d.key;
    EXPECT_TRUE(names.insert(d.name_in_file()).second) << d.key;
    EXPECT_EQ(&dimension(d.key), &d);
    EXPECT_FALSE(d.flag.help.empty()) << d.key;
  }
  for (int Dimension::*column : {&Dimension::chosen, &Dimension::named, &Dimension::change}) {
    std::set<int> places;
    for (const Dimension* d : ordered_by(column)) EXPECT_TRUE(places.insert(d->*column).second) << d->key;
  }
  EXPECT_EQ(ordered_by(&Dimension::chosen).size(), dimensions().size());
}

// A branch's dimensions are chosen before all others that have values.
TEST(Dimensions, BeginWithThoseOfABranch) {
  bool ended = false;
  for (const Dimension* d : ordered_by(&Dimension::chosen)) {
    if (!d->values) continue;
    EXPECT_FALSE(ended && d->branch) << d->key;
    ended |= !d->branch;
  }
  EXPECT_TRUE(ended);
}

TEST(Dimensions, TellJobsApart) {
  Job job = two_stages();
  job.train.recompute = ir::Recompute::full;
  job.train.recompute_layers = {0, 0};
  for (const Dimension& d : dimensions()) {
    const Job other = otherwise(job, d);
    EXPECT_NE(value_of(d, other), value_of(d, job)) << d.key;
    if (d.key == "recompute") continue;  // no layer recomputes
    EXPECT_NE(key_of(other), key_of(job)) << d.key;
    EXPECT_EQ(degrees_of(other) != degrees_of(job), d.degree) << d.key;
  }
}

TEST(Dimensions, LeaveNothingDecided) {
  const Job job = two_stages();
  for (const Dimension& d : dimensions()) {
    EXPECT_EQ(undecided(otherwise(job, d)), undecided(job)) << d.key;
    EXPECT_EQ(value_of(d, undecided(job)), value_of(d, Job())) << d.key;
  }
}

TEST(Dimensions, AreNumbersOrSaySo) {
  Job job;
  set_number(dimension("tp"), job, 8);
  EXPECT_EQ(job.parallel.tp, 8);
  set_number(dimension("sequence_parallel"), job, 1);
  EXPECT_EQ(text_of(dimension("sequence_parallel"), job), "true");
  set_number(dimension("recompute"), job, 2);
  EXPECT_EQ(text_of(dimension("recompute"), job), "full");
  job.parallel.stage_layers = {7, 8};
  EXPECT_EQ(text_of(dimension("stage_layers"), job), "7,8");
  EXPECT_THROW(number_of(dimension("stage_layers"), job), std::logic_error);
  EXPECT_THROW(set_number(dimension("schedule"), job, 1), std::logic_error);
  EXPECT_THROW(dimension("attention"), std::logic_error);
}

// 12 layers, some stages of which have a layer more than others.
TEST(Points, HavePlainPipelinesOfAllLegalNumbersOfStages) {
  for (const int gpus : {5, 7, 8}) {
    Job job = small_gpt(gpus);
    job.model->layers = 12;
    std::set<int> stages;
    each_point(job, {}, [&](const Job& point) {
      if (point.parallel.virtual_stages == 1) stages.insert(point.parallel.pp);
      return true;
    });
    std::set<int> shares;
    for (int pp = 1; pp <= gpus; ++pp)
      if (gpus % pp == 0 && job.global_batch % (gpus / pp) == 0) shares.insert(pp);
    EXPECT_THAT(stages, testing::IsSupersetOf(shares)) << gpus;
  }
}

}  // namespace
}  // namespace boxcar::search
