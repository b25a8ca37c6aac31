#include "ir/plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "ir/plan_notation.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "support/error_of.h"
#include "support/random_plan.h"

namespace boxcar::ir {
namespace {

using support::error_of;

constexpr const char* pair_text = R"(plan pair
devices 4
micro_batches 8
fact samples = 8
fact tokens = 1.5
label cluster.preset = dgx-a100-40g
label note = " with spaces "
comm dp: groups 2 by 2, ranks 2 by 1
peers forward: 2-3 from 0-1
class 0-1: first
class 2-3: second

program first
  arena 12288
  workspace 4096 @8192
  phases F, U
  schedule F[0-7] U
  queue compute: compute
  queue net: network
  queue load: copy_in unordered
  %x: float32[4, 16] x2 activations @0
  %w: float32[16, 16] x1 parameters initial 1 @2048
  %y: float32[4, 16] x2 activations bytes 512 @1024
  %g: float32[16, 16] x1 gradients every 8 @4096
  load host load() -> %x on load in F
  mm matmul(%x, %w repeat 8) {transpose_b=true} -> %y on compute in F layer 3 workspace 4096
  grad matmul_weight_grad(%x, %y) -> %g on compute in F
  sgd sgd(%w, %g as [256]) {lr=0.1} -> %w on compute in U

program second
  phases F, U
  schedule F[0-7] U
  queue compute: compute
  queue net: network
  %x: float32[4, 16] x1 activations
  %s: float32[] x1 gradients
  p pull(%y of first via forward) -> %x on net in F bytes 256 turn net
  odd kernel pull(%x) on compute in F
  ar all_reduce() {seconds=2.0} -> %s on net in U layer 3 moves ln2.grad over dp joint sum bytes 1024
  "two words" copy all_reduce(%s) on compute in U
)";

TEST(PlanText, ReadsBack) {
  Plan plan = parse_plan(pair_text);
  std::string text = to_text(plan);
  EXPECT_EQ(to_text(parse_plan(text)), text);
  EXPECT_EQ(plan.name, "pair");
  EXPECT_EQ(plan.labels.at("note"), " with spaces ");
  EXPECT_EQ(plan.facts.at("tokens"), 1.5);
  EXPECT_EQ(plan.comms[0].groups, (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(plan.peers[0].source, (std::vector<int>{-1, -1, 0, 1}));
  EXPECT_EQ(plan.classes[1].program, 1);
  const Program& first = plan.programs[0];
  EXPECT_EQ(first.schedule.size(), 9u);
  EXPECT_EQ(first.workspace_offset, 8192);
  EXPECT_FALSE(first.queues[2].ordered);
  EXPECT_EQ(first.registers[0].bytes, 256);
  EXPECT_EQ(first.registers[2].bytes, 512);
  EXPECT_EQ(first.registers[1].producer, 3);
  EXPECT_EQ(first.actors[0].kind, ActorKind::host);
  EXPECT_EQ(first.actors[0].layer, -1);
  EXPECT_EQ(first.actors[1].layer, 3);
  EXPECT_EQ(first.actors[1].inputs[1].repeat, 8);
  EXPECT_EQ(first.actors[3].inputs[1].view, (Shape{256}));
  const Program& second = plan.programs[1];
  EXPECT_EQ(second.actors[0].kind, ActorKind::pull);
  EXPECT_EQ(second.actors[0].inputs[0].program, 0);
  EXPECT_EQ(second.actors[0].inputs[0].reg, 2);
  EXPECT_EQ(second.actors[0].source_queue, 1);
  EXPECT_EQ(second.actors[1].kind, ActorKind::kernel);
  EXPECT_EQ(second.actors[2].kind, ActorKind::collective);
  EXPECT_EQ(second.actors[2].collective, sbp::Collective::all_reduce);
  EXPECT_EQ(second.actors[2].moves, "ln2.grad");
  EXPECT_EQ(second.actors[3].name, "two words");
  EXPECT_EQ(second.actors[3].collective, sbp::Collective::none);
}

TEST(PlanText, OneForm) { EXPECT_EQ(to_text(parse_plan(pair_text)), pair_text); }

TEST(PlanText, RegistersInMemoryOfTheHostReadBack) {
  const std::string text = R"(plan copies
devices 1
micro_batches 3
class 0: p

program p
  arena 512
  host_memory 1536
  phases F
  schedule F[0-2]
  queue compute: compute
  queue offload: copy_out
  %y: float32[4, 16] x1 activations bytes 512 @0
  %y.host: float32[4, 16] x3 activations host 512 @0
  y test() {seconds=1.0} -> %y on compute in F
  out copy copy(%y) -> %y.host on offload in F bytes 512
)";
  const Plan plan = parse_plan(text);
  check(plan);
  check_types(plan);
  EXPECT_EQ(to_text(plan), text);
  const Program& p = plan.programs[0];
  EXPECT_EQ(p.host_bytes, 1536);
  EXPECT_EQ(p.registers[1].host_bytes, 512);
  EXPECT_EQ(p.registers[1].bytes, 0);
  EXPECT_FALSE(is_control(p.registers[1]));
  EXPECT_EQ(register_bytes(p), 512 + 3 * 512);
}

TEST(PlanText, RandomPlansReadBack) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Plan plan = support::random_plan({.seed = seed, .live = seed % 2 == 0, .ordered = seed % 3 == 0});
    check(plan);
    std::string text = to_text(plan);
    Plan again = parse_plan(text);
    ASSERT_EQ(to_text(again), text);
    check(again);
    ASSERT_EQ(again.programs[0].schedule, plan.programs[0].schedule);
  }
}

// pair_text with one piece of text replaced.
std::string changed(std::string_view from, std::string_view to) {
  std::string text = pair_text;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}
std::string parse_error(std::string_view from, std::string_view to) {
  return error_of([&] { parse_plan(changed(from, to)); });
}

TEST(PlanText, ErrorsSayLineAndColumn) {
  EXPECT_EQ(error_of([] { parse_plan(""); }), "plan:1:1: expected \"plan NAME\", then \"devices N\"");
  EXPECT_EQ(error_of([] { parse_plan("job x"); }), "plan:1:1: expected \"plan\", got \"job\"");
  EXPECT_EQ(parse_error("devices 4", "devices 0"),
            "plan:2:9: expected a number from 1 to 1048576, got \"0\"");
  EXPECT_EQ(parse_error("micro_batches 8", "batches 8"),
            "plan:3:1: expected micro_batches, fact, label, comm, peers, class or program");
  EXPECT_EQ(parse_error("= 1.5", "= many"), "plan:5:15: expected a number, got \"many\"");
  EXPECT_EQ(parse_error("groups 2 by 2", "groups 2 by 4"), "plan:8:37: device 5 of 4");
  EXPECT_EQ(parse_error("ranks 2 by 1", "ranks 9 by 1"),
            "plan:8:31: expected a number from 1 to 4, got \"9\"");
  EXPECT_EQ(parse_error("groups 2 by 2, ranks", "groups 2 by 2; ranks"),
            "plan:8:23: expected \"ranks\", got \";\"");
  EXPECT_EQ(parse_error("2-3 from 0-1", "2-3 from 0"), "plan:9:26: 2 devices pull from 1");
  EXPECT_EQ(parse_error("2-3 from 0-1", "2-3 to 0"), "plan:9:20: expected \"from\", got \"to\"");
  EXPECT_EQ(parse_error("class 2-3: second", "class 2-3: secnd"),
            "plan:11:12: no program secnd (did you mean second?)");
  EXPECT_EQ(parse_error("program second", "program first"), "plan:30:9: there is a program first already");
  EXPECT_EQ(parse_error("F[0-7] U", "G[0-7] U"), "plan:17:12: no phase G");
  EXPECT_EQ(parse_error("F[0-7] U", "F[7-0] U"),
            "plan:17:16: expected a number from 7 to 4194304, got \"0]\"");
  EXPECT_EQ(parse_error("net: network", "net: ethernet"),
            "plan:19:14: expected a kind of queue: compute, copy_in, copy_out, network, disk, host");
  EXPECT_EQ(
      parse_error("%w: float32[16, 16] x1", "%w: float31[16, 16] x1"),
      "plan:22:7: \"float31\": no such element type; known are float64, float32, float16, bfloat16, float8, "
      "int64, int32, int8, boolean");
  EXPECT_EQ(parse_error("%w: float32[16, 16]", "%w: float64[268435456, 1073741824]"),
            "plan:22:7: a tensor of more than 1 EiB");
  EXPECT_EQ(parse_error("x1 parameters", "1 parameters"),
            "plan:22:23: expected a count from x1 to x2147483647, got 1");
  for (const std::string count : {"x0", "x-1", "x2147483648", "x99999999999", "x99999999999999999999", "x2y"})
    EXPECT_EQ(parse_error("x1 parameters", count + " parameters"),
              "plan:22:23: expected a count from x1 to x2147483647, got " + count);
  EXPECT_EQ(parse_error("x1 parameters", "x parameters"),
            "plan:22:23: expected a count from x1 to x2147483647, got x");
  EXPECT_EQ(parse_error("as [256]", "as [99999999999999999999]"),
            "plan:28:21: \"int8[99999999999999999999]\": expected integers between [ and ], such as [4, 6]");
  EXPECT_EQ(parse_error("lr=0.1", "lr=1e999"), "plan:28:32: \"1e999\": is beyond a float64");
  EXPECT_EQ(parse_error("lr=0.1", "lr=9223372036854775808"),
            "plan:28:32: \"9223372036854775808\": is beyond 64 bits");
  EXPECT_EQ(parse_error("= 1.5", "= -1.5"), "plan:5:15: tokens is -1.5, expected a number from 0 on");
  EXPECT_EQ(parse_error("= 1.5", "= nan"), "plan:5:15: tokens is nan, expected a number from 0 on");
  EXPECT_EQ(parse_error("= 1.5", "= inf"), "plan:5:15: tokens is inf, expected a number from 0 on");
  EXPECT_EQ(parse_error("= 1.5", "= 1e999"), "plan:5:15: expected a number, got \"1e999\"");
  EXPECT_EQ(parse_error("odd kernel pull", "odd kernl pull"),
            "plan:38:7: expected a kind of actor: kernel, collective, pull, copy, host, got kernl");
  EXPECT_EQ(parse_error("matmul(%x, %w", "matmul(%x, %v"), "plan:26:18: no register v");
  EXPECT_EQ(parse_error("{transpose_b=true}", "{transpose_b=true"), "plan:26:48: expected ',', got \"->\"");
  EXPECT_EQ(parse_error("-> %g on", "-> %y on"), "plan:27:39: another output is written to this register");
  EXPECT_EQ(parse_error("%g on compute", "%g on computer"),
            "plan:27:44: no queue computer (did you mean compute?)");
  EXPECT_EQ(parse_error("as [256]", "as [2x6]"),
            "plan:28:21: \"int8[2x6]\": expected integers between [ and ], such as [4, 6]");
  EXPECT_EQ(parse_error("of first via", "of frist via"),
            "plan:37:16: no program frist (did you mean first?)");
  EXPECT_EQ(parse_error("%y of first", "%yy of first"), "plan:37:11: no register yy (did you mean y?)");
  EXPECT_EQ(parse_error("turn net", "turn ned"), "plan:37:68: no queue ned (did you mean net?)");
  EXPECT_EQ(parse_error("layer 3 moves", "layer -1 moves"),
            "plan:39:57: expected a number from 0 to 2147483647, got \"-1\"");
  EXPECT_EQ(parse_error("on net in U", "on net in"), "plan:39:49: no phase layer");
  EXPECT_EQ(parse_error("\"two words\"", "\"two words"), "plan:40:3: the quote does not end");
  EXPECT_EQ(parse_error("workspace 4096 @8192", "workspace 4096 at 8192"),
            "plan:15:18: expected the end of the line, got \"at\"");
}

// Short text cannot demand more than a machine can hold, and takes time in proportion to its demands.
TEST(PlanText, BoundsWhatItAsksFor) {
  const std::string head = "plan p\ndevices 1048576\n";
  EXPECT_EQ(error_of([&] { parse_plan(head + "comm a: {0-1048575} {0}\n"); }),
            "plan:3:24: more entries than there are devices");
  const std::string program = "plan p\ndevices 1\nprogram a\n  phases F\n";
  EXPECT_EQ(error_of([&] { parse_plan(program + "  schedule F[0-4194303] F\n"); }),
            "plan:5:26: the schedule is too long");
  EXPECT_EQ(error_of([&] { parse_plan(program + "  schedule F F\n  schedule F\n"); }),
            "plan:6:11: there is a schedule already");
  EXPECT_EQ(error_of([&] { parse_plan(program + "  schedule 16777216*()\n"); }),
            "plan:5:22: expected a phase, got \")\"");
  EXPECT_EQ(
      error_of([&] {
        parse_plan(program + "  schedule F[0-4000000]\nprogram b\n  phases F\n  schedule F[0-4000000]\n");
      }),
      "plan:8:24: the schedule is too long");
  for (const std::string runs : {"4194304*(F[0+0])", "2000000*(F[0+0]) 2000000*(F[1+0])"})
    EXPECT_NE(to_text(parse_plan(program + "  schedule " + runs + "\n")).find(runs + "\n"),
              std::string::npos);
}

// Cut or damaged text is refused or read, and never crashes.
TEST(PlanText, DamagedTextIsRefused) {
  std::string text = pair_text;
  for (size_t i = 0; i < text.size(); ++i) {
    for (const std::string& damaged :
         {text.substr(0, i), text.substr(i), std::string(text).replace(i, 1, "9"),
          std::string(text).replace(i, 1, "%"), std::string(text).erase(i, 1)}) {
      try {
        check(parse_plan(damaged));
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::bad_input);
      }
    }
  }
}

std::string schedule_of(const std::vector<PhaseRun>& schedule) {
  return schedule_text(schedule, {"F", "B", "U"});
}

TEST(PlanNotation, ScheduleOf1F1BIsShort) {
  std::vector<PhaseRun> schedule;
  for (int i = 0; i < 8; ++i) schedule.push_back({0, i});
  for (int i = 0; i < 88; ++i) {
    schedule.push_back({1, i});
    schedule.push_back({0, i + 8});
  }
  for (int i = 88; i < 96; ++i) schedule.push_back({1, i});
  schedule.push_back({2, 0});
  std::string text = schedule_of(schedule);
  EXPECT_EQ(text, "F[0-7] 88*(B[0+1] F[8+1]) B[88-95] U");
  PlanLine in(text, 1);
  EXPECT_EQ(parse_schedule(in, {"F", "B", "U"}), schedule);
}

TEST(PlanNotation, SchedulesWithGroupsOfMicroBatches) {
  std::vector<PhaseRun> schedule;
  for (int turn = 0; turn < 3; ++turn) {
    for (int phase : {0, 1}) {
      for (int i = 0; i < 4; ++i) schedule.push_back({phase, 4 * turn + i});
    }
  }
  EXPECT_EQ(schedule_of(schedule), "3*(F[0-3+4] B[0-3+4])");
  EXPECT_EQ(schedule_of({{0, 3}, {0, 1}, {2, 0}, {2, 0}}), "F[3] F[1] 2*(U[0+0])");
  EXPECT_EQ(schedule_of({{0, 0}, {0, 2}, {0, 4}}), "3*(F[0+2])");
  EXPECT_EQ(schedule_of({}), "");
}

TEST(PlanNotation, Devices) {
  EXPECT_EQ(device_list({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(device_list({8, 3, 4, 0}), "8,3-4,0");
  PlanLine in("8,3-4,0", 1);
  EXPECT_EQ(parse_device_list(in, 9), (std::vector<int>{8, 3, 4, 0}));
}

TEST(PlanNotation, Peers) {
  EXPECT_EQ(peers_text({-1, -1, 0, 1, 1}), "2-3 from 0-1, 4 from 1");
  EXPECT_EQ(peers_text({-1, -1}), "");
  PlanLine in("2-3 from 0-1, 4 from 1", 1);
  EXPECT_EQ(parse_peers(in, 5), (std::vector<int>{-1, -1, 0, 1, 1}));
}

TEST(PlanNotation, GroupsOfMeshes) {
  using Groups = std::vector<std::vector<int>>;
  auto round = [](const Groups& groups, const std::string& text) {
    EXPECT_EQ(groups_text(groups), text);
    PlanLine in(text, 1);
    EXPECT_EQ(parse_groups(in, 1024), groups);
  };
  round({{0, 1}, {2, 3}, {4, 5}, {6, 7}}, "groups 4 by 2, ranks 2 by 1");
  round({{0, 4}, {1, 5}, {8, 12}, {9, 13}}, "groups 2 by 8, 2 by 1, ranks 2 by 4");
  round({{0, 1, 8, 9}, {2, 3, 10, 11}}, "groups 2 by 2, ranks 2 by 8, 2 by 1");
  round({{7}}, "groups 1 by 1, ranks 1 by 1, from 7");
  round({{0, 1}, {2, 4, 3}}, "{0-1} {2,4,3}");
  round({{1, 0}}, "{1,0}");
  round({}, "");
  Groups dp;  // 8 stages of 16 x 8: data parallel groups run across
  for (int stage = 0; stage < 8; ++stage) {
    for (int t = 0; t < 8; ++t) {
      dp.emplace_back();
      for (int d = 0; d < 16; ++d) dp.back().push_back(stage * 128 + d * 8 + t);
    }
  }
  round(dp, "groups 8 by 128, 8 by 1, ranks 16 by 8");
}

TEST(PlanNotation, RandomSchedulesAndGroupsReadBack) {
  const unsigned seed = 5;
  std::mt19937 random(seed);
  auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    std::vector<PhaseRun> schedule;
    std::vector<std::vector<int>> groups;
    for (int i = pick(0, 30); i > 0; --i) schedule.push_back({pick(0, 2), pick(0, 3)});
    for (int i = pick(0, 4); i > 0; --i) {
      groups.emplace_back();
      for (int d = pick(1, 4); d > 0; --d) groups.back().push_back(pick(0, 9));
    }
    std::string runs = schedule_of(schedule), lists = groups_text(groups);
    PlanLine in(runs, 1), in2(lists, 1);
    ASSERT_EQ(parse_schedule(in, {"F", "B", "U"}), schedule) << runs;
    ASSERT_EQ(parse_groups(in2, 16), groups) << lists;
  }
}

TEST(Plan, SizeCountsAllDevices) {
  PlanSize size = size_of(parse_plan(pair_text));
  EXPECT_EQ(size.actors, 2 * 4 + 2 * 4);
  EXPECT_EQ(size.registers, 2 * 4 + 2 * 2);
  EXPECT_EQ(size.queues, 2 * 3 + 2 * 2);
  EXPECT_EQ(size.groups, 2);
  EXPECT_EQ(size.acts_per_step, 2 * (3 * 8 + 1) + 2 * (2 * 8 + 2));
}

// A valid plan; each following change must be refused.
Plan sound() {
  Plan plan = parse_plan(pair_text);
  plan.programs[0].registers[3].every = 8;
  Program& first = plan.programs[0];
  Actor copy = plan.programs[1].actors[2];
  Register& sum = first.registers.emplace_back();
  sum.name = "s", sum.bytes = 4, sum.producer = 4, sum.memory = MemoryKind::gradients;
  copy.outputs = {4};
  first.actors.push_back(copy);
  return plan;
}

std::string refusal(const std::function<void(Plan&)>& change) {
  return error_of([&] {
    Plan plan = sound();
    change(plan);
    check(plan);
  });
}

TEST(PlanCheck, SoundPlanPasses) {
  EXPECT_EQ(refusal([](Plan&) {}), "no error");
}

TEST(PlanCheck, PhasesRunOnceOrForEachMicroBatch) {
  EXPECT_EQ(refusal([](Plan& p) {
              p.programs[0].schedule.push_back({0, 0});
            }),
            "first: phase F: runs 9 times in a step, expected once, or once for each of 8 micro-batches");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[0].schedule.pop_back(); }),
            "first: phase U: runs 0 times in a step, expected once, or once for each of 8 micro-batches");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[0].schedule[1].micro_batch = 0; }),
            "first: phase F: runs twice for micro-batch 0");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[0].schedule.back().micro_batch = 1; }),
            "first: phase U: runs once, for micro-batch 1 and not 0");
  EXPECT_EQ(refusal([](Plan& p) { p.micro_batches = 16; }),
            "first: phase F: runs 8 times in a step, expected once, or once for each of 16 micro-batches");
  EXPECT_EQ(error_of([] {
              check(
                  parse_plan("plan p\ndevices 1\nmicro_batches 2\nclass 0: p\nprogram p\n  phases U\n"
                             "  schedule U\n"));
            }),
            "plan: 2 micro-batches, but no phase runs more than 1 times");
}

TEST(PlanCheck, MicroBatchesAreHandedOnInOneOrder) {
  EXPECT_EQ(refusal([](Plan& p) { std::swap(p.programs[1].schedule[0], p.programs[1].schedule[1]); }),
            "second: p: reads %y of micro-batch 0 for micro-batch 1, as F runs in another order in first");
  EXPECT_EQ(error_of([] {
              const std::string body =
                  "  phases F\n  schedule F[0-1]\n  queue net: network\n"
                  "  ar all_reduce() on net in F over c joint ar\n";
              std::string other = body;
              other.replace(other.find("F[0-1]"), 6, "F[1] F[0]");
              check(
                  parse_plan("plan p\ndevices 2\nmicro_batches 2\ncomm c: {0-1}\nclass 0: p\nclass 1: q\n"
                             "program p\n" +
                             body + "program q\n" + other));
            }),
            "p: ar: acts with ar of micro-batch 1 for micro-batch 0, as F runs in another order in q");
}

TEST(PlanCheck, UnfoldedSizesAreBounded) {
  EXPECT_EQ(refusal([](Plan& p) { p.devices = most_devices + 1; }), "plan: 1048577 devices, at most 1048576");
  EXPECT_EQ(error_of([] {
              Plan plan;
              plan.devices = 4096;
              plan.programs.push_back({"p", {"F"}, {{0, 0}}, {{"q"}}, {}, {}});
              for (int a = 0; a < 4097; ++a) {
                plan.programs[0].actors.emplace_back();
                plan.programs[0].actors.back().name = std::to_string(a);
              }
              for (int d = 0; d < plan.devices; ++d) plan.classes.push_back({0, {d}});
              check(plan);
            }),
            "plan: its classes have more than 16777216 actors or 1073741824 acts in a step");
  EXPECT_EQ(error_of([] {
              std::string text = "plan p\ndevices 1048576\n";
              for (int i = 0; i < 33; ++i) text += "peers p" + std::to_string(i) + ": 0 from 0\n";
              parse_plan(text);
            }),
            "plan:35:11: lists of more than 33554432 devices together");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[0].registers[0].bytes = most_bytes + 1; }),
            "first: %x: 1152921504606846977 bytes");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[0].arena_bytes = -1; }),
            "first: an arena of -1 bytes, 4096 of workspace");
}

TEST(PlanCheck, DevicesClassesGroups) {
  EXPECT_EQ(refusal([](Plan& p) { p.devices = 0; }), "plan: 0 devices, at least 1");
  EXPECT_EQ(refusal([](Plan& p) { p.micro_batches = 0; }), "plan: 0 micro-batches, at least 1");
  EXPECT_EQ(refusal([](Plan& p) { p.classes[0].program = 2; }), "class 0: no program 2");
  EXPECT_EQ(refusal([](Plan& p) { p.classes[0].devices.clear(); }), "class 0: no devices");
  EXPECT_EQ(refusal([](Plan& p) {
              p.classes[0].devices = {0, 1, 2};
            }),
            "class 1: device 2 is in class 0 already");
  EXPECT_EQ(refusal([](Plan& p) { p.classes[0].devices = {1, 0}; }), "class 0: devices are not ascending");
  EXPECT_EQ(refusal([](Plan& p) { p.classes[0].devices = {0, 4}; }), "class 0: device 4 of 4");
  EXPECT_EQ(refusal([](Plan& p) { p.classes[0].devices = {0}; }), "plan: device 1 is in no class");
  EXPECT_EQ(refusal([](Plan& p) { p.comms[0].groups[0] = {0, 0}; }), "comm dp: device 0 is in two groups");
  EXPECT_EQ(refusal([](Plan& p) { p.comms[0].groups[0] = {0, 7}; }), "comm dp: device 7 of 4");
  EXPECT_EQ(refusal([](Plan& p) { p.comms[0].groups[0] = {}; }), "comm dp: a group is empty");
  EXPECT_EQ(refusal([](Plan& p) { p.peers[0].source.pop_back(); }), "peers forward: 3 entries for 4 devices");
  EXPECT_EQ(refusal([](Plan& p) { p.peers[0].source[2] = 9; }), "peers forward: device 9 of 4");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[1].name = "first"; }), "plan: there are two programs first");
}

TEST(PlanCheck, RegistersAndRates) {
  auto reg = [](int r, std::function<void(Register&)> change) {
    return refusal([&](Plan& p) { change(at(p.programs[0].registers, r)); });
  };
  EXPECT_EQ(reg(0, [](Register& r) { r.count = 0; }), "first: %x: count 0, at least 1");
  EXPECT_EQ(reg(0, [](Register& r) { r.count = 1 << 30; }), "first: %x: count 1073741824, at most 1048576");
  EXPECT_EQ(reg(0, [](Register& r) { r.bytes = int64_t{1} << 60; }),
            "first: its registers have 2.31e+18 bytes together, more than 1 EiB");
  EXPECT_EQ(reg(0, [](Register& r) { r.initial = 3; }), "first: %x: initial 3, from 0 to the count 2");
  EXPECT_EQ(reg(0, [](Register& r) { r.every = 0; }), "first: %x: every 0, at least 1");
  EXPECT_EQ(reg(0, [](Register& r) { r.bytes = -1; }), "first: %x: -1 bytes");
  EXPECT_EQ(reg(0, [](Register& r) { r.producer = 1; }), "first: %x: its producer mm has no such output");
  EXPECT_EQ(reg(0, [](Register& r) { r.producer = -1; }), "first: %x: no actor writes it");
  EXPECT_EQ(reg(0, [](Register& r) { r.name = "w"; }), "first: there are two registers w");
  EXPECT_EQ(reg(3, [](Register& r) { r.every = 3; }),
            "first: grad: 8 acts in a step do not divide by every 3 of %g");
  EXPECT_EQ(reg(3, [](Register& r) { r.every = 4; }),
            "first: sgd: reads %g 1 times in a step, but grad has 2 of it, each for 1");
  EXPECT_EQ(reg(1, [](Register& r) { r.count = 2; }),
            "first: sgd: updates %w in place: its count, every and repeat are 1");
}

TEST(PlanCheck, Actors) {
  auto actor = [](int program, int a, std::function<void(Actor&)> change) {
    return refusal([&](Plan& p) { change(at(at(p.programs, program).actors, a)); });
  };
  EXPECT_EQ(actor(0, 1, [](Actor& a) { a.queue = 3; }), "first: mm: no queue 3");
  EXPECT_EQ(actor(0, 1, [](Actor& a) { a.phase = -1; }), "first: mm: no phase -1");
  EXPECT_EQ(actor(0, 1, [](Actor& a) { a.inputs[0].reg = 9; }), "first: mm: no register 9");
  EXPECT_EQ(actor(0, 1, [](Actor& a) { a.inputs[1].repeat = 4; }),
            "first: mm: reads %w 8 times in a step, but sgd has 1 of it, each for 4");
  EXPECT_EQ(actor(0, 1, [](Actor& a) { a.inputs[0].program = 1; }),
            "first: mm: only a pull reads another program's register");
  EXPECT_EQ(actor(0, 1, [](Actor& a) { a.outputs = {2, 0}; }), "first: mm: %x has two producers");
  EXPECT_EQ(actor(0, 3, [](Actor& a) { a.inputs[1].view = Shape{255}; }),
            "first: sgd: reads %g, float32[16, 16], as another number of elements");
  EXPECT_EQ(actor(0, 1, [](Actor& a) { a.comm = 0; }), "first: mm: a communicator, but it is no collective");
  EXPECT_EQ(actor(1, 0, [](Actor& a) { a.inputs[0].peers = -1; }),
            "second: p: a pull names a program and a list of peers");
  EXPECT_EQ(actor(1, 0, [](Actor& a) { a.inputs.clear(); }), "second: p: a pull has one input, not 0");
  EXPECT_EQ(actor(1, 0, [](Actor& a) { a.source_queue = 5; }), "second: p: first has no queue 5");
  EXPECT_EQ(refusal([](Plan& p) { p.peers[0].source[3] = -1; }),
            "second: p: device 3 pulls, but peers forward has no source for it");
  EXPECT_EQ(refusal([](Plan& p) { p.peers[0].source[3] = 2; }),
            "second: p: device 3 pulls from device 2, which does not run first");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[0].registers[2].initial = 1; }),
            "second: p: takes a turn for %y, which has initial slots");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[0].queues[1].ordered = false; }),
            "first: ar: acts together with others on a queue that is not ordered");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[1].queues[1].ordered = false; }),
            "second: p: acts together with others on a queue that is not ordered");
  EXPECT_EQ(refusal([](Plan& p) { p.programs[0].schedule[0].micro_batch = 8; }),
            "first: schedule: micro-batch 8 of 8");
}

TEST(PlanCheck, JointActs) {
  auto joint = [](std::function<void(Actor&)> change) {
    return refusal([&](Plan& p) {
      p.comms[0].groups = {{0, 2}, {1, 3}};
      change(p.programs[0].actors[4]);
    });
  };
  EXPECT_EQ(joint([](Actor&) {}), "no error");
  EXPECT_EQ(joint([](Actor& a) { a.joint = "other"; }),
            "first: ar: second is in a group of dp with it, but does not take part");
  EXPECT_EQ(joint([](Actor& a) { a.collective = sbp::Collective::broadcast; }),
            "first: ar: is broadcast, but in second all_reduce");
  EXPECT_EQ(joint([](Actor& a) { a.collective = sbp::Collective::none; }),
            "first: ar: does not say which collective");
  EXPECT_EQ(joint([](Actor& a) { a.phase = 0; }), "first: ar: acts 8 times in a step, but in second 1");
  EXPECT_EQ(joint([](Actor& a) { a.comm = -1; }), "first: ar: a collective without a communicator");
  EXPECT_EQ(refusal([](Plan& p) {
              p.comms[0].groups = {{0}, {2, 3}};
            }),
            "first: ar: a device that runs it is in no group of dp");
}

}  // namespace
}  // namespace boxcar::ir
