#include "actors/address.h"

#include <gtest/gtest.h>

#include "sbp/error.h"

namespace boxcar::actors {
namespace {

// Figure 8: node, thread, queue and actor can be read from fields of the 64 bits.
TEST(Address, FieldsOfFigure8) {
  Address a = Address::make(3, 1, 2, 17);
  EXPECT_EQ(a.bits, (uint64_t{3} << 47) | (uint64_t{1} << 36) | (uint64_t{2} << 24) | 17u);
  EXPECT_EQ(a.node(), 3);
  EXPECT_EQ(a.thread(), 1);
  EXPECT_EQ(a.queue(), 2);
  EXPECT_EQ(a.actor(), 17);
  EXPECT_EQ(to_text(a), "3.1.2.17");
}

TEST(Address, LargestFieldsFillAllBits) {
  Address a = Address::make(131071, 2047, 4095, 16777215);
  EXPECT_EQ(a.bits, ~uint64_t{0});
  EXPECT_EQ(to_text(a), "131071.2047.4095.16777215");
  EXPECT_EQ(Address::make(0, 0, 0, 0).bits, 0u);
}

TEST(Address, EachFieldIsIndependent) {
  for (int bit = 0; bit < 64; ++bit) {
    Address a{uint64_t{1} << bit};
    EXPECT_EQ(Address::make(a.node(), a.thread(), a.queue(), a.actor()), a) << bit;
    EXPECT_EQ((a.node() != 0) + (a.thread() != 0) + (a.queue() != 0) + (a.actor() != 0), 1) << bit;
  }
}

TEST(Address, OrderIsByNodeThreadQueueActor) {
  EXPECT_LT(Address::make(0, 2047, 4095, 9), Address::make(1, 0, 0, 0));
  EXPECT_LT(Address::make(1, 0, 4095, 9), Address::make(1, 1, 0, 0));
  EXPECT_LT(Address::make(1, 1, 0, 9), Address::make(1, 1, 1, 0));
}

std::string message_of(int node, int thread, int queue, int actor) {
  try {
    Address::make(node, thread, queue, actor);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::bad_input);
    return e.what();
  }
  return "";
}

TEST(Address, OverflowIsRefused) {
  EXPECT_EQ(message_of(131072, 0, 0, 0), "address: node: 131072, at most 131071");
  EXPECT_EQ(message_of(0, 2048, 0, 0), "address: thread: 2048, at most 2047");
  EXPECT_EQ(message_of(0, 0, 4096, 0), "address: queue: 4096, at most 4095");
  EXPECT_EQ(message_of(0, 0, 0, 16777216), "address: actor: 16777216, at most 16777215");
  EXPECT_EQ(message_of(-1, 0, 0, 0), "address: node: -1, at most 131071");
}

}  // namespace
}  // namespace boxcar::actors
