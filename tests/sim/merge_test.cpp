#include "sim/merge.h"

#include <gtest/gtest.h>

#include "sim/queue_order.h"
#include "sim/same.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

using test::make_cluster;
using test::make_plan;
using test::ProgramBuilder;

std::vector<std::vector<int>> groups_of(const ir::Plan& plan, size_t program = 0) {
  std::vector<std::vector<int>> groups;
  const std::vector<Merging> merged = merge(plan);
  for (const Group& group : merged[program].groups) groups.push_back(group.actors);
  return groups;
}

using Groups = std::vector<std::vector<int>>;

TEST(QueueOrder, ComparesActsOverTheSchedule) {
  ProgramBuilder p("p", {"F", "B"});
  p.program.schedule = {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {1, 1}, {1, 2}};
  int f = p.actor("f", 1), g = p.actor("g", 1), b = p.actor("b", 1, 0, 1);
  QueueOrder order(p.program);
  EXPECT_TRUE(order.always_before({f, 1, 0}, {b, 1, 0}));
  EXPECT_FALSE(order.always_before({b, 1, 0}, {f, 1, 0}));
  EXPECT_FALSE(order.always_before({b, 1, 0}, {f, 1, 1}));  // act 0 of b comes after act 1 of f
  EXPECT_TRUE(order.always_before({b, 1, 0}, {f, 1, 2}));
  EXPECT_TRUE(order.always_before({f, 1, 0}, {g, 1, 0}));
  EXPECT_FALSE(order.always_before({g, 1, 0}, {f, 1, 0}));
  EXPECT_TRUE(order.always_before({g, 1, 0}, {f, 1, 1}));
  EXPECT_TRUE(order.always_before({f, 3, 2}, {b, 3, 2}));
  EXPECT_FALSE(order.always_before({f, 3, 2}, {b, 1, 0}));  // three per step against one
}

// Registers between neighbours are implied; the chain is one group.
TEST(Merge, AChainOnOneQueueIsOneAct) {
  ProgramBuilder p("p", {"F"}, 4);
  int a = p.actor("a", 1), b = p.actor("b", 2), c = p.actor("c", 3);
  p.link(a, b, 1, 8);
  p.link(b, c, 1, 8);
  ir::Plan plan = make_plan({{p, {0}}});
  EXPECT_EQ(groups_of(plan), (Groups{{0, 1, 2}}));
  EXPECT_EQ(merge(plan)[0].implied, (std::vector<char>{1, 1}));
  Result result = simulate(plan, make_cluster(1, 1, 0), {.steps = 2});
  EXPECT_EQ(result.step_ends, (std::vector<double>{24, 48}));
  EXPECT_LE(result.events, 9);
}

// Communication by another queue cuts a chain: before its first reader and after its writer.
TEST(Merge, CommunicationCuts) {
  ProgramBuilder p("p", {"F"}, 4);
  int net = p.queue("net", ir::QueueKind::network);
  int a = p.actor("a", 1), b = p.actor("b", 1);
  int reduce = p.actor("reduce", 1, net);
  int c = p.actor("c", 1), d = p.actor("d", 1);
  p.link(a, b);
  p.link(b, reduce);
  int reduced = p.link(reduce, c);
  p.link(c, d);
  p.read(d, reduced);  // also read later: its ack may wait, since reduce acts next after the next act of b
  EXPECT_EQ(groups_of(make_plan({{p, {0}}})), (Groups{{a, b}, {c, d}}));
}

// The remote producer waits only for the slot, so the ack must not be late.
TEST(Merge, AnAckThatSomebodyWaitsForCuts) {
  ProgramBuilder p("p", {"F"}, 4);
  int load = p.actor("load", 1, p.queue("copy", ir::QueueKind::copy_in));
  int a = p.actor("a", 1), b = p.actor("b", 1), c = p.actor("c", 1);
  p.link(load, a);
  p.link(a, b);
  p.link(b, c);
  EXPECT_EQ(groups_of(make_plan({{p, {0}}})), (Groups{{b, c}}));
}

// A count too small for the order stays a matter of messages, so that the run hangs as before.
TEST(Merge, ADependenceThatTheOrderDoesNotImplyKeepsItsMessages) {
  ProgramBuilder p("p", {"F", "B"});
  p.program.schedule = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  int f = p.actor("f", 1), b = p.actor("b", 1, 0, 1);
  int reg = p.link(f, b, 2);
  EXPECT_EQ(merge(make_plan({{p, {0}}}))[0].implied, std::vector<char>{1});
  p.reg(reg).count = 1;
  ir::Plan plan = make_plan({{p, {0}}});
  EXPECT_EQ(merge(plan)[0].implied, std::vector<char>{0});
  EXPECT_ANY_THROW(simulate(plan, make_cluster(1, 1, 0)));
}

// Gradients sent once in 3 acts do not cut; the act that sends runs member by member.
TEST(Merge, RatesMakeSomeActsSpecial) {
  ProgramBuilder p("p", {"B"}, 3);
  int net = p.queue("net", ir::QueueKind::network);
  int a = p.actor("a", 1), b = p.actor("b", 1), reduce = p.actor("reduce", 1, net);
  p.reg(p.link(a, reduce)).every = 3;
  p.link(a, b);
  p.program.phases.push_back("U");
  p.program.schedule.push_back({1, 0});
  p.act(reduce).phase = 1;
  ir::Plan plan = make_plan({{p, {0}}});
  ASSERT_EQ(groups_of(plan), (Groups{{a, b}}));
  EXPECT_EQ(merge(plan)[0].groups[0].moduli, std::vector<int>{3});
  Result result = simulate(plan, make_cluster(1, 1, 0), {.steps = 1, .timeline = true});
  for (const Act& act : result.timeline) {
    if (act.actor == reduce) {
      EXPECT_EQ(act.start, 5);
    }
  }
}

void expect_same_unmerged(unsigned first, unsigned last) {
  test::expect_same_without(&Options::merge, first, last,
                            {.max_programs = 2, .max_devices = 1, .max_actors = 12}, {.steps = 4});
}

TEST(Merge, ChangesNothingOnRandomPlans) { expect_same_unmerged(1, 300); }
TEST(Merge, LongChangesNothingOnRandomPlans) { expect_same_unmerged(301, 10000); }

TEST(Merge, ChangesNothingOnAPipeline) {
  ir::Plan plan =
      test::gpt_like({.stages = 4, .dp = 2, .tp = 2, .layers = 2, .kernels = 12, .micro_batches = 6});
  const Options options{.steps = 2, .timeline = true};
  test::expect_same_without(&Options::merge, plan, make_cluster(4, 4, 4), options, "own NICs");
  test::expect_same_without(&Options::merge, plan, make_cluster(4, 4, 1), options, "one NIC");
  Result merged = simulate(plan, make_cluster(4, 4, 4), {.steps = 2});
  Result apart = simulate(plan, make_cluster(4, 4, 4), {.merge = false, .steps = 2});
  EXPECT_LT(merged.events * 3, apart.events * 2);
}

}  // namespace
}  // namespace boxcar::sim
