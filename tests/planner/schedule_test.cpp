#include "planner/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {
namespace {

std::string text(const Pipeline& p, int stage) {
  std::string result;
  for (const ir::PhaseRun& run : stage_order(p, stage)) {
    result += fmt::format("{}{}{}.{}", result.empty() ? "" : " ", "FBW"[run.phase / p.chunks],
                          run.phase % p.chunks, run.micro_batch);
  }
  return result;
}

TEST(Schedule, OneFOneBRunsBackwardAsSoonAsItCan) {
  const Pipeline p{Schedule::one_f_one_b, 3, 1, 4};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 B0.3");
  EXPECT_EQ(text(p, 2), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3");
  for (int s = 0; s < 3; ++s) EXPECT_EQ(in_flight(stage_order(p, s), 0, 1), 3 - s);
}

TEST(Schedule, TakesMicroBatchesInFlightByStage) {
  const Pipeline p{Schedule::one_f_one_b, 3, 1, 4, {5, 3, 1}};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 F0.3 B0.0 B0.1 B0.2 B0.3");
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
  EXPECT_EQ(text(p, 2), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3");
  EXPECT_EQ(in_flight(stage_order(p, 1), 0, 1), 3);
}

TEST(Schedule, ReadsBackAndRefusesWhatIsNone) {
  EXPECT_EQ(parse_schedule("5,3,1").in_flight, (std::vector{5, 3, 1}));
  EXPECT_EQ(parse_schedule("zb-h1"), Schedule::zb_h1);
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe-v", "7", "5,3,1"})
    EXPECT_EQ(to_text(parse_schedule(schedule)), schedule);
  for (const char* no : {"", "interleaved", "5,", ",5", "5,0", "5;3"})
    EXPECT_THROW(parse_schedule(no), Error) << no;
}

std::vector<PipelineSchedule> all_schedules() {
  std::vector<PipelineSchedule> all{PipelineSchedule({9, 5, 5, 2})};
  for (const std::string& word : words_of(Schedule()))
    if (const PipelineSchedule schedule = parse_schedule(word); !is_v_shaped(schedule.kind))
      all.push_back(schedule);
  return all;
}

// On four stages all runs of a micro-batch are in order, and the number in flight is that of the formula.
TEST(Schedule, RunsEveryMicroBatchInOrderWithAsManyInFlightAsItsFormula) {
  for (const PipelineSchedule& schedule : all_schedules())
    for (const int micro_batches : {1, 3, 8, 20})
      for (int stage = 0; stage < 4; ++stage) {
        SCOPED_TRACE(fmt::format("{} stage {} of {} micro-batches", to_text(schedule), stage, micro_batches));
        const Pipeline p{schedule.kind, 4, 1, micro_batches, schedule.in_flight};
        const int passes = splits_backward(p, stage) ? 3 : 2;
        std::vector<int> done(static_cast<size_t>(micro_batches));
        for (const ir::PhaseRun& run : stage_order(p, stage))
          EXPECT_EQ(run.phase, done.at(static_cast<size_t>(run.micro_batch))++);
        EXPECT_THAT(done, testing::Each(passes));
        EXPECT_EQ(most_in_flight(schedule, 4, stage, micro_batches),
                  in_flight(stage_order(p, stage), 0, passes - 1));
        const MostOfParts parts = most_of_parts(p, stage);
        EXPECT_EQ(parts.first, in_flight(stage_order(p, stage), 0, 1));
        EXPECT_EQ(parts.second, passes == 3 ? in_flight(stage_order(p, stage), 1, 2) : 0);
      }
}

// In one pass what in_flight says of every chunk, split backward passes or not.
TEST(Schedule, CountsWhatEveryChunkHasInFlight) {
  for (const Pipeline& p :
       {Pipeline{Schedule::one_f_one_b, 4, 3, 8}, Pipeline{Schedule::one_f_one_b, 2, 5, 4},
        Pipeline{Schedule::one_f_one_b, 4, 3, 40}, Pipeline{Schedule::one_f_one_b, 4, 3, 43},
        Pipeline{Schedule::one_f_one_b, 5, 2, 9}, Pipeline{Schedule::one_f_one_b, 3, 4, 50},
        Pipeline{Schedule::one_f_one_b, 4, 2, 3}, Pipeline{Schedule::one_f_one_b, 4, 1, 6},
        Pipeline{Schedule::zb_h2, 3, 1, 7}})
    for (int stage = 0; stage < p.stages; ++stage) {
      const ChunksInFlight counts = chunks_in_flight(p, stage);
      ASSERT_EQ(counts.most.size(), static_cast<size_t>(p.chunks));
      for (int c = 0; c < p.chunks; ++c)
        EXPECT_EQ(at(counts.most, c),
                  in_flight(stage_order(p, stage), forward_phase(c), backward_phase(p, c)));
      int now = 0, most = 0;
      for (const ir::PhaseRun& run : stage_order(p, stage))
        most = std::max(most, now += run.phase < p.chunks ? 1 : run.phase < 2 * p.chunks ? -1 : 0);
      EXPECT_EQ(std::accumulate(counts.at_once.begin(), counts.at_once.end(), 0), most) << p.chunks << stage;
      for (int c = 0; c < p.chunks; ++c) EXPECT_LE(at(counts.at_once, c), at(counts.most, c));
    }
}

constexpr Schedule v_shaped[] = {Schedule::zb_v, Schedule::dualpipe_v};

TEST(Schedule, VShapedOnesRunTheWayBackBeside) {
  const Pipeline v{Schedule::zb_v, 2, 2, 3}, dual{Schedule::dualpipe_v, 2, 2, 4};
  EXPECT_EQ(text(v, 0),
            "F0.0 F0.1 F0.2 F1.0 B1.0 W1.0 F1.1 B1.1 W1.1 B0.0 W0.0 F1.2 B1.2 W1.2 B0.1 W0.1 B0.2 W0.2");
  EXPECT_EQ(text(v, 1),
            "F0.0 F1.0 F0.1 F1.1 B1.0 W1.0 F0.2 B0.0 W0.0 F1.2 B1.1 W1.1 B0.1 B1.2 B0.2 W0.1 W1.2 W0.2");
  EXPECT_EQ(text(dual, 0),
            "F0.0 F0.1 F0.2 F1.0 B1.0 W1.0 F1.1 F0.3 B1.1 W1.1 F1.2 B0.0 W0.0 B1.2 W1.2 F1.3 B0.1 W0.1 B1.3 "
            "W1.3 B0.2 W0.2 B0.3 W0.3");
  EXPECT_EQ(text(dual, 1),
            "F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 W1.0 F1.2 B0.0 W0.0 F0.3 B1.1 W1.1 F1.3 B0.1 W0.1 B1.2 W1.2 B0.2 "
            "W0.2 B1.3 B0.3 W1.3 W0.3");
}

TEST(Schedule, VShapedOnesPlacePartsInAV) {
  const PartPlaces plain{3, false}, v{3, true};
  for (int part = 0; part < 6; ++part) {
    EXPECT_EQ(plain.stage(part), part % 3);
    EXPECT_EQ(v.stage(part), part < 3 ? part : 5 - part);
    for (const PartPlaces& places : {plain, v})
      EXPECT_EQ(places.part(places.stage(part), places.chunk(part)), part);
  }
}

// Both keep about as much as a stage of 1F1B does in whole stages: p of these are 2p halves.
TEST(Schedule, VShapedOnesRunEveryMicroBatchInOrderInBoundedMemory) {
  for (const Schedule kind : v_shaped)
    for (int stages = 2; stages <= 6; ++stages)
      for (int micro_batches = 1; micro_batches <= 4 * stages + 3; ++micro_batches)
        for (int stage = 0; stage < stages; ++stage) {
          const Pipeline p{kind, stages, 2, micro_batches};
          SCOPED_TRACE(fmt::format("{} stage {} of {}, {} micro-batches", to_text(kind), stage, stages,
                                   micro_batches));
          std::map<int, int> next;                  // by phase: the next micro-batch
          std::map<std::pair<int, int>, int> done;  // by chunk and micro-batch: passes
          int held = 0, most = 0;
          for (const ir::PhaseRun& run : stage_order(p, stage)) {
            EXPECT_EQ(run.micro_batch, next[run.phase]++);
            EXPECT_EQ(run.phase / 2, (done[{run.phase % 2, run.micro_batch}]++));
            most = std::max(most, held += run.phase / 2 == 0 ? 1 : run.phase / 2 == 2 ? -1 : 0);
          }
          for (int phase = 0; phase < 6; ++phase) EXPECT_EQ(next[phase], micro_batches);
          EXPECT_LE(most, 2 * stages + (kind == Schedule::dualpipe_v ? 1 : 0));
          if (micro_batches >= 2 * stages) {
            EXPECT_EQ(most, 2 * stages + (kind == Schedule::dualpipe_v ? 1 : 0));
          }
        }
}

TEST(Schedule, CountsWhatVShapedOnesHaveInFlight) {
  for (const Schedule kind : v_shaped)
    for (const int stages : {2, 3, 5})
      for (const int micro_batches : {1, 4, 9, 30, 71})
        for (int stage = 0; stage < stages; ++stage) {
          const Pipeline p{kind, stages, 2, micro_batches};
          const std::vector<ir::PhaseRun> order = stage_order(p, stage);
          const ChunksInFlight counts = chunks_in_flight(p, stage);
          for (int c = 0; c < 2; ++c) {
            EXPECT_EQ(at(counts.most, c), in_flight(order, forward_phase(c), weight_phase(p, c)));
            EXPECT_EQ(at(counts.first, c), in_flight(order, forward_phase(c), backward_phase(p, c)));
            EXPECT_EQ(at(counts.second, c), in_flight(order, backward_phase(p, c), weight_phase(p, c)));
          }
          int now = 0, most = 0;
          for (const ir::PhaseRun& run : order)
            most = std::max(most, now += run.phase / 2 == 0 ? 1 : run.phase / 2 == 2 ? -1 : 0);
          EXPECT_EQ(std::accumulate(counts.at_once.begin(), counts.at_once.end(), 0), most);
        }
}

TEST(Schedule, GpipeRunsAllForwardFirst) {
  const Pipeline p{Schedule::gpipe, 2, 1, 3};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
  EXPECT_EQ(in_flight(stage_order(p, 0), 0, 1), 3);
}

TEST(Schedule, GradientsOfTheHeadWaitOnTheLastStageAlone) {
  const Pipeline p{Schedule::one_f_one_b, 3, 1, 4, {}, 2};
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 B0.3");
  EXPECT_EQ(text(p, 2), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 W0.0 F0.3 B0.3 W0.1 W0.2 W0.3");
  EXPECT_EQ(in_flight(stage_order(p, 2), 1, 2), 3);
  const Pipeline interleaved{Schedule::one_f_one_b, 2, 2, 2, {}, 1};
  EXPECT_EQ(text(interleaved, 1), "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 W1.0 B0.0 B0.1 W1.1");
}

// Gradients of weights follow late on late stages: as many micro-batches wait for them on every stage.
TEST(Schedule, ZbH1KeepsAsMuchInFlightOnEachStageAsTheFirstOf1f1b) {
  const Pipeline p{Schedule::zb_h1, 3, 1, 4};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 B0.0 W0.0 F0.3 B0.1 W0.1 B0.2 W0.2 B0.3 W0.3");
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 B0.0 F0.2 B0.1 W0.0 F0.3 B0.2 W0.1 B0.3 W0.2 W0.3");
  EXPECT_EQ(text(p, 2), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 W0.0 F0.3 B0.3 W0.1 W0.2 W0.3");
  for (int s = 0; s < 3; ++s) {
    EXPECT_EQ(in_flight(stage_order(p, s), 0, 1), 3 - s);
    EXPECT_EQ(in_flight(stage_order(p, s), 0, 2), 3);
    EXPECT_EQ(in_flight(stage_order(p, s), 1, 2), 1 + s);
  }
}

TEST(Schedule, ZbH2HasOneLessThanTwiceTheStagesInFlight) {
  const Pipeline p{Schedule::zb_h2, 2, 1, 5};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 B0.0 W0.0 F0.3 B0.1 W0.1 F0.4 B0.2 W0.2 B0.3 W0.3 B0.4 W0.4");
  EXPECT_EQ(text(p, 1), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 W0.0 F0.3 B0.3 W0.1 F0.4 B0.4 W0.2 W0.3 W0.4");
  for (int s = 0; s < 2; ++s) EXPECT_EQ(in_flight(stage_order(p, s), 0, 2), 3);
}

TEST(Schedule, InterleavingTakesGroupsOfMicroBatchesThroughAllChunks) {
  const Pipeline p{Schedule::one_f_one_b, 2, 2, 4};
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
}

// 5 micro-batches on two stages are a group of 3 and one of 2.
TEST(Schedule, GroupsAreAsLevelAsTheyCanBe) {
  const Pipeline p{Schedule::one_f_one_b, 2, 2, 5};
  EXPECT_EQ(
      text(p, 1),
      "F0.0 F0.1 F0.2 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F0.3 B0.0 F0.4 B0.1 F1.3 B0.2 F1.4 B1.3 B1.4 B0.3 B0.4");
  for (int stages = 2; stages <= 6; ++stages)
    for (int micro_batches = 1; micro_batches <= 4 * stages; ++micro_batches) {
      const Groups groups(Pipeline{Schedule::one_f_one_b, stages, 2, micro_batches});
      EXPECT_EQ(groups.begin(groups.count), micro_batches);
      for (int g = 0; g < groups.count; ++g) {
        const int size = groups.begin(g + 1) - groups.begin(g);
        EXPECT_GE(size, std::min(stages, micro_batches));
        EXPECT_LE(size, groups.largest());
        EXPECT_GE(size, groups.largest() - 1);
      }
      if (micro_batches % stages == 0) {
        EXPECT_EQ(groups.largest(), stages);
      }
    }
}

TEST(Schedule, EveryMicroBatchRunsOnceInEachPhaseInOrder) {
  for (int stages : {1, 2, 4})
    for (int chunks : {1, 2, 3})
      for (int micro_batches : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12}) {
        for (const Schedule kind : {Schedule::one_f_one_b, Schedule::zb_h1, Schedule::zb_h2}) {
          if (chunks > 1 && kind != Schedule::one_f_one_b) continue;
          const Pipeline p{kind, stages, chunks, micro_batches};
          for (int s = 0; s < stages; ++s) {
            std::map<int, int> next;
            for (const ir::PhaseRun& run : stage_order(p, s)) EXPECT_EQ(run.micro_batch, next[run.phase]++);
            EXPECT_EQ(next.size(), (splits_backward(kind) ? 3u : 2u) * static_cast<size_t>(chunks));
            for (const auto& [phase, runs] : next) EXPECT_EQ(runs, p.micro_batches);
          }
        }
      }
}

}  // namespace
}  // namespace boxcar::planner
