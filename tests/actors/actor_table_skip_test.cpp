// Skipping acts of an actor whose counters repeat.
#include <gtest/gtest.h>

#include "actors/actor.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

// An actor that accumulates 5 acts into one slot: 1 act, 3 skipped, then the fifth sends.
TEST(ActorTableSkip, counts_acts_towards_a_rate) {
  ActorTable table;
  std::vector<OutSpec> outs{{.count = 1, .every = 5, .consumers = 1}};
  int actor = table.add({}, outs);
  std::vector<Effect> effects;
  table.begin(actor);
  table.end(actor, effects);
  table.skip(actor, 3);
  EXPECT_EQ(table.acts(actor), 4);
  EXPECT_TRUE(effects.empty());
  table.begin(actor);
  table.end(actor, effects);
  EXPECT_EQ(effects, (std::vector<Effect>{{MessageKind::req, 0, 0}}));
}

TEST(ActorTableSkip, does_not_skip_a_message) {
  ActorTable table;
  std::vector<OutSpec> outs{{.count = 1, .every = 3, .consumers = 1}};
  std::vector<InSpec> ins{{.repeat = 3}};
  int writer = table.add({}, outs), reader = table.add(ins, {});
  table.skip(writer, 2);
  EXPECT_THROW(table.skip(writer, 1), Error);
  EXPECT_THROW(table.skip(reader, 3), Error);
}

}  // namespace
}  // namespace boxcar::actors
