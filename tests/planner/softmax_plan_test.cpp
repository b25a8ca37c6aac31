// Figure 11 of the paper as a plan: the softmax over classes that four devices share.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/machines/cluster.h"
#include "ir/graph.h"
#include "planner/planner.h"
#include "planner/verify.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

// One line for each act on the device: its op, and the local type of its first result.
std::string acts_of(const ir::Program& program) {
  std::string text;
  for (const ir::Actor& actor : program.actors)
    if (!actor.inputs.empty())
      text += fmt::format("{} {}: {}\n", actor.name, actor.op,
                          ir::to_text(at(program.registers, actor.outputs[0]).type));
  return text;
}

// Features B and weights S(1) make logits S(1). Each device takes its own maxima and sums first, so that one
// number for each sample crosses between devices, twice.
TEST(SoftmaxPlan, ReducesOnEachDeviceBeforeItCommunicates) {
  ir::Builder b("figure11");
  const int devices = b.placement(sbp::Placement::line(4));
  const ir::TensorId x = b.input("x", {{6, 16}, ir::DType::float32});
  const ir::TensorId w = b.parameter("w", {{16, 8}, ir::DType::float32});
  b.place(x, devices, {sbp::Sbp::B()});
  b.place(w, devices, {sbp::Sbp::S(1)});
  const ir::Attrs rows = {{"axes", std::vector<int64_t>{1}}, {"keepdims", true}};
  const ir::TensorId logits = b.op1("matmul", {x, w}, {}, "logits");
  const ir::TensorId below =
      b.op1("sub", {logits, b.op1("reduce_max", {logits}, rows, "largest")}, {}, "below");
  const ir::TensorId powers = b.op1("exp", {below}, {}, "powers");
  b.op1("div", {powers, b.op1("reduce_sum", {powers}, rows, "sum")}, {}, "softmax");
  backends::Cluster cluster;
  cluster.node.gpus = 4;
  const ir::Plan plan = compile(b.finish(), 2, cluster);
  verify(plan);
  ASSERT_EQ(plan.programs.size(), 1u);
  EXPECT_EQ(acts_of(plan.programs[0]), R"(logits matmul: float32[6, 2]
largest reduce_max: float32[6, 1]
largest.all_reduce all_reduce: float32[6, 1]
below sub: float32[6, 2]
powers exp: float32[6, 2]
sum reduce_sum: float32[6, 1]
sum.all_reduce all_reduce: float32[6, 1]
softmax div: float32[6, 2]
)");
}

}  // namespace
}  // namespace boxcar::planner
