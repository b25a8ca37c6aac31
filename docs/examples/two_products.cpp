// The program that docs/example.md explains: two matrix products, the first on devices 0 and 1 by rows, the
// second on devices 2 and 3 by columns. Prints its graph and its plan.
#include <fmt/core.h>

#include "backends/machines/cluster.h"
#include "ir/graph.h"
#include "planner/planner.h"
#include "planner/verify.h"

using namespace boxcar;
using sbp::Sbp;

int main() {
  ir::Builder b("table4");
  const int p0 = b.placement(sbp::Placement::line(2, 0));
  const int p1 = b.placement(sbp::Placement::line(2, 2));

  const auto a0 = b.input("A0", {{4, 5}, ir::DType::float32});
  const auto b0 = b.parameter("B0", {{5, 8}, ir::DType::float32});
  b.place(a0, p0, {Sbp::S(0)});
  b.place(b0, p0, {Sbp::B()});
  const auto y0 = b.op1("matmul", {a0, b0}, {}, "Y0");

  const auto moved = b.to_global(y0, p1, {Sbp::B()});
  const auto b1 = b.parameter("B1", {{8, 6}, ir::DType::float32});
  b.place(b1, p1, {Sbp::S(1)});
  b.op1("matmul", {moved, b1}, {}, "Y2");
  const ir::Graph graph = b.finish();
  fmt::print("{}\n", ir::to_text(graph));

  backends::Cluster cluster;
  cluster.node.gpus = 4;
  const ir::Plan plan = planner::compile(graph, 2, cluster);
  planner::verify(plan);
  fmt::print("{}", ir::to_text(plan));
}
