#include "actors/bus.h"

#include <gtest/gtest.h>

#include <vector>

namespace boxcar::actors {
namespace {

// The actors of Figure 7: a and b share a thread of node 0, c has another thread there, d and e are on
// node 1.
const Address a = Address::make(0, 0, 0, 0);
const Address b = Address::make(0, 0, 0, 1);
const Address c = Address::make(0, 1, 0, 0);
const Address d = Address::make(1, 0, 0, 0);
const Address e = Address::make(1, 1, 0, 0);

Envelope req(Address to, int slot = 0) { return {to, {MessageKind::req, 0, slot}}; }

TEST(Bus, SameThreadUsesTheLocalQueue) {
  Bus bus;
  EXPECT_EQ(bus.send(a, req(b)), Route::local);
  Envelope got;
  ASSERT_TRUE(bus.next(0, 0, got));
  EXPECT_EQ(got, req(b));
  EXPECT_FALSE(bus.next(0, 0, got));
  EXPECT_EQ(bus.traffic(), (Traffic{1, 0, 0}));
}

TEST(Bus, OtherThreadOfTheNodeUsesItsSharedQueue) {
  Bus bus;
  EXPECT_EQ(bus.send(a, req(c)), Route::shared);
  Envelope got;
  EXPECT_FALSE(bus.next(0, 0, got));
  ASSERT_TRUE(bus.next(0, 1, got));
  EXPECT_EQ(got, req(c));
}

// a sees the message to d like any other; it crosses the network before d's thread polls it.
TEST(Bus, OtherNodeGoesThroughTheNetwork) {
  Bus bus;
  EXPECT_EQ(bus.send(a, req(d)), Route::network);
  Envelope got;
  EXPECT_FALSE(bus.next(1, 0, got));
  EXPECT_FALSE(bus.deliver(1, 0));
  ASSERT_TRUE(bus.deliver(0, 1));
  ASSERT_TRUE(bus.next(1, 0, got));
  EXPECT_EQ(got, req(d));
  EXPECT_FALSE(bus.deliver(0, 1));
  EXPECT_EQ(bus.pending(), 0);
}

// e reads the output of d's pull as if the producer were on its own node.
TEST(Bus, AfterThePullTheConsumerIsLocalToTheNode) {
  EXPECT_EQ(route(d, e), Route::shared);
  EXPECT_EQ(route(e, d), Route::shared);
  EXPECT_EQ(route(d, a), Route::network);
}

TEST(Bus, LocalMessagesComeBeforeSharedOnesAndEachInOrder) {
  Bus bus;
  bus.send(c, req(a, 0));
  bus.send(c, req(b, 1));
  bus.send(b, req(a, 2));
  bus.send(b, req(a, 3));
  EXPECT_EQ(bus.pending(), 4);
  std::vector<int> slots;
  Envelope got;
  while (bus.next(0, 0, got)) slots.push_back(got.message.slot);
  EXPECT_EQ(slots, (std::vector<int>{2, 3, 0, 1}));
  EXPECT_EQ(bus.traffic(), (Traffic{2, 2, 0}));
}

TEST(Bus, NetworkKeepsTheOrderBetweenTwoNodes) {
  Bus bus;
  bus.send(a, req(d, 0));
  bus.send(c, req(e, 1));
  bus.send(a, req(d, 2));
  while (bus.deliver(0, 1)) {
  }
  Envelope got;
  ASSERT_TRUE(bus.next(1, 0, got));
  EXPECT_EQ(got.message.slot, 0);
  ASSERT_TRUE(bus.next(1, 0, got));
  EXPECT_EQ(got.message.slot, 2);
  ASSERT_TRUE(bus.next(1, 1, got));
  EXPECT_EQ(got.message.slot, 1);
  EXPECT_EQ(bus.traffic(), (Traffic{0, 0, 3}));
}

TEST(Bus, RoutesHaveNames) {
  EXPECT_STREQ(to_text(Route::local), "local");
  EXPECT_STREQ(to_text(Route::shared), "shared");
  EXPECT_STREQ(to_text(Route::network), "network");
}

}  // namespace
}  // namespace boxcar::actors
