// The program that docs/example.md explains: two matrix products, the first on devices 0 and 1 by rows, the
// second on devices 2 and 3 by columns. Prints its graph and its plan, runs a step, and prints the result.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "actors/runtime.h"
#include "backends/cpu/cpu_backend.h"
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
  fmt::print("{}\n", ir::to_text(plan));

  const auto backend = backends::cpu::make_cpu_backend(plan.devices);
  actors::Hooks hooks;
  hooks.fill = [](int device, const ir::Register& reg, const backends::Moment& moment,
                  std::span<std::byte> bytes) {
    const int64_t value = reg.name == "A0" ? moment.micro_batch + 1 : device == 3 ? 10 : 1;
    const std::span numbers(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    std::fill(numbers.begin(), numbers.end(), static_cast<float>(value));
  };
  actors::Runtime runtime(plan, *backend, hooks);
  runtime.steps(1, 0);
  for (const int device : {2, 3}) {
    const std::vector<std::byte> bytes = runtime.read(device, "Y2");
    const std::span numbers(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
    fmt::print("Y2 on device {}: {}\n", device, fmt::join(numbers, " "));
  }
}
