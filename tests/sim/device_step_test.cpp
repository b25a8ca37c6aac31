// One step of a plan as one device runs it: nodes, and the nodes for which each waits.
#include "sim/chakra/device_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "planner/verify.h"

namespace boxcar::chakra {
namespace {

// A line a node: "2 b[0] reads 1 after 0".
std::string step_text(const std::string& plan_text, int device) {
  const ir::Plan plan = ir::parse_plan(plan_text);
  ir::check(plan);
  planner::verify(plan);
  const DeviceSteps steps(plan);
  std::string text;
  int number = 0;
  for (const StepNode& node : steps.of(device)) {
    text += fmt::format(
        "{} {}{}[{}]", number++, node.sends ? "send " : "",
        plan.programs[static_cast<size_t>(node.program)].actors[static_cast<size_t>(node.actor)].name,
        node.act);
    if (node.sends) text += fmt::format(" to {}", node.device);
    if (!node.data.empty()) text += fmt::format(" reads {}", fmt::join(node.data, ", "));
    if (!node.order.empty()) text += fmt::format(" after {}", fmt::join(node.order, ", "));
    text += "\n";
  }
  return text;
}

TEST(DeviceStep, WaitsForDataSlotsAndTheQueue) {
  const std::string plan = R"(plan one
devices 1
micro_batches 3
class 0: only

program only
  arena 1024
  phases F
  schedule F[0-2]
  queue copy: copy_in
  queue compute: compute
  %x: int8[64] x2 activations @0
  load test() {seconds=1.0} -> %x on copy in F
  work test(%x) {seconds=1.0} on compute in F
)";
  EXPECT_EQ(step_text(plan, 0), R"(0 load[0]
1 work[0] reads 0
2 load[1] after 0
3 work[1] reads 2 after 1
4 load[2] after 1, 2
5 work[2] reads 4 after 3
)");
}

// A pull is a send on its source: it holds the slot until then, and the queue on which it takes its turn.
TEST(DeviceStep, SendsWhatOthersPull) {
  const std::string plan = R"(plan two
devices 2
micro_batches 2
peers forward: 1 from 0
class 0: first
class 1: second

program first
  arena 1024
  phases F
  schedule F[0-1]
  queue compute: compute
  queue net: network
  %y: int8[64] x1 activations @0
  make test() {seconds=1.0} -> %y on compute in F
  tell test(%y) {seconds=1.0} on net in F

program second
  arena 1024
  phases F
  schedule F[0-1]
  queue compute: compute
  queue net: network
  %x: int8[64] x2 activations @0
  p pull(%y of first via forward) -> %x on net in F bytes 64 turn net
  use test(%x) {seconds=1.0} on compute in F
)";
  EXPECT_EQ(step_text(plan, 0), R"(0 make[0]
1 send p[0] to 1 reads 0
2 tell[0] reads 0 after 1
3 make[1] after 0, 1, 2
4 send p[1] to 1 reads 3 after 1, 2
5 tell[1] reads 3 after 4
)");
  EXPECT_EQ(step_text(plan, 1), R"(0 p[0]
1 use[0] reads 0
2 p[1] after 0
3 use[1] reads 2 after 1
)");
}

}  // namespace
}  // namespace boxcar::chakra
