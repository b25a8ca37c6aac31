#include "planner/verify.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "planner/dry_run.h"
#include "planner/holdings.h"
#include "planner/lifetimes.h"
#include "sbp/error.h"
#include "support/random_plan.h"

namespace boxcar::planner {
namespace {

// "" if the plan is accepted.
std::string refusal(const std::string& text, int64_t memory = 0) {
  ir::Plan plan = ir::parse_plan(text);
  ir::check(plan);
  try {
    verify(plan, memory);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::cannot_run);
    return e.what();
  }
  return "";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Figure 2: M1 and M2 move data for O1 and O2. All four outputs hold 100 + 100 + 200 + 100 bytes.
constexpr const char* figure2 = R"(plan figure2
devices 1
micro_batches 4
class 0: p

program p
  arena 500
  phases F
  schedule F[0-3]
  queue compute: compute
  queue copy: copy_in
  %m1: int8[100] x1 activations @0
  %m2: int8[100] x1 activations @100
  %o1: int8[200] x1 activations @200
  %o2: int8[100] x1 activations @400
  M1 host test() -> %m1 on copy in F
  M2 host test() -> %m2 on copy in F
  O2 host test(%m2) -> %o2 on compute in F
  O1 host test(%m1) -> %o1 on compute in F
)";

TEST(Figure2, MemoryOfItsOwnForEachIsAcceptedIfItFits) {
  EXPECT_EQ(refusal(figure2), "");
  EXPECT_EQ(refusal(figure2, 500), "");
  EXPECT_EQ(refusal(figure2, 400),
            "p (device 0): needs 500 bytes of 400 bytes memory, 100 bytes too much (activations 400 bytes, "
            "workspace 100 bytes)");
}

// With 400 bytes O1's output must take the place of M2's, which O2 reads. Nothing delays M2 until O1's reader
// is done, so this would go wrong as the paper says.
std::string tight() {
  return replaced(replaced(replaced(figure2, "arena 500", "arena 400"), "@400", "@300"),
                  "x1 activations @200", "x1 activations @100") +
         "  R host test(%o1) on compute in F\n";
}

// Without a reader of O1's output, M2 comes after O1: it waits for M1's next act, which waits for O1.
TEST(Figure2, ActsThatAllQueuesTogetherKeepApartAreAccepted) {
  EXPECT_EQ(refusal(replaced(tight(), "  R host test(%o1) on compute in F\n", ""), 400), "");
}
TEST(Figure2, SharedMemoryWithoutAnOrderIsRefused) {
  EXPECT_EQ(refusal(tight(), 400),
            "p: %m2 (bytes 100 to 199) and %o1 (bytes 100 to 299) share memory, and nothing keeps their uses "
            "apart");
}

// Ordered: M2 runs on the compute queue, after the last act that wrote there. The order alone makes it safe.
TEST(Figure2, OrderMakesSharedMemorySafe) {
  std::string ordered = replaced(tight(), "-> %m2 on copy", "-> %m2 on compute");
  EXPECT_EQ(refusal(ordered, 400), "");
  std::string o2 = "  O2 host test(%m2) -> %o2 on compute in F\n",
              o1 = "  O1 host test(%m1) -> %o1 on compute in F\n";
  EXPECT_EQ(refusal(replaced(ordered, o2 + o1, o1 + o2), 400),
            "p: %m2 (bytes 100 to 199) and %o1 (bytes 100 to 299) share memory, and nothing keeps their uses "
            "apart");
}

// Two queues that each wait for the other's second act.
constexpr const char* planted_cycle = R"(plan planted
devices 4
micro_batches 2
peers there: 2-3 from 0-1
peers back: 0-1 from 2-3
class 0-1: left
class 2-3: right

program left
  phases F
  schedule F[0-1]
  queue compute: compute
  queue net: network
  %a: int8[4] x1 activations
  %from_right: int8[4] x1 activations
  get pull(%b of right via back) -> %from_right on net in F
  a host test(%from_right) -> %a on compute in F

program right
  phases F
  schedule F[0-1]
  queue compute: compute
  queue net: network
  %b: int8[4] x1 activations
  %from_left: int8[4] x1 activations
  get pull(%a of left via there) -> %from_left on net in F
  b host test(%from_left) -> %b on compute in F
)";

TEST(Verify, NamesThePlantedCycleAcrossRanks) {
  EXPECT_EQ(refusal(planted_cycle),
            "planted: would deadlock, these acts wait for one another:\n"
            "left (devices 0-1): get F[0] needs %b from right (devices 2-3): b F[0]\n"
            "right (devices 2-3): b F[0] needs %from_left from right (devices 2-3): get F[0]\n"
            "right (devices 2-3): get F[0] needs %a from left (devices 0-1): a F[0]\n"
            "left (devices 0-1): a F[0] needs %from_right from left (devices 0-1): get F[0]");
  EXPECT_EQ(
      refusal(replaced(planted_cycle, "%b: int8[4] x1 activations", "%b: int8[4] x1 activations initial 1")),
      "");
}

TEST(Verify, NamesQueueOrderAndMissingSlots) {
  std::string text = R"(plan order
devices 1
micro_batches 3
class 0: p

program p
  phases F
  schedule F[0-2]
  queue compute: compute
  %x: int8[4] x1 activations
  second host test(%x) on compute in F
  first host test() -> %x on compute in F
)";
  EXPECT_EQ(refusal(text),
            "order: would deadlock, these acts wait for one another:\n"
            "p (device 0): second F[0] needs %x from p (device 0): first F[0]\n"
            "p (device 0): first F[0] comes after p (device 0): second F[0] on compute of p (device 0)");
  std::string gpipe = R"(plan gpipe
devices 1
micro_batches 3
class 0: p

program p
  phases F, B
  schedule F[0-2] B[0-2]
  queue compute: compute
  %x: int8[4] x2 activations
  f host test() -> %x on compute in F
  b host test(%x) on compute in B
)";
  EXPECT_EQ(refusal(gpipe),
            "gpipe: would deadlock, these acts wait for one another:\n"
            "p (device 0): f F[2] needs a free slot of %x, which p (device 0): b B[0] reads\n"
            "p (device 0): b B[0] comes after p (device 0): f F[2] on compute of p (device 0)");
  EXPECT_EQ(refusal(replaced(gpipe, "x2 activations", "x3 activations")), "");
}

// Two communicators, each in order on its own queue; the ranks interleave them differently.
constexpr const char* crossed = R"(plan crossed
devices 2
micro_batches 1
comm one: {0-1}
comm two: {0-1}
class 0: p
class 1: q

program p
  phases F
  schedule F
  queue net.one: network
  queue net.two: network
  a all_reduce() on net.one in F over one joint a bytes 8
  b all_reduce() on net.two in F over two joint b bytes 8

program q
  phases F
  schedule F
  queue net.one: network
  queue net.two: network
  b all_reduce() on net.two in F over two joint b bytes 8
  a all_reduce() on net.one in F over one joint a bytes 8
)";

TEST(Verify, RefusesCommunicatorsWithoutACommonOrder) {
  EXPECT_EQ(refusal(crossed),
            "crossed: would deadlock, these acts wait for one another:\n"
            "q (device 1): a F[0] comes after q (device 1): b F[0] in the order in which q (device 1) issues "
            "collectives\n"
            "p (device 0): b F[0] comes after p (device 0): a F[0] in the order in which p (device 0) issues "
            "collectives");
  std::string a = "  a all_reduce() on net.one in F over one joint a bytes 8\n";
  std::string b = "  b all_reduce() on net.two in F over two joint b bytes 8\n";
  EXPECT_EQ(refusal(replaced(crossed, b + a, a + b)), "");
}

// Device 1 is in device 0's class, but nobody pulls from it: the classes alone seem to deadlock, the devices
// do not.
constexpr const char* uneven = R"(plan uneven
devices 4
micro_batches 2
peers from_first: 2 from 0, 3 from 0
peers from_second: 2 from 1, 3 from 1
class 0-1: p
class 2-3: q

program p
  phases F
  schedule F[0-1]
  queue compute: compute
  %x: int8[4] x1 activations
  %z: int8[4] x1 activations every 2
  a host test() -> %x on compute in F
  e host test() -> %z on compute in F

program q
  phases Z, F
  schedule Z F[0-1]
  queue first: network
  queue second: network
  %x: int8[4] x3 activations
  %z: int8[4] x3 activations
  get_z pull(%z of p via from_second) -> %z on first in Z
  get_x pull(%x of p via from_first) -> %x on first in F
)";
TEST(Verify, LooksAtDevicesWhereClassesAreNotAlike) {
  ir::Plan plan = ir::parse_plan(uneven);
  StepView classes = view_of_classes(plan);
  EXPECT_FALSE(classes.exact);
  EXPECT_FALSE(dry_run(classes).ended);
  EXPECT_EQ(refusal(uneven), "");
  EXPECT_EQ(refusal(replaced(uneven, "2 from 0, 3 from 0", "2-3 from 0-1")).substr(0, 23),
            "uneven: would deadlock,");
}

TEST(Verify, RandomLivePlansAreAccepted) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ir::Plan plan = support::random_plan({.seed = seed, .ordered = seed % 2 == 0});
    ASSERT_NO_THROW(verify(plan));
  }
}

// compute: a, then b; the all-reduce between them on its own queue.
constexpr const char* overlap = R"(plan overlap
devices 2
micro_batches 2
comm tp: {0-1}
class 0-1: p

program p
  arena 4096
  workspace 512 @3584
  phases F, B
  schedule F[0-1] B[0-1]
  queue compute: compute
  queue net: network
  %x: int8[256] x1 activations @0
  %y: int8[256] x1 activations @256
  %kept: int8[256] x2 activations @512
  %t: int8[256] x1 gradients @1024
  a host test() -> %x on compute in F
  ar all_reduce(%x) -> %y on net in F over tp bytes 256
  b host test(%y) -> %kept on compute in F workspace 512
  c host test(%kept) -> %t on compute in B
  d host test(%t) on compute in B
)";

TEST(Lifetimes, AreBoundedByTheMainQueue) {
  ir::Plan plan = ir::parse_plan(overlap);
  Lifetimes lifetimes(plan, 0);
  // Five actors: a run is 10 long; a 0, ar 1, b 2, c 3, d 4 are at twice their place.
  EXPECT_EQ(lifetimes.step(), 40);
  EXPECT_EQ(lifetimes.in_run(0).phase, 0);
  EXPECT_EQ(lifetimes.in_run(0).life, (Life{0, 4}));  // %x: from a until ar, which has ended when b starts
  EXPECT_EQ(lifetimes.in_run(1).life, (Life{1, 5}));  // %y: from ar, after a, until b ends
  EXPECT_EQ(lifetimes.in_run(2).phase, -1);
  EXPECT_EQ(*lifetimes.lives(2), (std::vector<Life>{{4, 27}, {14, 37}}));
  EXPECT_EQ(lifetimes.in_run(3).life, (Life{6, 9}));
  EXPECT_FALSE(lifetimes.apart(0, 1));
  EXPECT_TRUE(lifetimes.apart(0, 3));   // F and B
  EXPECT_FALSE(lifetimes.apart(0, 2));  // the second %x while the first %kept waits
  EXPECT_FALSE(lifetimes.apart(2, 3));
}

TEST(Verify, RefusesPlantedOverlapsInMemory) {
  EXPECT_EQ(refusal(overlap), "");
  EXPECT_EQ(refusal(replaced(overlap, "gradients @1024", "gradients @0")), "");  // %t only lives in B
  EXPECT_EQ(
      refusal(replaced(overlap, "activations @256", "activations @128")),
      "p: %x (bytes 0 to 255) and %y (bytes 128 to 383) share memory, and nothing keeps their uses apart");
  EXPECT_EQ(refusal(replaced(overlap, "gradients @1024", "gradients @700")),
            "p: %kept (bytes 512 to 1023) and %t (bytes 700 to 955) share memory, and nothing keeps their "
            "uses apart");
  EXPECT_EQ(refusal(replaced(overlap, "gradients @1024", "gradients @3500")),
            "p: %t (bytes 3500 to 3755) and the workspace (bytes 3584 to 4095) share memory");
  EXPECT_EQ(refusal(replaced(overlap, "gradients @1024", "gradients @4000")),
            "p: %t (bytes 4000 to 4255) lies outside the arena of 4096 bytes");
  EXPECT_EQ(refusal(replaced(overlap, "in F workspace 512", "in F workspace 513")),
            "p: b: needs 513 bytes of workspace, there are 512");
  EXPECT_EQ(refusal(replaced(overlap, "@3584", "@3600")),
            "p: the workspace (bytes 3600 to 4111) lies outside the arena of 4096 bytes");
}

TEST(Verify, RefusesOverlapsInMemoryOfTheHost) {
  constexpr const char* plan = R"(plan copies
devices 1
micro_batches 4
class 0: p

program p
  arena 100
  host_memory 600
  phases F
  schedule F[0-3]
  queue compute: compute
  queue offload: copy_out
  %x: int8[100] x1 activations @0
  %a: int8[100] x3 activations host 100 @0
  %b: int8[100] x3 activations host 100 @300
  make test() {seconds=1.0} -> %x on compute in F
  out copy copy(%x, %x) -> %a, %b on offload in F
)";
  EXPECT_EQ(refusal(plan), "");
  EXPECT_EQ(refusal(plan, 100), "");  // of the device
  EXPECT_EQ(refusal(replaced(plan, "host 100 @300", "host 100 @299")),
            "p: %a and %b share memory of the host");
  EXPECT_EQ(refusal(replaced(plan, "host 100 @0", "host 100 @200")), "p: %a and %b share memory of the host");
  EXPECT_EQ(refusal(replaced(plan, "host_memory 600", "host_memory 599")),
            "p: %b (bytes 300 to 599) lies outside the 599 bytes of host memory");
}

TEST(Verify, RefusesWorkspaceOnTwoQueues) {
  EXPECT_EQ(refusal(replaced(overlap, "in F over tp bytes 256", "in F over tp bytes 256 workspace 8")),
            "p: b: needs workspace on compute, and ar on net: acts that share it are on one queue");
}

// The gradient is reduced in place; its norm reads it afterwards.
constexpr const char* in_place = R"(plan in_place
devices 2
micro_batches 1
comm dp: {0-1}
class 0-1: p

program p
  phases F
  schedule F
  queue compute: compute
  queue net: network
  %g: float32[4] x1 gradients
  %ar.done: int8[] x1 workspace bytes 0
  %late: int8[] x1 workspace bytes 0
  %n: float32[] x1 activations
  g host test() -> %g on compute in F
  ar all_reduce(%g) {in_place=true} -> %ar.done on net in F over dp bytes 16
  late host test(%ar.done) -> %late on compute in F
  norm host test(%g, %ar.done) -> %n on compute in F
)";

TEST(Verify, RefusesToReadWhatACollectiveWritesOver) {
  constexpr const char* race =
      "p: ar: writes over %g, and nothing keeps norm of p from reading it at that time (let it read %ar.done "
      "too)";
  EXPECT_EQ(refusal(in_place), "");
  EXPECT_EQ(refusal(replaced(in_place, "norm host test(%g, %ar.done)", "norm host test(%g, %late)")), "");
  // Without the edge: on a separate queue, behind an act that waits, and before or after the collective.
  std::string loose = replaced(in_place, "norm host test(%g, %ar.done)", "norm host test(%g)");
  EXPECT_EQ(refusal(loose), "");  // after `late` on its queue
  EXPECT_EQ(refusal(replaced(loose, "  late host test(%ar.done) -> %late on compute in F\n",
                             "  late host test(%ar.done) -> %late on net in F\n")),
            race);
  EXPECT_EQ(refusal(replaced(loose, "-> %n on compute", "-> %n on net")), "");
  std::string norm = "  norm host test(%g) -> %n on compute in F\n";
  std::string first = replaced(loose, norm, "");
  EXPECT_EQ(
      refusal(replaced(first, "  ar all_reduce", "  norm host test(%g) -> %n on net in F\n  ar all_reduce")),
      "");
  EXPECT_EQ(refusal(replaced(first, "  ar all_reduce", norm + "  ar all_reduce")), race);
  EXPECT_EQ(refusal(replaced(in_place, "all_reduce(%g)", "all_reduce(%g, %g)")),
            "p: ar: writes over %g twice at once");
}

TEST(MemoryUse, PartsAddUpToTheArena) {
  std::vector<MemoryUse> uses = memory_use(ir::parse_plan(overlap));
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].total, 4096);
  // At the peak in F: %x, %y and both slots of %kept; the rest is workspace and gaps.
  EXPECT_EQ(uses[0].by_kind, (std::vector<int64_t>{0, 0, 0, 1024, 3072}));
}

// An allocator gives %y and %kept room only while they live: %y lives in each run of F, %kept from F to B,
// one slot of each at a time.
TEST(MemoryUse, AnAllocatorGivesBytesForWhatThereIs) {
  ir::Plan plan = ir::parse_plan(overlap);
  plan.programs[0].schedule = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
  const int64_t arena = memory_use(plan)[0].total;
  plan.facts["caching_allocator"] = 1;
  EXPECT_EQ(arena, 4096);
  // At b of F: %y, %kept, what lives otherwise (%t, as nothing on the main queue bounds it) and the
  // workspace.
  EXPECT_EQ(memory_use(plan)[0].total, 256 + 256 + 512);
}

// %kept is made once and read by two runs of B: it stays.
TEST(MemoryUse, ATensorThatSeveralRunsReadStays) {
  ir::Plan plan = ir::parse_plan(overlap);
  plan.facts["caching_allocator"] = 1;
  ir::Program& p = plan.programs[0];
  p.schedule = {{0, 0}, {1, 0}, {1, 1}};
  p.actors[3].inputs[0].repeat = 2;  // c
  p.registers[2].count = 1;
  EXPECT_GE(memory_use(plan)[0].total, 256 + 256 + 512);
  EXPECT_EQ(spans_of(p)[2].from, -1);
}

// A pass that leaves bytes again and again, though there is one slot, cannot make a sum overflow.
TEST(MemoryUse, APlanFromElsewhereMayLeaveBytesWithoutEnd) {
  ir::Plan plan = ir::parse_plan(overlap);
  plan.facts["caching_allocator"] = 1;
  plan.programs[0].registers[2].bytes = int64_t{1} << 55;
  plan.programs[0].schedule.clear();
  for (const int phase : {0, 1})
    for (int m = 0; m < 4096; ++m) plan.programs[0].schedule.push_back({phase, m});
  const int64_t total = memory_use(plan)[0].total;
  EXPECT_GT(total, int64_t{1} << 57);
  EXPECT_LT(total, int64_t{1} << 59);
}

TEST(MemoryUse, WithoutAnArenaItIsTheSum) {
  std::vector<MemoryUse> uses = memory_use(ir::parse_plan(planted_cycle));
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[1].cls, 1);
  EXPECT_EQ(uses[1].total, 8);
  EXPECT_EQ(uses[1].by_kind, (std::vector<int64_t>{0, 0, 0, 8, 0}));
}

}  // namespace
}  // namespace boxcar::planner
