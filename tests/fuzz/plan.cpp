// Plan text; for consistent plans also memory, proof that they end, and arenas.
#include "ir/plan.h"

#include "harness.h"
#include "planner/arena.h"
#include "planner/verify.h"
#include "sbp/at.h"

namespace boxcar::fuzz {
namespace {

// Acts of one step on all devices: a proof takes time proportional to these.
double acts(const ir::Plan& plan) {
  double sum = 0;
  for (const ir::RankClass& cls : plan.classes) {
    const ir::Program& program = at(plan.programs, cls.program);
    sum += static_cast<double>(cls.devices.size()) * static_cast<double>(program.actors.size() + 1) *
           static_cast<double>(program.schedule.size() + 1);
  }
  return sum;
}

}  // namespace

void fuzz_plan(std::string_view input) {
  auto plan = reads_back(input, ir::parse_plan, [](const ir::Plan& p) { return ir::to_text(p); });
  if (!plan || !ends([&] { ir::check(*plan); }) || acts(*plan) > 1e5) return;
  ends([&] { planner::memory_use(*plan); });
  ends([&] { planner::verify(*plan); });
  for (ir::Program& program : plan->programs) planner::plan_memory(program);
  ends([&] { planner::verify(*plan); });
  reads_back(ir::to_text(*plan), ir::parse_plan, [](const ir::Plan& p) { return ir::to_text(p); });
}

}  // namespace boxcar::fuzz
