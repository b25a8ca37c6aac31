// Graphs with placements and layouts given by the user.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_runner.h"
#include "planner/planner.h"
#include "planner/verify.h"
#include "sbp/apply.h"
#include "sbp/error.h"

namespace boxcar::planner {
namespace {

using sbp::Sbp;

// Table 4 of the paper: two products, the first on two devices by rows, the second on two others by columns.
ir::Graph table4() {
  ir::Builder b("table4");
  const int p0 = b.placement(sbp::Placement::line(2, 0)), p1 = b.placement(sbp::Placement::line(2, 2));
  const auto a0 = b.input("A0", {{4, 5}, ir::DType::float32});
  const auto b0 = b.parameter("B0", {{5, 8}, ir::DType::float32});
  b.place(a0, p0, {Sbp::S(0)});
  b.place(b0, p0, {Sbp::B()});
  const auto y0 = b.op1("matmul", {a0, b0}, {}, "Y0");
  const auto moved = b.to_global(y0, p1, {Sbp::B()});
  const auto b1 = b.parameter("B1", {{8, 6}, ir::DType::float32});
  b.place(b1, p1, {Sbp::S(1)});
  b.op1("matmul", {moved, b1}, {}, "Y2");
  return b.finish();
}

backends::Cluster four_devices() {
  backends::Cluster cluster;
  cluster.node.gpus = 4;
  return cluster;
}

TEST(Placed, Table4IsTwoProgramsWithPullsBetween) {
  const ir::Plan plan = compile(table4(), 2, four_devices());
  verify(plan);
  EXPECT_EQ(ir::to_text(plan), R"(plan table4
devices 4
micro_batches 2
fact hardware_flops = 1408
fact memory_limit_bytes = 0
fact micro_batches = 2
fact model_flops = 1408
peers Y0.pull0: 2 from 0, 3 from 0
peers Y0.pull1: 2 from 1, 3 from 1
class 0-1: devices0-1
class 2-3: devices2-3

program devices0-1
  arena 2560
  phases F0, U
  schedule F0[0-1] U
  queue compute: compute
  queue copy_in: copy_in
  queue host: host
  queue net.out: network
  %A0: float32[2, 5] x2 activations bytes 512 @0
  %B0: float32[5, 8] x1 parameters bytes 512 initial 1 @1024
  %Y0: float32[2, 8] x2 activations bytes 512 @1536
  A0 copy load() -> %A0 on copy_in in F0
  B0 host parameter() {seconds=0.0} -> %B0 on host in U
  Y0 matmul(%A0, %B0 repeat 2) {transpose_a=false, transpose_b=false} -> %Y0 on compute in F0

program devices2-3
  arena 3584
  phases F0, U
  schedule F0[0-1] U
  queue compute: compute
  queue net.in: network
  queue host: host
  %Y0.pull0: float32[2, 8] x2 activations bytes 512 @0
  %Y0.pull1: float32[2, 8] x2 activations bytes 512 @1024
  %Y0.concat: float32[4, 8] x1 activations bytes 512 @2560
  %B1: float32[8, 3] x1 parameters bytes 512 initial 1 @2048
  %Y2: float32[4, 3] x1 activations bytes 512 @3072
  Y0.pull0 pull(%Y0 of devices0-1 via Y0.pull0) -> %Y0.pull0 on net.in in F0 bytes 64 turn net.out
  Y0.pull1 pull(%Y0 of devices0-1 via Y0.pull1) -> %Y0.pull1 on net.in in F0 bytes 64 turn net.out
  Y0.concat concat(%Y0.pull0, %Y0.pull1) {axis=0} -> %Y0.concat on compute in F0
  B1 host parameter() {seconds=0.0} -> %B1 on host in U
  Y2 matmul(%Y0.concat, %B1 repeat 2) {transpose_a=false, transpose_b=false} -> %Y2 on compute in F0
)");
}

// Runs z = relu(x) in the wanted layout, x = -15 .. 14, and assembles z from the devices' parts.
void expect_result(const ir::Plan& plan, const sbp::Layout& from, const sbp::Layout& to) {
  HostTensor x = backends::cpu::zeros({{6, 5}, ir::DType::float32}), y = x;
  for (size_t i = 0; i < 30; ++i) {
    x.data[i] = static_cast<double>(i) - 15;
    y.data[i] = std::max(0.0, x.data[i]);
  }
  PlanRunner runner(plan, [&](const ir::Register& reg, int, int device) {
    const auto& devices = from.placement.devices;
    const auto place = std::find(devices.begin(), devices.end(), device) - devices.begin();
    EXPECT_EQ(reg.name, "x");
    return backends::cpu::take(x, sbp::local_ranges(from.shape, from.sbp, from.placement.mesh, place));
  });
  runner.run();
  sbp::Held held;
  for (size_t i = 0; i < to.placement.devices.size(); ++i) {
    const int device = to.placement.devices[i];
    held[device] = {{sbp::local_ranges(to.shape, to.sbp, to.placement.mesh, static_cast<int64_t>(i)),
                     runner.value("z", device).data}};
  }
  EXPECT_EQ(sbp::assemble(to, held), y.data);
}

TEST(Placed, LayoutsMeetOnOverlappingPlacementsAndMeshes) {
  const Sbp s0 = Sbp::S(0), s1 = Sbp::S(1), b = Sbp::B(), p = Sbp::P();
  struct Row {
    sbp::Placement from, to;
    sbp::NdSbp layout, wanted;
  };
  const Row rows[] = {
      {sbp::Placement::line(3, 0), sbp::Placement::line(3, 1), {s0}, {b}},
      {sbp::Placement::line(3, 0), sbp::Placement::line(3, 1), {s0}, {s1}},
      {sbp::Placement::line(4, 0), sbp::Placement::grid({2, 2}, 0), {s0}, {s1, b}},
      {sbp::Placement::grid({2, 2}, 0), sbp::Placement::line(4, 4), {s0, s1}, {s0}},
      {sbp::Placement::line(2, 0), sbp::Placement::line(3, 2), {b}, {p}},
      {sbp::Placement::line(4, 0), sbp::Placement::line(4, 0), {s0}, {b}},
  };
  for (const Row& row : rows) {
    ir::Builder builder("g");
    const int from = builder.placement(row.from), to = builder.placement(row.to);
    const auto x = builder.input("x", {{6, 5}, ir::DType::float32});
    builder.place(x, from, row.layout);
    const auto y = builder.op1("relu", {x}, {}, "y");
    const auto z = builder.to_global(y, to, row.wanted);
    builder.op1("scale", {z}, {}, "z");
    backends::Cluster cluster;
    cluster.nodes = 2;
    const ir::Plan plan = compile(builder.finish(), 3, cluster);
    EXPECT_NO_THROW(verify(plan)) << ir::to_text(plan);
    expect_result(plan, {{6, 5}, row.layout, row.from}, {{6, 5}, row.wanted, row.to});
  }
}

TEST(Placed, ProductsOfSplitsAreReducedWhereTheyAreWanted) {
  ir::Builder b("g");
  const int p0 = b.placement(sbp::Placement::line(2, 0));
  const auto x = b.input("x", {{4, 6}, ir::DType::float32});
  const auto w = b.parameter("w", {{6, 8}, ir::DType::float32});
  b.place(x, p0, {Sbp::S(1)});
  b.place(w, p0, {Sbp::S(0)});
  b.op1("relu", {b.op1("matmul", {x, w}, {}, "y")}, {}, "z");
  backends::Cluster cluster;
  const ir::Plan plan = compile(b.finish(), 1, cluster);
  verify(plan);
  const ir::Actor& reduce = plan.programs[0].actors[3];
  EXPECT_EQ(reduce.name, "y.reduce_scatter");  // relu accepts either; this moves half as much
  EXPECT_EQ(reduce.comm_bytes, 4 * 8 * 4);
}

TEST(Placed, RefusesWhatHasNoPlacementOrTwo) {
  const auto message = [](const ir::Graph& graph) -> std::string {
    try {
      compile(graph, 1, four_devices());
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  ir::Builder none("none");
  none.op1("relu", {none.input("x", {{4}, ir::DType::float32})}, {}, "y");
  EXPECT_EQ(message(none.finish()), "x: has no placement (place it, or one of its inputs)");

  ir::Builder two("two");
  const int p0 = two.placement(sbp::Placement::line(2, 0)), p1 = two.placement(sbp::Placement::line(2, 2));
  const auto x = two.input("x", {{4}, ir::DType::float32}), y = two.input("y", {{4}, ir::DType::float32});
  two.place(x, p0, {Sbp::S(0)});
  two.place(y, p1, {Sbp::S(0)});
  two.op1("add", {x, y}, {}, "z");
  EXPECT_EQ(message(two.finish()), "z: runs on 0-1 and reads %y on 2-3 (use to_global)");

  ir::Builder maxima("maxima");
  const int from = maxima.placement(sbp::Placement::line(2, 0)),
            to = maxima.placement(sbp::Placement::line(2, 2));
  const auto m = maxima.input("m", {{4}, ir::DType::float32});
  maxima.place(m, from, {Sbp::S(0)});
  maxima.op1("relu", {maxima.to_global(m, to, {Sbp::P(sbp::Reduction::max)})}, {}, "r");
  EXPECT_EQ(message(maxima.finish()),
            "m: P(max) on 2-3 cannot be moved to other devices (bring it to B or S first)");
}

}  // namespace
}  // namespace boxcar::planner
