#include "actors/actor.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sbp/error.h"

namespace boxcar::actors {
namespace {

constexpr Message req(int port, int slot) { return {MessageKind::req, port, slot}; }
constexpr Message ack(int port, int slot) { return {MessageKind::ack, port, slot}; }

std::string error_of(const std::function<void()>& f, Exit code = Exit::fault) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  return "no error";
}

std::vector<Effect> act(Actor& actor) {
  std::vector<Effect> effects;
  actor.begin();
  actor.end(effects);
  return effects;
}

// Three actors in a row; each act takes one time unit. step() is one unit: every ready actor acts, then
// messages arrive.
struct Chain {
  std::vector<Actor> actors;

  explicit Chain(std::vector<int> counts) {
    for (size_t i = 0; i < counts.size(); ++i) {
      std::vector<InSpec> ins;
      if (i > 0) ins.push_back({.repeat = 1, .count = counts[i - 1]});
      actors.emplace_back(
          ins, std::vector<OutSpec>{{.count = counts[i], .consumers = i + 1 < counts.size() ? 1 : 0}});
    }
  }

  std::string step() {
    std::string acted;
    for (size_t i = 0; i < actors.size(); ++i) {
      if (!actors[i].ready()) continue;
      actors[i].begin();
      acted += (acted.empty() ? "a" : " a") + std::to_string(i + 1);
    }
    for (size_t i = 0; i < actors.size(); ++i) {
      if (actors[i].acting()) end(i);
    }
    return acted;
  }

  void end(size_t i) {
    std::vector<Effect> effects;
    actors[i].end(effects);
    for (const Effect& e : effects) {
      size_t to = e.kind == MessageKind::req ? i + 1 : i - 1;
      actors[to].receive({e.kind, 0, e.slot});
    }
  }
};

// The paper, section 4.3: "At time 0, a1 produces a register r11, while a2 and a3 are idle because their in
// counters are zero. At time 1, a2 triggers an action because both its in counter and out counter are
// non-zeros. At the same time, a1 triggers an action again because its out counter is still non-zero. At time
// 2, actions of all 3 actors can be triggered."
TEST(Figure6, Times0To2) {
  Chain chain({3, 2, 2});
  EXPECT_EQ(chain.actors[0].out_counter(0), 3);
  EXPECT_EQ(chain.actors[1].in_counter(0), 0);
  EXPECT_EQ(chain.actors[2].in_counter(0), 0);
  EXPECT_EQ(chain.step(), "a1");
  EXPECT_EQ(chain.actors[0].reference_counter(0, 0), 1);  // r11
  EXPECT_EQ(chain.actors[0].out_counter(0), 2);
  EXPECT_EQ(chain.actors[1].in_counter(0), 1);
  EXPECT_EQ(chain.step(), "a1 a2");
  EXPECT_EQ(chain.actors[0].reference_counter(0, 0), 0);  // acknowledged
  EXPECT_EQ(chain.actors[0].reference_counter(0, 1), 1);
  EXPECT_EQ(chain.actors[0].out_counter(0), 2);
  EXPECT_EQ(chain.actors[1].out_counter(0), 1);
  EXPECT_EQ(chain.step(), "a1 a2 a3");
  EXPECT_EQ(chain.step(), "a1 a2 a3");
}

// Back pressure: without acks a producer stops when its out counter is zero.
TEST(Actor, StopsWhereNoSlotIsFree) {
  Actor a({}, {{.count = 2, .consumers = 1}});
  EXPECT_EQ(act(a), (std::vector<Effect>{{MessageKind::req, 0, 0}}));
  EXPECT_EQ(act(a), (std::vector<Effect>{{MessageKind::req, 0, 1}}));
  EXPECT_FALSE(a.ready());
  EXPECT_EQ(a.out_slot(0), -1);
  a.receive(ack(0, 0));
  EXPECT_TRUE(a.ready());
  EXPECT_EQ(a.out_slot(0), 0);
  EXPECT_EQ(a.acts(), 2);
}

TEST(Actor, SlotIsFreeWhenItsLastReaderIsDone) {
  Actor a({}, {{.count = 1, .consumers = 2}});
  act(a);
  EXPECT_EQ(a.reference_counter(0, 0), 2);
  a.receive(ack(0, 0));
  EXPECT_EQ(a.reference_counter(0, 0), 1);
  EXPECT_FALSE(a.ready());
  a.receive(ack(0, 0));
  EXPECT_TRUE(a.ready());
}

TEST(Actor, SlotWithoutReadersIsFreeAtOnce) {
  Actor a({}, {{.count = 1, .consumers = 0}});
  EXPECT_TRUE(act(a).empty());
  EXPECT_TRUE(a.ready());
}

TEST(Actor, NeedsEveryInputAndEveryOutput) {
  Actor a({{}, {}}, {{.count = 1, .consumers = 1}, {.count = 2, .consumers = 1}});
  a.receive(req(1, 0));
  EXPECT_FALSE(a.ready());
  a.receive(req(0, 0));
  EXPECT_TRUE(a.ready());
  EXPECT_EQ(act(a), (std::vector<Effect>{{MessageKind::req, 0, 0},
                                         {MessageKind::req, 1, 0},
                                         {MessageKind::ack, 0, 0},
                                         {MessageKind::ack, 1, 0}}));
  a.receive(req(0, 0));
  a.receive(req(1, 0));
  EXPECT_FALSE(a.ready());  // output 0 has one slot
  a.receive(ack(0, 0));
  EXPECT_TRUE(a.ready());
  EXPECT_EQ(a.out_slot(1), 1);
}

// accumulate 3 to 1, then 1 repeated over 3 acts.
TEST(Actor, EverySendsAfterTheLastOfItsActs) {
  Actor a({}, {{.count = 1, .every = 3, .consumers = 1}});
  EXPECT_TRUE(act(a).empty());
  EXPECT_EQ(a.out_slot(0), 0);  // the same slot again
  EXPECT_TRUE(act(a).empty());
  EXPECT_EQ(act(a), (std::vector<Effect>{{MessageKind::req, 0, 0}}));
  EXPECT_FALSE(a.ready());
}

TEST(Actor, RepeatAcknowledgesAfterTheLastOfItsActs) {
  Actor a({{.repeat = 3, .count = 2}}, {});
  a.receive(req(0, 0));
  EXPECT_TRUE(act(a).empty());
  EXPECT_EQ(a.in_counter(0), 1);
  EXPECT_EQ(a.in_slot(0), 0);
  EXPECT_TRUE(act(a).empty());
  EXPECT_EQ(act(a), (std::vector<Effect>{{MessageKind::ack, 0, 0}}));
  EXPECT_EQ(a.in_slot(0), -1);
  a.receive(req(0, 1));
  EXPECT_EQ(a.in_slot(0), 1);
}

// A weight: one slot, readable before the first step and written again once its readers are done.
TEST(Actor, InitialSlotsAreReadableAtTheStart) {
  Actor a({}, {{.count = 1, .initial = 1, .consumers = 1}});
  EXPECT_FALSE(a.ready());
  EXPECT_EQ(a.start(), (std::vector<Effect>{{MessageKind::req, 0, 0}}));
  EXPECT_EQ(a.reference_counter(0, 0), 1);
  a.receive(ack(0, 0));
  EXPECT_TRUE(a.ready());
  EXPECT_EQ(act(a), (std::vector<Effect>{{MessageKind::req, 0, 0}}));
}

TEST(Actor, WritingStartsAfterTheInitialSlots) {
  Actor a({}, {{.count = 3, .initial = 2, .consumers = 1}});
  EXPECT_EQ(a.out_counter(0), 1);
  EXPECT_EQ(a.start(), (std::vector<Effect>{{MessageKind::req, 0, 0}, {MessageKind::req, 0, 1}}));
  EXPECT_EQ(act(a), (std::vector<Effect>{{MessageKind::req, 0, 2}}));
  a.receive(ack(0, 0));
  EXPECT_EQ(act(a), (std::vector<Effect>{{MessageKind::req, 0, 0}}));
}

TEST(Actor, InitialSlotsWithoutReadersAreFree) {
  Actor a({}, {{.count = 1, .initial = 1, .consumers = 0}});
  EXPECT_TRUE(a.start().empty());
  EXPECT_TRUE(a.ready());
}

TEST(ActorErrors, SpecsThatCannotBe) {
  auto ins = [](InSpec spec) { return error_of([&] { Actor({spec}, {}); }, Exit::bad_input); };
  auto outs = [](OutSpec spec) { return error_of([&] { Actor({}, {spec}); }, Exit::bad_input); };
  EXPECT_EQ(ins({.repeat = 0}), "actor 0: input 0: repeat 0, at least 1");
  EXPECT_EQ(ins({.count = 0}), "actor 0: input 0: count 0, at least 1");
  EXPECT_EQ(outs({.count = 0}), "actor 0: output 0: count 0, at least 1");
  EXPECT_EQ(outs({.every = 0}), "actor 0: output 0: every 0, at least 1");
  EXPECT_EQ(outs({.consumers = -1}), "actor 0: output 0: consumers -1, not negative");
  EXPECT_EQ(outs({.count = 2, .initial = 3}), "actor 0: output 0: initial 3, from 0 to the count 2");
  EXPECT_EQ(outs({.initial = -1}), "actor 0: output 0: initial -1, from 0 to the count 1");
}

TEST(ActorErrors, BeginWhereItIsNotReady) {
  Actor a({{}}, {{.count = 1, .consumers = 1}});
  EXPECT_EQ(error_of([&] { a.begin(); }), "actor 0: input 0: begin, but the in counter is 0");
  a.receive(req(0, 0));
  a.begin();
  EXPECT_EQ(error_of([&] { a.begin(); }), "actor 0: begin, but the actor is acting");
  std::vector<Effect> effects;
  a.end(effects);
  EXPECT_EQ(error_of([&] { a.end(effects); }), "actor 0: end, but the actor is not acting");
  a.receive(req(0, 0));
  EXPECT_EQ(error_of([&] { a.begin(); }), "actor 0: output 0: begin, but the out counter is 0");
}

TEST(ActorErrors, MessagesThatTheProtocolForbids) {
  Actor a({{.count = 2}}, {{.count = 2, .consumers = 1}});
  EXPECT_EQ(error_of([&] { a.receive(req(1, 0)); }), "actor 0: input 1: req, but there are 1 inputs");
  EXPECT_EQ(error_of([&] { a.receive(ack(1, 0)); }), "actor 0: output 1: ack, but there are 1 outputs");
  EXPECT_EQ(error_of([&] { a.receive(req(0, 1)); }), "actor 0: input 0: req for slot 1, expected slot 0");
  EXPECT_EQ(error_of([&] { a.receive(ack(0, 2)); }),
            "actor 0: output 0: ack for slot 2, but there are 2 slots");
  EXPECT_EQ(error_of([&] { a.receive(ack(0, 1)); }),
            "actor 0: output 0: ack for slot 1, which no reader holds");
  a.receive(req(0, 0));
  EXPECT_EQ(error_of([&] { a.receive(req(0, 0)); }), "actor 0: input 0: req for slot 0, expected slot 1");
  a.receive(req(0, 1));
  EXPECT_EQ(error_of([&] { a.receive(req(0, 0)); }),
            "actor 0: input 0: req for slot 0, but all 2 slots are readable already");
  act(a);
  a.receive(ack(0, 0));
  EXPECT_EQ(error_of([&] { a.receive(ack(0, 0)); }),
            "actor 0: output 0: ack for slot 0, which no reader holds");
}

TEST(ActorTable, ReceiveSaysWhenAnActorBecomesReady) {
  ActorTable table;
  std::vector<InSpec> two(2);
  std::vector<OutSpec> one{{.count = 1, .consumers = 1}};
  EXPECT_EQ(table.add({}, one), 0);
  EXPECT_EQ(table.add(two, {}), 1);
  EXPECT_TRUE(table.ready(0));
  EXPECT_FALSE(table.receive(1, req(0, 0)));
  EXPECT_TRUE(table.receive(1, req(1, 0)));
  table.begin(1);
  EXPECT_TRUE(table.acting(1));
  EXPECT_FALSE(table.ready(1));
  EXPECT_EQ(error_of([&] { table.receive(1, req(1, 0)); }),
            "actor 1: input 1: req for slot 0, but all 1 slots are readable already");
}

}  // namespace
}  // namespace boxcar::actors
