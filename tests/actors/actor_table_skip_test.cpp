// Skipping acts of an actor whose counters repeat, and whole steps of all of them.
#include <gtest/gtest.h>

#include <deque>

#include "actors/actor.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

// An actor that accumulates 5 acts into one slot: 1 act, 3 skipped, then the fifth sends.
TEST(ActorTableSkip, CountsActsTowardsARate) {
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

TEST(ActorTableSkip, DoesNotSkipAMessage) {
  ActorTable table;
  std::vector<OutSpec> outs{{.count = 1, .every = 3, .consumers = 1}};
  std::vector<InSpec> ins{{.repeat = 3}};
  int writer = table.add({}, outs), reader = table.add(ins, {});
  table.skip(writer, 2);
  EXPECT_THROW(table.skip(writer, 1), Error);
  EXPECT_THROW(table.skip(reader, 3), Error);
}

// Two actors, each of which reads the other's output. b also accumulates both acts of a step into a third
// register, which nobody reads. Slots: 3, 2 (one of them initial), and 4.
class Pair {
 public:
  Pair() {
    a_ = table_.add(std::vector<InSpec>{{.count = 2}}, std::vector<OutSpec>{{.count = 3, .consumers = 1}});
    b_ = table_.add(
        std::vector<InSpec>{{.count = 3}},
        std::vector<OutSpec>{{.count = 2, .initial = 1, .consumers = 1}, {.count = 4, .every = 2}});
    std::vector<Effect> effects;
    table_.start(b_, effects);
    send(b_, effects);
  }
  void step() {
    for (int act = 0; act < 2; ++act)
      for (const int actor : {a_, b_}) {
        table_.begin(actor);
        std::vector<Effect> effects;
        table_.end(actor, effects);
        send(actor, effects);
      }
  }
  void advance() {
    for (const int actor : {a_, b_}) table_.advance(actor, 2);
  }
  std::vector<int64_t> seen() const {
    std::vector<int64_t> all;
    for (const int actor : {a_, b_}) {
      all.insert(all.end(), {table_.acts(actor), table_.in_slot(actor, 0), table_.in_counter(actor, 0)});
      for (int out = 0; out < (actor == b_ ? 2 : 1); ++out)
        all.insert(all.end(), {table_.out_slot(actor, out), table_.out_counter(actor, out)});
      for (int slot = 0; slot < 2; ++slot) all.push_back(table_.reference_counter(actor, 0, slot));
    }
    return all;
  }

 private:
  void send(int from, const std::vector<Effect>& effects) {
    for (const Effect& effect : effects)
      if (effect.port == 0) table_.receive(from == a_ ? b_ : a_, {effect.kind, 0, effect.slot});
  }
  ActorTable table_;
  int a_ = 0, b_ = 0;
};

TEST(ActorTableAdvance, IsAStepWithoutItsActs) {
  Pair acts, some;
  for (int step = 0; step < 13; ++step) {
    acts.step();
    step % 3 == 1 ? some.step() : some.advance();
    ASSERT_EQ(some.seen(), acts.seen()) << "step " << step;
  }
}

// A writer and a reader with slots 0 1 2 0 of three in a step; afterwards all slots are free, or not.
TEST(ActorTableRewind, BeginsAtTheFirstSlotWhereAllAreGivenBack) {
  ActorTable table;
  const int writer = table.add({}, std::vector<OutSpec>{{.count = 3, .consumers = 1}}),
            reader = table.add(std::vector<InSpec>{{.count = 3}}, {});
  const auto act = [&](int actor, int other) {
    std::vector<Effect> effects;
    table.begin(actor);
    table.end(actor, effects);
    for (const Effect& effect : effects) table.receive(other, {effect.kind, 0, effect.slot});
  };
  for (int step = 0; step < 2; ++step) {
    std::vector<int> slots;
    for (int i = 0; i < 4; ++i) {
      slots.push_back(table.out_slot(writer, 0));
      act(writer, reader);
      EXPECT_EQ(table.in_slot(reader, 0), slots.back());
      EXPECT_THROW(table.rewind_out(writer, 0), Error);
      EXPECT_THROW(table.rewind_in(reader, 0), Error);
      act(reader, writer);
    }
    EXPECT_EQ(slots, (std::vector{0, 1, 2, 0}));
    table.rewind_out(writer, 0);
    table.rewind_in(reader, 0);
  }
}

// Every slot that can be given, unread.
TEST(ActorTableRewind, DoesNotLeaveSlotsUnread) {
  ActorTable table;
  const int reader = table.add(std::vector<InSpec>{{.count = 3}}, {});
  for (int slot = 0; slot < 3; ++slot) {
    table.receive(reader, {MessageKind::req, 0, slot});
    EXPECT_THROW(table.rewind_in(reader, 0), Error) << slot;
  }
}

TEST(ActorTableAdvance, DoesNotLeaveASlotInPart) {
  ActorTable table;
  const int writer = table.add({}, std::vector<OutSpec>{{.count = 1, .every = 3}}),
            reader = table.add(std::vector<InSpec>{{.repeat = 3}}, {});
  EXPECT_THROW(table.advance(writer, 2), Error);
  EXPECT_THROW(table.advance(reader, 2), Error);
  table.advance(writer, 3);
  EXPECT_EQ(table.acts(writer), 3);
}

}  // namespace
}  // namespace boxcar::actors
