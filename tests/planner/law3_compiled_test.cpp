// Law 3 on compiled plans, and on the same plans with one planted mistake: a slot too few, two acts or two
// phase runs in the wrong order, a register moved in the arena.
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "planner/dry_run.h"
#include "planner/memory_check.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "small_jobs.h"
#include "support/chaos.h"

namespace boxcar::planner {
namespace {

struct Case {
  const char* name;
  std::function<void(Hints&)> change;
  bool recompute = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
const Case cases[] = {
    {"one_f_one_b", [](Hints& h) { h.pp = 3, h.tp = 2; }},
    {"gpipe", [](Hints& h) { h.pp = 2, h.dp = 2, h.schedule = Schedule::gpipe; }},
    {"zb_h1", [](Hints& h) { h.pp = 2, h.tp = 2, h.zero = 2, h.schedule = Schedule::zb_h1; }},
    {"zb_h2", [](Hints& h) { h.pp = 4, h.schedule = Schedule::zb_h2; }, true},
    {"interleaved", [](Hints& h) { h.pp = 2, h.virtual_stages = 2; }, true},
    {"hybrid_zero2", [](Hints& h) { h.dp = 2, h.tp = 2, h.pp = 2, h.zero = 2; }},
    {"zero3", [](Hints& h) { h.dp = 2, h.zero = 3; }, true},
    {"zero3_no_overlap", [](Hints& h) { h.dp = 2, h.zero = 3, h.overlap_grad = h.overlap_param = false; },
     true},
    {"context_parallel", [](Hints& h) { h.cp = 2, h.tp = 2; }},
};

ir::Plan compiled(const Case& c) {
  Job job = small_job(1, 1, 1, 4, 4);
  Hints& h = job.parallel;
  c.change(h);
  job.gpus = h.dp * h.tp * h.pp * h.cp;
  job.global_batch = 4 * h.dp;
  if (c.recompute) job.train.recompute = ir::Recompute::full;
  return compile(resolve(job));
}

class CompiledLaw3 : public testing::TestWithParam<Case> {};

TEST_P(CompiledLaw3, EndsAndKeepsMemoryApartUnderEveryInterleaving) {
  ir::Plan plan = compiled(GetParam());
  ASSERT_NO_THROW(ir::check_types(plan));
  ASSERT_NO_THROW(verify(plan));
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    support::Chaos chaos(plan, seed);
    ASSERT_TRUE(chaos.steps(2));
    ASSERT_EQ(chaos.overlap(), "");
  }
}

using Random = std::mt19937;
size_t any(Random& random, size_t size) { return std::uniform_int_distribution<size_t>(0, size - 1)(random); }

void take_a_slot(ir::Program& program, Random& random) {
  for (int tries = 0; tries < 1000; ++tries) {
    ir::Register& reg = program.registers[any(random, program.registers.size())];
    if (reg.count > std::max(1, reg.initial)) return static_cast<void>(--reg.count);
  }
}

void swap_actors(ir::Program& program, Random& random) {
  size_t a = any(random, program.actors.size()), b = any(random, program.actors.size());
  std::swap(program.actors[a], program.actors[b]);
  for (ir::Register& reg : program.registers) {
    if (reg.producer == static_cast<int>(a)) {
      reg.producer = static_cast<int>(b);
    } else if (reg.producer == static_cast<int>(b)) {
      reg.producer = static_cast<int>(a);
    }
  }
}

void swap_runs(ir::Program& program, Random& random) {
  std::swap(program.schedule[any(random, program.schedule.size())],
            program.schedule[any(random, program.schedule.size())]);
}

void move_register(ir::Program& program, Random& random) {
  ir::Register& reg = program.registers[any(random, program.registers.size())];
  const ir::Register& other = program.registers[any(random, program.registers.size())];
  if (reg.offset >= 0 && other.offset >= 0) reg.offset = other.offset;
}

bool memory_is_apart(const ir::Plan& plan) {
  try {
    check_memory(plan);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Whether micro-batches would be passed on in another order.
bool refused_at_once(const ir::Plan& plan) {
  try {
    ir::check(plan);
  } catch (const Error&) {
    return true;
  }
  return false;
}

void check_mistakes(const Case& c, unsigned first, unsigned rounds) {
  const ir::Plan good = compiled(c);
  constexpr void (*mistakes[])(ir::Program&, Random&) = {take_a_slot, swap_actors, swap_runs, move_register};
  int hang = 0;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE(fmt::format("{}, seed {}", c.name, seed));
    Random random(seed);
    ir::Plan plan = good;
    mistakes[seed % 4](plan.programs[any(random, plan.programs.size())], random);
    if (refused_at_once(plan)) continue;
    bool ends = dry_run(view_of_devices(plan)).ended, apart = memory_is_apart(plan);
    StepView classes = view_of_classes(plan);
    ASSERT_TRUE(classes.exact);
    ASSERT_EQ(dry_run(classes).ended, ends);
    support::Chaos chaos(plan, seed);
    ASSERT_EQ(chaos.steps(2), ends);
    ASSERT_TRUE(!apart || chaos.overlap().empty()) << chaos.overlap();
    hang += !ends;
  }
  EXPECT_GT(hang, 0);
}

TEST_P(CompiledLaw3, MistakesAreFound) { check_mistakes(GetParam(), 1, 24); }
TEST_P(CompiledLaw3, LongMistakesAreFound) { check_mistakes(GetParam(), 1001, 300); }

// Moves registers around collectives, whose lives only the compute queue bounds, onto others of the phase.
void check_moves(const Case& c, unsigned first, unsigned rounds) {
  const ir::Plan good = compiled(c);
  int accepted = 0, shown = 0;
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE(fmt::format("{}, seed {}", c.name, seed));
    Random random(seed);
    ir::Plan plan = good;
    ir::Program& program = plan.programs[any(random, plan.programs.size())];
    std::vector<int> around;
    for (const ir::Actor& actor : program.actors) {
      if (actor.kind != ir::ActorKind::collective) continue;
      around.insert(around.end(), actor.outputs.begin(), actor.outputs.end());
      for (const ir::Input& in : actor.inputs) around.push_back(in.reg);
    }
    ir::Register& moved = at(program.registers, around[any(random, around.size())]);
    auto phase_of = [&](const ir::Register& reg) { return at(program.actors, reg.producer).phase; };
    const ir::Register* other = nullptr;
    do other = &program.registers[any(random, program.registers.size())];
    while (other->offset < 0 || phase_of(*other) != phase_of(moved));
    moved.offset = other->offset;
    bool apart = memory_is_apart(plan);
    if (!apart && seed % 8 != 0) continue;
    support::Chaos chaos(plan, seed);
    ASSERT_TRUE(chaos.steps(1));
    ASSERT_TRUE(!apart || chaos.overlap().empty()) << chaos.overlap();
    accepted += apart;
    shown += !chaos.overlap().empty();
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(shown, 0);
}

TEST_P(CompiledLaw3, MovedRegistersAreApartWhereAccepted) { check_moves(GetParam(), 1, 100); }
TEST_P(CompiledLaw3, LongMovedRegistersAreApartWhereAccepted) { check_moves(GetParam(), 1001, 2000); }

INSTANTIATE_TEST_SUITE_P(Jobs, CompiledLaw3, testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::planner
