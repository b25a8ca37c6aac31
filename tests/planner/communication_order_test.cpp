// The order in which devices reach their communication.
#include "planner/communication_order.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/error_of.h"

namespace boxcar::planner {
namespace {

using support::error_of;

// Two devices in two groups, whose collectives stand in different orders on the two where `crossed`.
ir::Plan plan_of(bool crossed) {
  const std::string a = "  a all_reduce(%x) -> %u on n1 in F over dp bytes 4\n",
                    b = "  b all_reduce(%y) -> %v on n2 in F over dp bytes 4\n";
  const auto program = [&](const char* name, const std::string& acts) {
    return std::string("\nprogram ") + name + R"(
  arena 4096
  phases F
  schedule F[0-1]
  queue compute: compute
  queue n1: network
  queue n2: network
  %x: float32[1] x1 activations bytes 512 @0
  %y: float32[1] x1 activations bytes 512 @512
  %u: float32[1] x1 activations bytes 512 @1024
  %v: float32[1] x1 activations bytes 512 @1536
  x load() -> %x on compute in F
  y load() -> %y on compute in F
)" + acts;
  };
  ir::Plan plan = ir::parse_plan(
      "plan two\ndevices 2\nmicro_batches 2\ncomm dp: groups 1 by 1, ranks 2 by 1\nclass 0: first\nclass 1: "
      "second\n" +
      program("first", a + b) + program("second", crossed ? b + a : a + b));
  ir::check(plan);
  return plan;
}

TEST(CommunicationOrder, HasEveryActOnceAndMembersTogether) {
  const std::vector<std::pair<int, int>> a{{0, 2}, {1, 2}}, b{{0, 3}, {1, 3}};
  std::vector<std::pair<int, int>> expected;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch)
    for (const auto& both : {a, b}) expected.insert(expected.end(), both.begin(), both.end());
  EXPECT_EQ(communication_order(plan_of(false)), expected);
}

TEST(CommunicationOrder, RefusesAPlanThatHasNone) {
  EXPECT_NE(error_of([] { communication_order(plan_of(true)); }, Exit::cannot_run).find("would deadlock"),
            std::string::npos);
}

}  // namespace
}  // namespace boxcar::planner
