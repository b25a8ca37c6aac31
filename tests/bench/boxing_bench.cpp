// Routes between layouts: along one mesh, which a compilation needs thousands of times (under 10 us), and
// routes that name every device, whose time grows with their length.
#include <benchmark/benchmark.h>

#include "sbp/boxing.h"

namespace boxcar::sbp {
namespace {

const Shape shape{4096, 12288};

void mesh(benchmark::State& state, const char* from, const char* to, Shape mesh, Aim aim) {
  const NdSbp a = parse_nd_sbp(from), b = parse_nd_sbp(to);
  for (auto _ : state) benchmark::DoNotOptimize(mesh_route(shape, mesh, a, b, aim));
}

void box(benchmark::State& state, const char* from, const char* from_devices, const char* to,
         const char* to_devices) {
  const Layout a{shape, parse_nd_sbp(from), parse_placement(from_devices)};
  const Layout b{shape, parse_nd_sbp(to), parse_placement(to_devices)};
  for (auto _ : state) benchmark::DoNotOptimize(sbp::box(a, b));
}

BENCHMARK_CAPTURE(mesh, reduce_scatter, "(P, S(1))", "(S(0), S(1))", {16, 8}, Aim::traffic);
BENCHMARK_CAPTURE(mesh, all_reduce_steps, "(B, P)", "(B, B)", {16, 8}, Aim::steps);
BENCHMARK_CAPTURE(mesh, all_reduce_traffic, "(B, P)", "(B, B)", {16, 8}, Aim::traffic);
BENCHMARK_CAPTURE(mesh, all_gather_1024x8, "(S(0), S(1))", "(S(0), B)", {1024, 8}, Aim::steps);
BENCHMARK_CAPTURE(box, all_reduce_8, "P", "0-7", "B", "0-7");
BENCHMARK_CAPTURE(box, all_to_all_8, "S(0)", "0-7", "S(1)", "0-7");
BENCHMARK_CAPTURE(box, reduce_scatter_128, "(P, S(1))", "0-127:16x8", "(S(0), S(1))", "0-127:16x8");
BENCHMARK_CAPTURE(box, all_reduce_1024, "P", "0-1023", "B", "0-1023");
BENCHMARK_CAPTURE(box, stage_to_stage_128, "(S(0), B)", "0-127:16x8", "(S(0), B)", "128-255:16x8");
BENCHMARK_CAPTURE(box, gather_on_other_devices_64, "S(0)", "0-63", "B", "64-127");
BENCHMARK_CAPTURE(box, nested_64, "(B, S(0))", "0-63:8x8", "(S(0), B)", "0-63:8x8");

}  // namespace
}  // namespace boxcar::sbp

BENCHMARK_MAIN();
