#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/models/collective_time.h"
#include "sim/plans.h"

namespace boxcar::sim {
namespace {

using test::make_cluster;
using test::make_plan;
using test::ProgramBuilder;
using testing::HasSubstr;

const backends::Cluster one_gpu = make_cluster(1, 1, 0);

// Start of each act of `actor` in class `cls`.
std::vector<double> starts(const Result& result, int cls, int actor) {
  std::vector<double> times;
  for (const Act& act : result.timeline) {
    if (act.cls == cls && act.actor == actor) times.push_back(act.start);
  }
  return times;
}

std::string error_of(const ir::Plan& plan, const backends::Cluster& cluster) {
  try {
    simulate(plan, cluster);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Simulate, AQueueRunsItsActsInOrder) {
  ProgramBuilder p("p", {"F"}, 2);
  p.actor("a", 1.0);
  p.actor("b", 0.5);
  Result result = simulate(make_plan({{p, {0}}}), one_gpu, {.steps = 2, .timeline = true});
  EXPECT_EQ(starts(result, 0, 0), (std::vector<double>{0, 1.5, 3, 4.5}));
  EXPECT_EQ(starts(result, 0, 1), (std::vector<double>{1, 2.5, 4, 5.5}));
  EXPECT_EQ(result.step_ends, (std::vector<double>{3, 6}));
  EXPECT_EQ(result.step_seconds, 3);
  EXPECT_EQ(result.classes[0].busy, 3);
  EXPECT_EQ(result.classes[0].span, 3);
}

// Figure 6 of the paper: three actors on separate queues, one second each; a1 has 3 slots, a2 has 2. At time
// 0 a1 acts, at time 1 a1 and a2, at time 2 all three.
TEST(Simulate, RegistersPipelineActorsOfDifferentQueues) {
  ProgramBuilder p("p", {"F"}, 3);
  int second = p.queue("q2", ir::QueueKind::copy_in), third = p.queue("q3", ir::QueueKind::copy_out);
  int a1 = p.actor("a1", 1.0), a2 = p.actor("a2", 1.0, second), a3 = p.actor("a3", 1.0, third);
  p.link(a1, a2, 3);
  p.link(a2, a3, 2);
  Result result = simulate(make_plan({{p, {0}}}), one_gpu, {.steps = 1, .timeline = true});
  EXPECT_EQ(starts(result, 0, a1), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(starts(result, 0, a2), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(starts(result, 0, a3), (std::vector<double>{2, 3, 4}));
}

// One slot: the producer waits until the consumer has released it.
TEST(Simulate, ASingleSlotSerialises) {
  ProgramBuilder p("p", {"F"}, 3);
  int a = p.actor("a", 1.0), b = p.actor("b", 2.0, p.queue("q2", ir::QueueKind::copy_in));
  p.link(a, b, 1);
  Result result = simulate(make_plan({{p, {0}}}), one_gpu, {.steps = 1, .timeline = true});
  EXPECT_EQ(starts(result, 0, a), (std::vector<double>{0, 3, 6}));
}

// A weight is read by every micro-batch and updated once; gradients are accumulated over the micro-batches.
TEST(Simulate, RatesChangeOverMicroBatches) {
  ProgramBuilder p("p", {"F", "U"});
  p.program.schedule = {{0, 0}, {0, 1}, {0, 2}, {1, 0}};
  int grad = p.actor("grad", 1.0), update = p.actor("update", 4.0, 0, 1);
  p.reg(p.link(grad, update, 1, 8)).every = 3;
  int weight = p.output(update, 1, 16);
  p.reg(weight).initial = 1;
  p.read(grad, weight, 3);
  p.read(update, weight);  // in place
  Result result = simulate(make_plan({{p, {0}}}), one_gpu, {.steps = 3, .timeline = true});
  EXPECT_EQ(starts(result, 0, update), (std::vector<double>{3, 10, 17}));
  EXPECT_EQ(result.step_ends, (std::vector<double>{7, 14, 21}));
  EXPECT_EQ(result.classes[0].peak_bytes, 24);
}

// 100 and 10 in the forward pass, 10 and the sum's 8 in the backward pass; the sum always, where it is kept.
TEST(Simulate, SumsOfGradientsStayWhereTheFrameworkSays) {
  ProgramBuilder p("p", {"F", "B", "U"});
  const int forward = p.actor("forward", 1.0), backward = p.actor("backward", 1.0, 0, 1);
  const int update = p.actor("update", 1.0, 0, 2);
  const int more = p.actor("more", 1.0);
  p.link(forward, more, 1, 100);
  p.link(more, backward, 1, 10);
  const int sum = p.link(backward, update, 1, 8);
  p.reg(sum).memory = ir::MemoryKind::gradients;
  backends::Cluster cluster = one_gpu;
  EXPECT_EQ(simulate(make_plan({{p, {0}}}), cluster).classes[0].peak_bytes, 110);
  cluster.framework->allocator = backends::CachingAllocator{};
  EXPECT_EQ(simulate(make_plan({{p, {0}}}), cluster).classes[0].peak_bytes, 110);
  cluster.framework->allocator->gradients_stay = true;
  EXPECT_EQ(simulate(make_plan({{p, {0}}}), cluster).classes[0].peak_bytes, 118);
}

// A framework reduces gradients into the buffer that holds their sums.
TEST(Simulate, ReducedGradientsStayInTheirSums) {
  ProgramBuilder p("p", {"F", "B", "G", "U"});
  const int forward = p.actor("forward", 1.0), backward = p.actor("backward", 1.0, 0, 1);
  const int reduce = p.actor("reduce", 1.0, 0, 2), update = p.actor("update", 1.0, 0, 3);
  p.link(forward, backward, 1, 100);
  for (const int sum : {p.link(backward, reduce, 1, 8), p.link(reduce, update, 1, 4)})
    p.reg(sum).memory = ir::MemoryKind::gradients;
  backends::Cluster cluster = one_gpu;
  cluster.framework->allocator = backends::CachingAllocator{.gradients_stay = true};
  EXPECT_EQ(simulate(make_plan({{p, {0}}}), cluster).classes[0].peak_bytes, 108);
}

TEST(Simulate, AnOpenQueueTakesWhatIsReadyFirst) {
  ProgramBuilder p("p");
  int open = p.queue("open", ir::QueueKind::network, false), other = p.queue("other", ir::QueueKind::copy_in);
  int late = p.actor("late", 3.0), early = p.actor("early", 1.0, other);
  int after_late = p.actor("after_late", 1.0, open), after_early = p.actor("after_early", 1.0, open);
  p.link(late, after_late);
  p.link(early, after_early);
  Result result = simulate(make_plan({{p, {0}}}), one_gpu, {.steps = 1, .timeline = true});
  EXPECT_EQ(starts(result, 0, after_early).front(), 1);
  EXPECT_EQ(starts(result, 0, after_late).front(), 3);
}

TEST(Simulate, ACollectiveBeginsWhenEveryMemberIsReady) {
  ProgramBuilder p("p"), q("q");
  for (ProgramBuilder* b : {&p, &q}) {
    int net = b->queue("net", ir::QueueKind::network);
    int work = b->actor("work", b == &p ? 1.0 : 2.0);
    int reduce = b->collective("reduce", 0, 0, net);
    b->act(reduce).attrs["seconds"] = 0.5;
    int after = b->actor("after", 1.0);
    b->link(work, reduce);
    b->link(reduce, after);
  }
  ir::Plan plan = make_plan({{p, {0}}, {q, {1}}});
  plan.comms.push_back({"tp", {{0, 1}}});
  Result result = simulate(plan, make_cluster(1, 2, 0), {.steps = 1, .timeline = true});
  EXPECT_EQ(starts(result, 0, 1), std::vector<double>{2});
  EXPECT_EQ(starts(result, 1, 2), std::vector<double>{2.5});
  EXPECT_EQ(result.step_ends, std::vector<double>{3.5});
  EXPECT_EQ(result.classes[0].exposed_comm, 0.5);  // of the 1.5 s that it waits, the transfer took 0.5
  EXPECT_EQ(result.classes[0].span, 3.5);
  EXPECT_EQ(result.classes[0].busy, 2);
}

TEST(Simulate, ASingleTransferTakesWhatTheModelSays) {
  ProgramBuilder p("p"), q("q");
  int send = p.actor("work", 1.0);
  int reg = p.output(send);
  q.pull("pull", 0, reg, 0, 1000000, q.queue("net", ir::QueueKind::network));
  ir::Plan plan = make_plan({{p, {0}}, {q, {1}}});
  plan.peers.push_back({"next", {-1, 0}});
  for (int gpus : {1, 2}) {
    backends::Cluster cluster = make_cluster(2 / gpus, gpus, 1);
    double expected = transfer_time(cluster, 1000000, 0, 1).seconds();
    EXPECT_NEAR(simulate(plan, cluster, {.steps = 1}).step_seconds, 1 + expected, 1e-9);
    EXPECT_NEAR(act_seconds(plan, cluster, 1)[0], expected, 1e-12);
  }
}

// Two concurrent pulls over one NIC, each alone on its queue: both take twice their bytes' time.
TEST(Simulate, TransfersShareANic) {
  ProgramBuilder source("source"), target("target");
  int first = source.output(source.actor("a", 0.0)), second = source.output(source.actor("b", 0.0));
  target.pull("pull_a", 0, first, 0, 100000000, target.queue("net.a", ir::QueueKind::network));
  target.pull("pull_b", 0, second, 0, 100000000, target.queue("net.b", ir::QueueKind::network));
  ir::Plan plan = make_plan({{source, {0}}, {target, {1}}});
  plan.peers.push_back({"next", {-1, 0}});
  backends::Cluster cluster = make_cluster(2, 1, 1);
  CommTime alone = transfer_time(cluster, 100000000, 0, 1);
  Result result = simulate(plan, cluster, {.steps = 1});
  EXPECT_NEAR(result.step_seconds, alone.latency + 2 * alone.bytes_on_link / alone.link_bandwidth, 1e-9);
}

// The same two pulls, with turns on one queue of the source, run one after the other.
TEST(Simulate, APullTakesATurnOnItsSourcesQueue) {
  ProgramBuilder source("source"), target("target");
  int out = source.queue("net", ir::QueueKind::network);
  int first = source.output(source.actor("a", 1.0)), second = source.output(source.actor("b", 1.0));
  int in_a = target.queue("net.a", ir::QueueKind::network),
      in_b = target.queue("net.b", ir::QueueKind::network);
  int pull_b = target.pull("pull_b", 0, second, 0, 0, in_b, 0, out);
  int pull_a = target.pull("pull_a", 0, first, 0, 0, in_a, 0, out);
  target.act(pull_a).attrs["seconds"] = 3.0;
  target.act(pull_b).attrs["seconds"] = 3.0;
  ir::Plan plan = make_plan({{source, {0}}, {target, {1}}});
  plan.peers.push_back({"next", {-1, 0}});
  Result result = simulate(plan, make_cluster(2, 1, 1), {.steps = 1, .timeline = true});
  EXPECT_EQ(starts(result, 1, pull_a), std::vector<double>{1});
  EXPECT_EQ(starts(result, 1, pull_b), std::vector<double>{4});
}

// An all-reduce as one flow and as all its flows: the same time when alone.
TEST(Simulate, EveryFlowTakesTheTimeOfOneAlone) {
  for (int gpus : {1, 2, 4, 8}) {
    ProgramBuilder p("p");
    p.collective("reduce", 0, 10000000, p.queue("net", ir::QueueKind::network));
    ir::Plan plan = make_plan({{p, {0, 1, 2, 3, 4, 5, 6, 7}}});
    plan.comms.push_back({"dp", {{0, 1, 2, 3, 4, 5, 6, 7}}});
    backends::Cluster cluster = make_cluster(8 / gpus, gpus, gpus);
    Result one = simulate(plan, cluster, {.steps = 1});
    Result every = simulate(plan, cluster, {.every_flow = true, .steps = 1});
    EXPECT_NEAR(every.step_seconds, one.step_seconds, 20e-9) << gpus << " GPUs a node";
    EXPECT_GT(every.events, one.events + 2 * (8 / gpus - 1) * 8 - 1) << gpus;
    EXPECT_FALSE(every.folded);
  }
}

// Two concurrent all-reduces over the same links take twice as long, in either form.
TEST(Simulate, EveryFlowSharesLinks) {
  ProgramBuilder p("p");
  for (const char* name : {"a", "b"}) p.collective(name, 0, 100000000, p.queue(name, ir::QueueKind::network));
  ir::Plan plan = make_plan({{p, {0, 1, 2, 3}}});
  plan.comms.push_back({"dp", {{0, 1, 2, 3}}});
  backends::Cluster cluster = make_cluster(4, 1, 1);
  double one = simulate(plan, cluster, {.steps = 1}).step_seconds;
  EXPECT_NEAR(simulate(plan, cluster, {.every_flow = true, .steps = 1}).step_seconds, one, 1e-3 * one);
}

TEST(Simulate, ComputeIsSlowedBesideCommunication) {
  ProgramBuilder p("p");
  p.actor("work", 2.0);
  int net = p.queue("net", ir::QueueKind::network);
  int reduce = p.collective("reduce", -1, 0, net);
  p.act(reduce).attrs["seconds"] = 1.0;
  p.link(reduce, p.actor("join", 0.0));
  backends::Cluster cluster = one_gpu;
  cluster.device->overlap_slowdown = 0.5;
  // Half speed for the first second leaves 1.5 s of work.
  EXPECT_EQ(simulate(make_plan({{p, {0}}}), cluster, {.steps = 1}).step_seconds, 2.5);
}

TEST(Simulate, StragglersSlowKernels) {
  ProgramBuilder p("p");
  p.act(p.actor("work", -1)).op = "exp";
  p.output(0, 1, 4096);
  p.reg(0).type = {{1024}, ir::DType::float32};
  p.output(p.actor("source", 0.0), 1, 4096);
  p.reg(1).type = {{1024}, ir::DType::float32};
  p.read(0, 1);
  backends::Cluster cluster = one_gpu;
  cluster.device->kernel_floor = 1e-3;
  cluster.device->memory_bandwidth = 1e12;
  ir::Plan plan = make_plan({{p, {0}}});
  double normal = act_seconds(plan, cluster, 0)[0];
  cluster.slowdown[0] = 1.5;
  EXPECT_GE(normal, 1e-3);
  EXPECT_DOUBLE_EQ(act_seconds(plan, cluster, 0)[0], 1.5 * normal);
}

TEST(Simulate, StepsEndWhenTwoAreAlike) {
  ProgramBuilder p("p");
  p.actor("a", 1.0);
  Result result = simulate(make_plan({{p, {0}}}), one_gpu);
  EXPECT_EQ(result.step_ends.size(), 2u);
  EXPECT_EQ(result.step_seconds, 1);
  EXPECT_EQ(result.first_step_seconds, 1);
}

TEST(Simulate, MemoryPeaksCountSlotsThatAreHeld) {
  ProgramBuilder p("p", {"F"}, 4);
  int a = p.actor("a", 1.0), b = p.actor("b", 4.0, p.queue("q2", ir::QueueKind::copy_in));
  p.link(a, b, 3, 100);
  EXPECT_EQ(simulate(make_plan({{p, {0}}}), one_gpu).classes[0].peak_bytes, 300);
  p.reg(0).count = 2;
  EXPECT_EQ(simulate(make_plan({{p, {0}}}), one_gpu).classes[0].peak_bytes, 200);
}

TEST(Simulate, AQuotaThatIsExceededIsNamed) {
  ProgramBuilder p("p", {"F"}, 4);
  int a = p.actor("a", 1.0), b = p.actor("b", 4.0, p.queue("q2", ir::QueueKind::copy_in));
  p.link(a, b, 3, 100);
  p.program.arena_bytes = 200;
  EXPECT_EQ(error_of(make_plan({{p, {0}}}), one_gpu),
            "p: holds 300 bytes in registers and workspace, its arena has 200");
  backends::Cluster small = one_gpu;
  small.device->name = "toy";
  small.device->memory_bytes = 250;
  EXPECT_EQ(error_of(make_plan({{p, {0}}}), small),
            "p: holds 300 bytes in registers and workspace, 50 more than the 250 of toy");
  small.framework->allocator = backends::CachingAllocator{};  // the planner's matter
  p.program.arena_bytes = 300;
  EXPECT_EQ(simulate(make_plan({{p, {0}}}), small).classes[0].peak_bytes, 300);
}

TEST(Simulate, APlanThatHangsSaysWhatWaitsForWhat) {
  ProgramBuilder p("p");
  int a = p.actor("a", 1.0), b = p.actor("b", 1.0);
  p.link(b, a);
  p.link(a, b);
  EXPECT_EQ(error_of(make_plan({{p, {0}}}), one_gpu),
            "test: nothing can go on after 0 steps, at 0 s:\n  p[0].compute: act 0 of a waits for p[0].b");
}

// Figure 2: two collectives issued in opposite orders by two ranks.
TEST(Simulate, CommunicatorsInOppositeOrdersHang) {
  ProgramBuilder p("p"), q("q");
  for (ProgramBuilder* b : {&p, &q}) {
    int net = b->queue("net", ir::QueueKind::network);
    for (const char* name : b == &p ? std::vector{"x", "y"} : std::vector{"y", "x"}) {
      b->act(b->collective(name, 0, 0, net)).attrs["seconds"] = 1.0;
    }
  }
  ir::Plan plan = make_plan({{p, {0}}, {q, {1}}});
  plan.comms.push_back({"tp", {{0, 1}}});
  EXPECT_THAT(error_of(plan, make_cluster(1, 2, 0)), HasSubstr("p[0].net: waits with x for q[1].x"));
}

TEST(Simulate, InputsThatDoNotFitTogetherAreRefused) {
  ProgramBuilder p("p"), q("q");
  p.act(p.collective("x", 0, 0, p.queue("net", ir::QueueKind::network))).attrs["seconds"] = 1.0;
  q.actor("a", 1.0);
  ir::Plan plan = make_plan({{p, {0}}, {q, {1}}});
  plan.comms.push_back({"tp", {{0, 1}}});
  EXPECT_EQ(error_of(plan, make_cluster(1, 2, 0)),
            "p[0].x: acts jointly as x over tp, where 1 of its group's 2 classes do");
  EXPECT_EQ(error_of(plan, one_gpu), "test: the plan needs 2 devices, test has 1");
}

// Two devices with kernels of one second each, concurrently on `cores` cores of one machine.
double seconds_on(double cores) {
  backends::Cluster cluster = make_cluster(1, 2, 1e9);
  cluster.node.cores = cores;
  ProgramBuilder p("p");
  p.actor("a", 1.0);
  return simulate(make_plan({{p, {0, 1}}}), cluster, {.steps = 1}).step_seconds;
}

TEST(Simulate, DevicesShareCores) {
  EXPECT_EQ(seconds_on(0), 1);  // separate hardware
  EXPECT_NEAR(seconds_on(1), 2, 1e-6);
  EXPECT_NEAR(seconds_on(1.25), 1.6, 1e-6);
  EXPECT_NEAR(seconds_on(2), 1, 1e-6);
  EXPECT_NEAR(seconds_on(3), 1, 1e-6);  // no thread runs on more than one
}

// Three threads on two cores run at 2/3 until the short acts end at 1.5 s, when the long one has 1 s left.
TEST(Simulate, QueuesShareCoresFairly) {
  backends::Cluster cluster = make_cluster(1, 1, 0);
  cluster.node.cores = 2;
  ProgramBuilder p("p");
  const int a = p.actor("a", 1.0), b = p.actor("b", 1.0, p.queue("disk", ir::QueueKind::disk));
  const int c = p.actor("c", 2.0, p.queue("host", ir::QueueKind::host));
  for (int next : {a, b}) p.reg(p.link(c, next, 2)).initial = 1;  // none before all acts of a step have ended
  Result result = simulate(make_plan({{p, {0}}}), cluster, {.steps = 1, .timeline = true});
  std::vector<double> ends(3);
  for (const Act& act : result.timeline) at(ends, act.actor) = act.end;
  EXPECT_NEAR(ends[0], 1.5, 1e-6);
  EXPECT_NEAR(ends[1], 1.5, 1e-6);
  EXPECT_NEAR(ends[2], 2.5, 1e-6);
}

// A collective is work of all its members, after a wait that uses no core.
TEST(Simulate, CollectivesWorkOnCores) {
  backends::Cluster cluster = make_cluster(1, 2, 1e9);
  ProgramBuilder p("p");
  p.collective("all", 0, 1 << 30, p.queue("net", ir::QueueKind::network));
  ir::Plan plan = make_plan({{p, {0, 1}}});
  plan.comms.push_back({"all", {{0, 1}}});
  const CommTime time = collective_time(cluster, sbp::Collective::all_reduce, 1 << 30, {2, 1, 2, 1});
  cluster.node.cores = 2;
  EXPECT_NEAR(simulate(plan, cluster, {.steps = 1}).step_seconds, time.seconds(), 1e-6);
  cluster.node.cores = 1;
  EXPECT_NEAR(simulate(plan, cluster, {.steps = 1}).step_seconds, 2 * time.seconds() - time.latency, 1e-6);
}

}  // namespace
}  // namespace boxcar::sim
