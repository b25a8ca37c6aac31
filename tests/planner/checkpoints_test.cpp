#include "planner/checkpoints.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "planner/planner.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

Job with_zero(Job job, int zero) {
  job.parallel.zero = zero;
  return job;
}

TEST(Checkpoints, EveryPartIsSavedOnceAStepAndOneDeviceWrites) {
  for (const Job& given : {small_job(1, 1, 1, 2), with_zero(small_job(2, 1, 1, 2, 2), 1),
                           with_zero(small_job(2, 1, 1, 2, 2), 3), small_job(2, 2, 2, 2, 2)}) {
    const ResolvedJob job = resolve(given);
    const Places places = places_of(job);
    ir::Plan plan = compile(job);
    add_checkpoints(plan, places, 3);
    ir::check(plan);
    verify(plan);
    EXPECT_EQ(to_text(ir::parse_plan(to_text(plan))), to_text(plan));

    std::map<std::pair<std::string, int>, int> saves;  // by register, device
    int writers = 0;
    for (const ir::RankClass& cls : plan.classes) {
      const ir::Program& program = at(plan.programs, cls.program);
      for (size_t a = 0; a < program.actors.size(); ++a) {
        const ir::Actor& actor = program.actors[a];
        if (actor.op != "save" && actor.op != "write") continue;
        EXPECT_EQ(program.acts_per_step(static_cast<int>(a)), 1) << actor.name;
        if (actor.op == "write") writers += cls.devices.front() == 0 ? 1 : 100;
        if (actor.op == "save")
          for (int device : cls.devices) ++saves[{at(program.registers, actor.inputs[0].reg).name, device}];
      }
    }
    EXPECT_EQ(writers, 1);
    std::set<std::string> tensors;
    for (const Place& place : places.places)
      for (int device = 0; device < plan.devices; ++device)
        if (is_state(place) && at(place.first, device)) {
          EXPECT_EQ((saves[{place.reg, device}]), 1) << place.reg << " on " << device;
          tensors.insert(place.tensor);
        }
    EXPECT_EQ(tensors.size(), 3 * 28u);  // weights and both moments of Adam
  }
}

// One act updates tensors saved before it and tensors saved after it.
TEST(Checkpoints, WaitForNoneThatTheUpdateWaitsFor) {
  Job job = with_zero(small_job(4, 1, 1, 2), 1);
  job.model->experts = 4, job.model->top_k = 2, job.parallel.ep = 4, job.parallel.fused_optimizer = true;
  ir::Plan plan = compile(resolve(job));
  add_checkpoints(plan, places_of(resolve(job)), 3);
  EXPECT_NO_THROW(verify(plan));
}

TEST(Checkpoints, AStateReadAfterItsUpdateIsAStepBehind) {
  const ResolvedJob job = resolve(small_job(1, 1, 1, 2));
  ir::Plan plan = compile(job);
  add_checkpoints(plan, places_of(job), 3);
  const ir::Program& program = plan.programs[0];
  int64_t saves = 0;
  for (const ir::Actor& actor : program.actors) {
    if (actor.op != "save") continue;
    const ir::Register& reg = at(program.registers, actor.inputs[0].reg);
    EXPECT_EQ(ir::attr_int(actor.attrs, "behind"), 1 - reg.initial) << reg.name;
    ++saves;
  }
  EXPECT_EQ(saves, 3 * 28);
}

}  // namespace
}  // namespace boxcar::planner
