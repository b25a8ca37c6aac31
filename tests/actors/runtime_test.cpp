#include "actors/runtime.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "actors/probe.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "support/fake_backend.h"

namespace boxcar::actors {
namespace {

using backends::Moment;
using support::FakeCluster;
using Values = std::vector<float>;

// Two devices: load brings tokens, work makes y from them, all devices' y are summed, and grow accumulates
// the sums of both micro-batches in place.
constexpr const char* pair_plan = R"(plan pair
devices 2
micro_batches 2
comm dp: groups 1 by 1, ranks 2 by 1
class 0-1: p

program p
  arena 4096
  phases F, U
  schedule F[0-1] U
  queue compute: compute
  queue net: network
  queue copy_in: copy_in
  %tokens: float32[3] x2 activations bytes 64 @0
  %y: float32[3] x1 activations bytes 64 @128
  %sum: float32[3] x1 gradients bytes 64 every 2 @192
  %state: float32[3] x1 optimizer bytes 64 initial 1 @256
  tokens load() -> %tokens on copy_in in F
  work test(%tokens, %state repeat 2) {id=1} -> %y on compute in F
  all all_reduce(%y) -> %sum on net in F over dp bytes 12
  grow test(%sum, %state) {id=2} -> %state on compute in U
)";

ir::Plan plan_of(const std::string& text) {
  ir::Plan plan = ir::parse_plan(text);
  ir::check(plan);
  return plan;
}

Values values_in(std::span<const std::byte> bytes) {
  Values values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void put(std::span<std::byte> bytes, float value) {
  const Values values(bytes.size() / sizeof(float), value);
  std::memcpy(bytes.data(), values.data(), bytes.size());
}

Hooks device_hooks() {
  Hooks hooks;
  hooks.fill = [](int device, const ir::Register&, const Moment& moment, std::span<std::byte> bytes) {
    put(bytes, static_cast<float>(device * 100 + moment.step * 10 + moment.micro_batch));
  };
  return hooks;
}

struct Failure {
  std::string what;
  Exit code = Exit::done;
};
template <typename Call>
Failure failure_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.what(), error.code()};
  }
  return {};
}

// Also where acts are only launched and watched registers are read later.
TEST(Runtime, TellsHooksWhereAnActStands) {
  for (const int64_t late : {-1, 7}) {
    const ir::Plan plan = plan_of(pair_plan);
    FakeCluster cluster(2, 1);
    cluster.act_late(late);
    Hooks hooks = device_hooks();
    std::mutex mutex;
    std::vector<std::string> seen;
    hooks.watch = {"tokens"};
    hooks.watched = [&](int device, const ir::Register&, const Moment& moment,
                        std::span<const std::byte> bytes) {
      const std::lock_guard lock(mutex);
      if (device == 1)
        seen.push_back(fmt::format("{}.{} of {} seed {} rate {}: {}", moment.step, moment.micro_batch,
                                   moment.micro_batches, moment.seed, moment.learning_rate,
                                   fmt::join(values_in(bytes), " ")));
    };
    hooks.learning_rate = [](int64_t step) { return static_cast<double>(step) / 2; };
    Runtime run(plan, cluster.backend(0), hooks, {.seed = 9});
    run.steps(1, 3);
    run.steps(1, 5);
    EXPECT_EQ(seen, (std::vector<std::string>{
                        "3.0 of 2 seed 9 rate 1.5: 130 130 130", "3.1 of 2 seed 9 rate 1.5: 131 131 131",
                        "5.0 of 2 seed 9 rate 2.5: 150 150 150", "5.1 of 2 seed 9 rate 2.5: 151 151 151"}));
  }
}

TEST(Runtime, SaysWhyStepsCannotBeRecorded) {
  const auto refused = [](std::string text, const std::string& from, const std::string& to,
                          RunOptions options, int processes = 1) {
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    const ir::Plan plan = plan_of(text);
    FakeCluster cluster(plan.devices, processes);
    options.graphs = true;
    return failure_of([&] { Runtime run(plan, cluster.backend(0), device_hooks(), options); });
  };
  const auto expect = [](const Failure& failure, const std::string& what) {
    EXPECT_EQ(failure.what, "graphs of steps: " + what);
    EXPECT_EQ(failure.code, Exit::bad_input);
  };
  expect(refused(pair_plan, "", "", {.timeline = true}),
         "acts are neither watched nor timed one by one in them");
  expect(refused(pair_plan, "", "", {.probe = true}),
         "acts are neither watched nor timed one by one in them");
  expect(refused(pair_plan, "queue copy_in: copy_in", "queue copy_in: copy_in unordered", {}),
         "device 0: tokens: acts on a queue without a fixed order");
  expect(refused(pair_plan, "x2 activations bytes 64 @0", "x17 activations bytes 64 initial 1 @320", {}),
         "registers are at the same slots again after 34 steps only, and 16 are recorded at most");
}

TEST(Runtime, KeepsTheOrderOfAQueueInItsTimeline) {
  const ir::Plan plan = plan_of(pair_plan);
  FakeCluster cluster(2, 1);
  Runtime run(plan, cluster.backend(0), device_hooks(), {.timeline = true, .chaos = 3});
  run.steps(2, 0);
  std::vector<std::string> compute;
  std::map<std::pair<int, int>, double> last;  // by device and queue
  for (const RunAct& act : run.timeline()) {
    const ir::Actor& actor = at(plan.programs[0].actors, act.actor);
    EXPECT_LE(act.start, act.end);
    double& before = last[{act.device, actor.queue}];
    EXPECT_LE(before, act.start);
    before = act.end;
    if (act.device == 1 && actor.queue == 0) compute.push_back(fmt::format("{} {}", actor.name, act.index));
  }
  EXPECT_EQ(compute, (std::vector<std::string>{"work 0", "work 1", "grow 0", "work 2", "work 3", "grow 1"}));
  EXPECT_EQ(run.timeline().size(), 28U);  // 7 acts a step on each device
}

TEST(Runtime, KeepsATimelineOfTheStepsAskedFor) {
  const ir::Plan plan = plan_of(pair_plan);
  FakeCluster cluster(2, 1);
  Runtime run(plan, cluster.backend(0), device_hooks(), {.timeline = true, .timeline_from = 6});
  run.steps(3, 5);
  EXPECT_EQ(run.timeline().size(), 28U);  // steps 6 and 7
  for (const RunAct& act : run.timeline()) EXPECT_GE(act.index, 1);
}

// The act on a micro-batch does not end before the next one is loaded. Two registers suffice for that; the
// load after the next has not run yet.
TEST(Runtime, LoadsTheNextWhileItComputes) {
  const ir::Plan plan = plan_of(pair_plan);
  FakeCluster cluster(2, 1);
  constexpr int64_t steps = 4;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t loaded[2] = {}, computed[2] = {};  // by device
  bool in_time = true, ahead = false;
  Hooks hooks = device_hooks();
  const auto fill = hooks.fill;
  hooks.fill = [&](int device, const ir::Register& reg, const Moment& moment, std::span<std::byte> bytes) {
    fill(device, reg, moment, bytes);
    if (reg.name != "tokens") return;
    const std::lock_guard lock(mutex);
    ++loaded[device];
    ahead |= loaded[device] > computed[device] + 2;
    changed.notify_all();
  };
  hooks.watch = {"y"};
  hooks.watched = [&](int device, const ir::Register&, const Moment&, std::span<const std::byte>) {
    std::unique_lock lock(mutex);
    const int64_t next = std::min(computed[device] + 2, 2 * steps);
    in_time &= changed.wait_for(lock, std::chrono::seconds(60), [&] { return loaded[device] == next; });
    ++computed[device];
  };
  Runtime run(plan, cluster.backend(0), hooks);
  run.steps(steps, 0);
  EXPECT_TRUE(in_time) << "the loader waited for the act";
  EXPECT_FALSE(ahead) << "more than two registers were filled";
}

TEST(Runtime, ReadsAndWritesTheNewestSlot) {
  const ir::Plan plan = plan_of(pair_plan);
  FakeCluster cluster(2, 1);
  Runtime run(plan, cluster.backend(0), device_hooks());
  EXPECT_EQ(values_in(run.read(1, "state")), Values(3, 100.0F));
  const Values value{7, 8, 9};
  run.write(1, "state", std::as_bytes(std::span(value)));
  EXPECT_EQ(values_in(run.read(1, "state")), value);
  run.steps(1, 0);
  EXPECT_EQ(values_in(run.read(1, "tokens")), Values(3, 101.0F));
  EXPECT_NE(values_in(run.read(1, "state")), value);

  EXPECT_EQ(failure_of([&] { run.read(1, "stat"); }).what, "device 1: %stat: no such register");
  EXPECT_EQ(failure_of([&] { run.read(2, "state"); }).what, "device 2: %state: not a device of this process");
  EXPECT_EQ(failure_of([&] { run.write(0, "state", {}); }).what,
            "device 0: %state: 0 bytes for a register of 12");
}

TEST(Runtime, EndsWithTheFirstErrorOfAnyThread) {
  const ir::Plan plan = plan_of(pair_plan);
  FakeCluster cluster(2, 1);
  std::atomic<int> failed{0};
  cluster.fail_where([&](const backends::Call& call, const Moment& moment) {
    return ir::attr_int(call.attrs, "id") == 2 && moment.step == 4 && failed++ == 0;
  });
  Runtime run(plan, cluster.backend(0), device_hooks());
  const Failure failure = failure_of([&] { run.steps(100, 0); });
  EXPECT_TRUE(failure.what == "device 0: grow: test: it is broken" ||
              failure.what == "device 1: grow: test: it is broken")
      << failure.what;
  EXPECT_EQ(failure.code, Exit::fault);
}

TEST(Runtime, KeepsTheKindOfAnError) {
  const ir::Plan plan = plan_of(pair_plan);
  FakeCluster cluster(2, 1);
  Hooks hooks = device_hooks();
  hooks.fill = [](int device, const ir::Register& reg, const Moment& moment, std::span<std::byte>) {
    if (device == 0 && moment.step == 1 && reg.name == "tokens")
      throw Error::input("text.txt", "the file is empty");
  };
  Runtime run(plan, cluster.backend(0), hooks);
  const Failure failure = failure_of([&] { run.steps(3, 0); });
  EXPECT_EQ(failure.what, "device 0: tokens: text.txt: the file is empty");
  EXPECT_EQ(failure.code, Exit::bad_input);
}

TEST(Runtime, EndsOnAllProcesses) {
  const ir::Plan plan = plan_of(pair_plan);
  FakeCluster cluster(2, 2);
  cluster.fail_where([&](const backends::Call& call, const Moment& moment) {
    static std::atomic<int> times{0};
    return ir::attr_int(call.attrs, "id") == 1 && moment.step == 2 && times++ == 0;
  });
  std::vector<std::string> whats(2);
  std::vector<std::thread> running;
  for (int p = 0; p < 2; ++p)
    running.emplace_back([&, p] {
      Runtime run(plan, cluster.backend(p), device_hooks());
      at(whats, p) = failure_of([&] { run.steps(50, 0); }).what;
    });
  for (std::thread& thread : running) thread.join();
  const std::string cause = "work: test: it is broken";
  for (const std::string& what : whats) EXPECT_NE(what.find(cause), std::string::npos) << what;
  EXPECT_NE(whats[0], whats[1]);  // each first names its own device and actor
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string refusal(const std::string& text, int devices = 2) {
  const ir::Plan plan = plan_of(text);
  FakeCluster cluster(devices, 1);
  return failure_of([&] { Runtime run(plan, cluster.backend(0), {}); }).what;
}

TEST(Runtime, RefusesWhatItCannotRun) {
  EXPECT_EQ(refusal(pair_plan, 3), "plan pair: is for 2 devices, the backend has 3");
  EXPECT_EQ(refusal(replaced(pair_plan, "work test(", "work matmul(")),
            "device 0: work: matmul: no attribute id; known are transpose_a, transpose_b");
  EXPECT_EQ(refusal(replaced(pair_plan, "work test(", "work tist(")), "device 0: work: tist: no such kernel");
  EXPECT_EQ(refusal(replaced(pair_plan, "arena 4096", "arena 300")),
            "p: %state: 1 slots of 64 bytes at 256 do not hold float32[3] in an arena of 300 bytes");
  const std::string two = replaced(pair_plan, "load() -> %tokens", "load() -> %tokens, %more");
  EXPECT_EQ(refusal(replaced(two, "  %y:", "  %more: float32[3] x1 activations bytes 64 @512\n  %y:")),
            "tokens: load with 2 outputs, 1 expected");
}

TEST(Runtime, ProbesWhatIsHeld) {
  const ir::Plan plan = plan_of(pair_plan);
  FakeCluster cluster(2, 1);
  Runtime run(plan, cluster.backend(0), device_hooks(), {.probe = true});
  run.steps(5, 0);
  for (const Runtime::Memory& memory : run.memory()) {
    EXPECT_GE(memory.held, 4 * 64);  // state always; y and its neighbours
    EXPECT_LE(memory.held, 5 * 64);
    EXPECT_EQ(memory.peak, 256 + 64);  // where state ends
  }
}

// y over the tokens that work reads.
TEST(Runtime, ProbeSeesARegisterWrittenOverAnother) {
  const ir::Plan plan = plan_of(replaced(pair_plan, "@128", "@0"));
  FakeCluster cluster(2, 1);
  Runtime run(plan, cluster.backend(0), device_hooks(), {.probe = true});
  const std::string what = failure_of([&] { run.steps(1, 0); }).what;
  EXPECT_EQ(what.substr(10), "work: %y: slot 0 is written over %tokens, which holds something");
}

TEST(Probe, CountsFromTheFirstWriteToTheLastReader) {
  const ir::Plan plan = plan_of(pair_plan);
  const ir::Program& program = plan.programs[0];  // tokens, y, sum, state
  Probe probe(program, {{1, false}, {2, false}, {0, false}, {1, true}});
  EXPECT_EQ(probe.peak(), 64);
  probe.write(1, 0);
  probe.written(1, 0);
  EXPECT_EQ(probe.peak(), 128);
  probe.release(1, 0);
  EXPECT_EQ(failure_of([&] { probe.write(1, 0); }).what, "%y: slot 0 is written, but 1 still read it");
  probe.release(1, 0);
  EXPECT_EQ(failure_of([&] { probe.release(1, 0); }).what, "%y: slot 0 has no readers");
  probe.write(2, 0);
  probe.written(2, 0);  // nobody reads it
  probe.write(1, 0);
  EXPECT_EQ(probe.peak(), 128);
  probe.write(0, 0);
  EXPECT_EQ(probe.peak(), 192);
}

TEST(Probe, RefusesMoreThanIsPlanned) {
  ir::Plan plan = plan_of(pair_plan);
  plan.programs[0].arena_bytes = 100;
  EXPECT_EQ(failure_of([&] {
              Probe probe(plan.programs[0], {{1, false}, {1, false}, {1, false}, {1, true}});
            }).what,
            "%state: slot 0 ends at byte 320 and 64 bytes are held, of 100 planned");
}

}  // namespace
}  // namespace boxcar::actors
