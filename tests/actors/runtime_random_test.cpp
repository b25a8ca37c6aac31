// Random plans run on threads, in one process and in two, leave the values that their registers' versions
// define, whatever the interleaving.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "actors/runtime.h"
#include "sbp/at.h"
#include "support/fake_backend.h"
#include "support/plan_values.h"
#include "support/random_plan.h"

namespace boxcar::actors {
namespace {

using support::FakeCluster;
using support::PlanValues;
using support::Values;

Hooks source_hooks() {
  Hooks hooks;
  hooks.fill = [](int device, const ir::Register& reg, const backends::Moment& moment,
                  std::span<std::byte> bytes) {
    const Values values = support::source_values(device, reg, moment);
    ASSERT_EQ(bytes.size(), values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
  };
  return hooks;
}

// Compares the registers of a process after 2 and 1 more steps with `after`.
void run_process(const ir::Plan& plan, backends::Backend& backend, RunOptions options,
                 const PlanValues& after) {
  Runtime run(plan, backend, source_hooks(), options);
  run.steps(2, 0);
  run.steps(1, 5);
  for (int d = 0; d < plan.devices; ++d) {
    if (!backend.is_local(d)) continue;
    const ir::Program& program = after.program(d);
    for (size_t r = 0; r < program.registers.size(); ++r) {
      const std::vector<std::byte> bytes = run.read(d, program.registers[r].name);
      Values got(bytes.size() / sizeof(float));
      if (!bytes.empty()) std::memcpy(got.data(), bytes.data(), bytes.size());
      ASSERT_EQ(got, after.newest(d, static_cast<int>(r)))
          << "device " << d << " %" << program.registers[r].name;
    }
    ASSERT_LE(at(run.memory(), d).held, program.arena_bytes);
  }
}

void expect_values(const support::RandomPlanOptions& drawn, RunOptions options, int processes, int64_t late) {
  const ir::Plan plan = support::random_plan(drawn);
  ASSERT_NO_THROW(ir::check(plan));
  PlanValues after(plan);
  ASSERT_TRUE(after.run(2, 0));
  ASSERT_TRUE(after.run(1, 5));
  FakeCluster cluster(plan.devices, std::min(processes, plan.devices));
  cluster.act_late(late, late % 2 == 1);  // -1: they act at once
  std::vector<std::thread> running;
  for (int p = 0; p < cluster.processes(); ++p)
    running.emplace_back([&, p] {
      EXPECT_NO_THROW(run_process(plan, cluster.backend(p), options, after)) << "process " << p;
    });
  for (std::thread& thread : running) thread.join();
}

void try_plans(unsigned first, unsigned last, bool late) {
  for (unsigned seed = first; seed < last; ++seed) {
    const support::RandomPlanOptions drawn{.seed = seed, .ordered = seed % 3 != 0, .real = true};
    RunOptions options;
    options.chaos = seed % 4 == 0 ? -1 : seed;
    options.probe = seed % 2 == 0;
    const int processes = 1 + static_cast<int>(seed / 2 % 3);
    SCOPED_TRACE(fmt::format("seed {} on {} processes", seed, processes));
    expect_values(drawn, options, processes, late ? seed : -1);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RuntimeRandom, RegistersHoldWhatTheirVersionsSay) { try_plans(0, 200, false); }
TEST(RuntimeRandom, RegistersHoldItWhereActsHandOverAtLaunch) { try_plans(400, 520, true); }
TEST(RuntimeRandom, LongRegistersHoldWhatTheirVersionsSay) {
  try_plans(600, 4000, false);
  try_plans(4000, 6000, true);
}

}  // namespace
}  // namespace boxcar::actors
