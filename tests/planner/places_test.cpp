// The places of a plan's tensors.
#include "planner/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "plan_runner.h"
#include "planner/laid_out.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

using sbp::Range;
using testing::ElementsAre;

const Place& place_of(const Places& places, const std::string& reg) {
  const Place* place = places.find(reg);
  EXPECT_NE(place, nullptr) << reg;
  return *place;
}

// hidden 16, so the qkv weight is [16, 48]; devices 0 and 1 are tp 0 and 1 of dp 0, 2 and 3 of dp 1.
TEST(Places, AWeightSplitByTpAndItsShards) {
  Job job = small_job(2, 2, 1);
  job.parallel.zero = 1;
  const Places places = places_of(resolve(job));
  const Place& master = place_of(places, "h0.attn.qkv.weight");
  EXPECT_EQ(master.tensor, "h0.attn.qkv.weight");
  EXPECT_FALSE(master.derived);
  EXPECT_THAT(master.ranges[1], ElementsAre(Range{0, 8}, Range{24, 48}));
  EXPECT_THAT(master.ranges[2], ElementsAre(Range{8, 16}, Range{0, 24}));
  EXPECT_THAT(master.first, ElementsAre(true, true, true, true));
  const Place& half = place_of(places, "h0.attn.qkv.weight.half");
  EXPECT_EQ(half.tensor, "h0.attn.qkv.weight");
  EXPECT_EQ(half.type.dtype, ir::DType::float16);
  EXPECT_TRUE(half.derived);
  EXPECT_THAT(half.ranges[2], ElementsAre(Range{0, 16}, Range{0, 24}));
  EXPECT_THAT(half.first, ElementsAre(false, false, false, false));
}

TEST(Places, TheLossIsAShareOfEachDpRankOnTheLastStage) {
  const Places places = places_of(resolve(small_job(2, 2, 2, 2, 2)));
  const Place& loss = place_of(places, "loss");
  EXPECT_TRUE(loss.partial);
  EXPECT_THAT(loss.holds, ElementsAre(false, false, false, false, true, true, true, true));
  EXPECT_THAT(loss.first, ElementsAre(false, false, false, false, true, false, true, false));
  EXPECT_THAT(place_of(places, "tokens").ranges[3], ElementsAre(Range{1, 2}, Range{0, 8}));
  EXPECT_FALSE(place_of(places, "tokens").holds[4]);
  EXPECT_TRUE(place_of(places, "labels").holds[4]);
}

// The register holds each device's share, even if someone reads the sum.
TEST(Places, ALossThatIsReducedIsWatchedAsItIsMade) {
  LaidOut laid = lay_out(resolve(small_job(2, 1, 1)));
  const auto loss = static_cast<size_t>(ir::find_tensor(laid.graph, "loss"));
  laid.pins.stored[loss] = {sbp::Sbp::B()};
  laid = lay_out(laid.graph, laid.mesh, laid.pins, 1);
  EXPECT_EQ(sbp::to_text(laid.layouts.stored[loss]), "B");
  const Places places = places_of(laid);
  EXPECT_TRUE(place_of(places, "loss").partial);
  EXPECT_THAT(place_of(places, "loss").first, ElementsAre(true, true));
}

TEST(Places, MomentsAreWhatOptimizersKeepBesideWeights) {
  const Places places = places_of(resolve(small_job(2, 2, 1)));
  int moments = 0, weights = 0;
  for (const Place& place : places.places) {
    if (!is_state(place)) continue;
    const bool moment = place.reg.ends_with(".m") || place.reg.ends_with(".v");
    EXPECT_EQ(place.holding == Holding::moment, moment) << place.reg;
    ++(moment ? moments : weights);
  }
  EXPECT_GT(weights, 0);
  EXPECT_EQ(moments, 2 * weights);
  EXPECT_EQ(places.loss(), places.find("loss"));
}

TEST(Places, AReplicaIsItsTensor) {
  const Places places = places_of(resolve(small_job(1, 1, 2, 2)));
  const Place& replica = place_of(places, "embedding.word.replica1.m");
  EXPECT_EQ(replica.tensor, "embedding.word.m");
  EXPECT_THAT(replica.holds, ElementsAre(false, true));
  EXPECT_NE(replica.first[1], place_of(places, "embedding.word.m").first[0]);
}

template <typename T>
T pick(std::mt19937& random, std::initializer_list<T> from) {
  return *(from.begin() + std::uniform_int_distribution<size_t>(0, from.size() - 1)(random));
}

Job random_job(std::mt19937& r) {
  Job job = small_job(pick(r, {1, 2, 3}), pick(r, {1, 2, 4}), pick(r, {1, 2}), 2, pick(r, {1, 2}));
  Hints& h = job.parallel;
  h.cp = pick(r, {1, 2}), h.zero = pick(r, {0, 1, 2, 3});
  job.train.precision = pick(r, {ir::Precision::fp16, ir::Precision::fp32});
  job.gpus *= h.cp;
  return job;
}

bool is_loaded(const ir::Program& program, int reg) {
  const ir::Register& r = at(program.registers, reg);
  const std::string& op = at(program.actors, r.producer).op;
  return op == "load" || op == "parameter";
}

// Every register that a driver must fill has a place of the register's own shape, and no place lacks its
// register.
void expect_agreement(const ir::Plan& plan, const Places& places) {
  std::vector<std::map<std::string, ir::TensorType>> registers(static_cast<size_t>(plan.devices));
  for (const ir::RankClass& cls : plan.classes) {
    const ir::Program& program = at(plan.programs, cls.program);
    for (size_t r = 0; r < program.registers.size(); ++r) {
      const ir::Register& reg = program.registers[r];
      for (int device : cls.devices) at(registers, device)[reg.name] = reg.type;
      const bool filled = reg.initial > 0 || updated_in_place(program, static_cast<int>(r)) ||
                          is_loaded(program, static_cast<int>(r));
      ASSERT_TRUE(!filled || reg.bytes == 0 || places.find(reg.name)) << reg.name;
    }
  }
  for (const Place& place : places.places)
    for (size_t device = 0; device < registers.size(); ++device) {
      ASSERT_EQ(place.holds[device], registers[device].contains(place.reg)) << place.reg << " " << device;
      if (!place.holds[device]) continue;
      ir::TensorType type = place.type;
      type.shape.clear();
      for (Range range : place.ranges[device]) type.shape.push_back(range.size());
      ASSERT_EQ(type, registers[device][place.reg]) << place.reg << " on device " << device;
    }
}

// Parts marked `first` cover the whole tensor, each element once.
void expect_cover(const Places& places) {
  std::map<std::string, int64_t> elements, wanted;
  for (const Place& place : places.places) {
    if (place.derived || place.partial) continue;
    wanted[place.tensor] = place.type.elements();
    for (size_t device = 0; device < place.first.size(); ++device) {
      if (!place.first[device]) continue;
      int64_t size = 1;
      for (Range range : place.ranges[device]) size *= range.size();
      elements[place.tensor] += size;
    }
  }
  EXPECT_EQ(elements, wanted);
}

TEST(Places, AgreeWithThePlanForRandomJobs) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; ++i) {
    const ResolvedJob job = resolve(random_job(random));
    const Hints& h = job->parallel;
    SCOPED_TRACE(fmt::format("seed 11 job {}: dp {} tp {} pp {} cp {} zero {} precision {}", i, h.dp, h.tp,
                             h.pp, h.cp, h.zero, static_cast<int>(job->train.precision)));
    const Places places = places_of(job);
    expect_agreement(compile(job), places);
    expect_cover(places);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace boxcar::planner
