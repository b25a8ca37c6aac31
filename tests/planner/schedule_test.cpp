#include "planner/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

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

TEST(Schedule, one_f_one_b_runs_backward_as_soon_as_it_can) {
  const Pipeline p{Schedule::one_f_one_b, 3, 1, 4};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 B0.3");
  EXPECT_EQ(text(p, 2), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3");
  for (int s = 0; s < 3; ++s) EXPECT_EQ(in_flight(stage_order(p, s), 0, 1), 3 - s);
}

TEST(Schedule, takes_micro_batches_in_flight_by_stage) {
  const Pipeline p{Schedule::one_f_one_b, 3, 1, 4, {5, 3, 1}};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 F0.3 B0.0 B0.1 B0.2 B0.3");
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3");
  EXPECT_EQ(text(p, 2), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3");
  EXPECT_EQ(in_flight(stage_order(p, 1), 0, 1), 3);
  EXPECT_EQ(in_flight_of("5,3,1"), (std::vector{5, 3, 1}));
  for (const char* no : {"", "1f1b", "5,", ",5", "5,0", "5;3"}) EXPECT_TRUE(in_flight_of(no).empty()) << no;
}

// In one pass what in_flight says of every chunk, split backward passes or not.
TEST(Schedule, counts_what_every_chunk_has_in_flight) {
  for (const Pipeline& p :
       {Pipeline{Schedule::interleaved, 4, 3, 8}, Pipeline{Schedule::interleaved, 2, 5, 4},
        Pipeline{Schedule::one_f_one_b, 4, 1, 6}, Pipeline{Schedule::zb_h2, 3, 1, 7}})
    for (int stage = 0; stage < p.stages; ++stage) {
      const std::vector<int> counts = chunks_in_flight(p, stage);
      ASSERT_EQ(counts.size(), static_cast<size_t>(p.chunks));
      for (int c = 0; c < p.chunks; ++c)
        EXPECT_EQ(counts[static_cast<size_t>(c)],
                  in_flight(stage_order(p, stage), forward_phase(c), backward_phase(p, c)));
    }
}

TEST(Schedule, gpipe_runs_all_forward_first) {
  const Pipeline p{Schedule::gpipe, 2, 1, 3};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
  EXPECT_EQ(in_flight(stage_order(p, 0), 0, 1), 3);
}

TEST(Schedule, gradients_of_the_head_wait_on_the_last_stage_alone) {
  const Pipeline p{Schedule::one_f_one_b, 3, 1, 4, {}, 2};
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 B0.3");
  EXPECT_EQ(text(p, 2), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 W0.0 F0.3 B0.3 W0.1 W0.2 W0.3");
  EXPECT_EQ(in_flight(stage_order(p, 2), 1, 2), 3);
  const Pipeline interleaved{Schedule::interleaved, 2, 2, 2, {}, 1};
  EXPECT_EQ(text(interleaved, 1), "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 W1.0 B0.0 B0.1 W1.1");
}

// Gradients of weights follow late on late stages: as many micro-batches wait for them on every stage.
TEST(Schedule, zb_h1_keeps_as_much_in_flight_on_each_stage_as_the_first_of_1f1b) {
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

TEST(Schedule, zb_h2_has_one_less_than_twice_the_stages_in_flight) {
  const Pipeline p{Schedule::zb_h2, 2, 1, 5};
  EXPECT_EQ(text(p, 0), "F0.0 F0.1 F0.2 B0.0 W0.0 F0.3 B0.1 W0.1 F0.4 B0.2 W0.2 B0.3 W0.3 B0.4 W0.4");
  EXPECT_EQ(text(p, 1), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 W0.0 F0.3 B0.3 W0.1 F0.4 B0.4 W0.2 W0.3 W0.4");
  for (int s = 0; s < 2; ++s) EXPECT_EQ(in_flight(stage_order(p, s), 0, 2), 3);
}

TEST(Schedule, interleaving_takes_groups_of_micro_batches_through_all_chunks) {
  const Pipeline p{Schedule::interleaved, 2, 2, 4};
  EXPECT_EQ(text(p, 1), "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
}

TEST(Schedule, every_micro_batch_runs_once_in_each_phase_in_order) {
  for (int stages : {1, 2, 4})
    for (int chunks : {1, 2, 3})
      for (int groups : {1, 2, 3}) {
        for (const Schedule kind : {Schedule::one_f_one_b, Schedule::zb_h1, Schedule::zb_h2}) {
          if (chunks > 1 && kind != Schedule::one_f_one_b) continue;
          const Pipeline p{chunks > 1 ? Schedule::interleaved : kind, stages, chunks, stages * groups};
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
