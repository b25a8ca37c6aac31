#include "planner/arena.h"

#include <gtest/gtest.h>

#include "planner/program_builder.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

// Writes one-phase programs: act(name, inputs) appends an actor with one output of 1 KiB.
struct Writer {
  ProgramBuilder builder{"p", {Schedule::one_f_one_b, 1, 1, 2}, 0};

  int act(const std::string& name, const std::vector<int>& inputs, const std::string& queue = "compute") {
    ir::Actor actor;
    actor.name = name;
    actor.op = "test";
    actor.queue = builder.queue(queue);
    for (int reg : inputs) actor.inputs.push_back({reg, 1, -1, -1, {}});
    const int reg =
        builder.add_register(name, {{256}, ir::DType::float32}, ir::MemoryKind::activations, 1024);
    actor.outputs = {reg};
    builder.add_actor(std::move(actor));
    return reg;
  }
  int64_t offset(int reg) const { return at(builder.program.registers, reg).offset; }
};

TEST(Arena, AChainNeedsTwoPlaces) {
  Writer w;
  const int a = w.act("a", {}), b = w.act("b", {a}), c = w.act("c", {b}), d = w.act("d", {c});
  w.builder.finish();
  plan_memory(w.builder.program);
  EXPECT_EQ(w.builder.program.arena_bytes, 2048);
  EXPECT_EQ(w.offset(a), w.offset(c));
  EXPECT_EQ(w.offset(b), w.offset(d));
}

// x and y overlap while the all-reduce runs; x is free again only when add begins, which waits for it.
TEST(Arena, ARegisterThatAnotherQueueReadsIsKeptUntilComputeWaitsForIt) {
  Writer w;
  const int x = w.act("x", {}), y = w.act("y", {x}, "net.tp"), z = w.act("z", {}), add = w.act("add", {y, z});
  w.builder.finish();
  plan_memory(w.builder.program);
  EXPECT_NE(w.offset(x), w.offset(y));
  EXPECT_NE(w.offset(x), w.offset(z));
  EXPECT_NE(w.offset(y), w.offset(z));
  EXPECT_EQ(w.offset(add), w.offset(x));
}

TEST(Arena, ARegisterThatNothingWaitsForHasAPlaceOfItsOwn) {
  Writer w;
  const int x = w.act("x", {});
  const int y = w.act("y", {x}, "net.dp");  // read by nobody
  const int a = w.act("a", {}), b = w.act("b", {a});
  w.builder.finish();
  plan_memory(w.builder.program);
  for (int other : {a, b}) {
    EXPECT_NE(w.offset(x), w.offset(other));
    EXPECT_NE(w.offset(y), w.offset(other));
  }
}

// Longer than the call stack could nest.
TEST(Arena, AChainOfAnyLengthHasPlaces) {
  Writer w;
  const int first = w.act("first", {});
  int last = first;
  for (int i = 0; i < 100'000; ++i) last = w.act(std::to_string(i), {last}, "net.dp");
  const int compute = w.act("compute", {last});
  w.builder.finish();
  plan_memory(w.builder.program);
  EXPECT_NE(w.offset(first), w.offset(last));
  EXPECT_EQ(w.offset(compute), w.offset(first));
}

TEST(Arena, ATrainingStepIsPackedTightly) {
  const ir::Plan plan = compile(resolve(small_job(1, 2, 1, 4, 2)));
  const ir::Program& p = plan.programs[0];
  int64_t apart = 0;
  for (const ir::Register& reg : p.registers) apart += reg.bytes * reg.count;
  EXPECT_LT(p.arena_bytes, apart * 7 / 10);
  EXPECT_LE(memory_use(plan)[0].total, p.arena_bytes);
}

}  // namespace
}  // namespace boxcar::planner
