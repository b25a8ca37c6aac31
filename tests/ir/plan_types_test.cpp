// Types of registers that acts read and write fit the acts: whole messages if they do not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/plan.h"
#include "support/error_of.h"

namespace boxcar::ir {
namespace {

constexpr const char* plan_text = R"(plan types
devices 4
micro_batches 2
comm tp: {0-1} {2-3}
peers there: 2-3 from 0-1
class 0-1: p
class 2-3: q

program p
  phases F, U
  schedule F[0-1] U
  queue compute: compute
  queue net: network
  %x: float32[4, 6] x1 activations
  %w: float32[6, 8] x1 parameters initial 1
  %y: float32[4, 8] x1 activations
  %sum: float32[4, 8] x1 activations
  %whole: float32[8, 8] x1 activations
  %part: float32[4, 8] x1 activations
  %turned: float32[8, 4] x1 activations
  %done: int8[] x1 workspace bytes 0
  %cut: float32[4, 3] x1 activations
  load copy load() -> %x on net in F
  mm matmul(%x, %w repeat 2) {transpose_b=false} -> %y on compute in F
  ar all_reduce(%y) -> %sum on net in F over tp
  ag all_gather(%sum) {axes=[0]} -> %whole on net in F over tp
  rs reduce_scatter(%whole) {axes=[0], reduction=max} -> %part on net in F over tp
  aa all_to_all(%part) {axes=[0], axes2=[1]} -> %turned on net in F over tp
  over all_reduce(%turned) {in_place=true} -> %done on net in F over tp
  cut slice(%x) {ends=[4, 3], ends_step_tp=[0, 3], starts=[0, 0], starts_step_tp=[0, 3]} -> %cut on compute in F
  w host parameter() {seconds=0.0} -> %w on compute in U

program q
  phases F, U
  schedule F[0-1] U
  queue compute: compute
  queue net: network
  %p: float32[4, 8] x1 activations
  %row: float32[8] x1 activations
  %n: float32[8] x1 activations
  pull pull(%y of p via there) -> %p on net in F bytes 128
  row pull(%y of p via there) {ends=[3, 8], starts=[2, 0]} -> %row on net in F bytes 32
  known neg(%row) -> %n on compute in F
  own test(%p) {seconds=1.0} on compute in F
)";

std::string with(std::string_view from, std::string_view to) {
  std::string text = plan_text;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}
std::string refusal(const std::string& text) {
  return support::error_of([&] {
    const Plan plan = parse_plan(text);
    check(plan);
    check_types(plan);
  });
}
std::string refusal(std::string_view from, std::string_view to) { return refusal(with(from, to)); }

TEST(PlanTypes, SoundPlanPasses) { EXPECT_EQ(refusal(plan_text), "no error"); }

TEST(PlanTypes, SlotsHoldTheirTypes) {
  EXPECT_EQ(refusal("%y: float32[4, 8] x1 activations", "%y: float32[4, 8] x1 activations bytes 100"),
            "p: %y: 100 bytes a slot, float32[4, 8] has 128");
  EXPECT_EQ(refusal("%x: float32[4, 6] x1 activations", "%x: float32[4, 6] x1 activations bytes 8 over"),
            "p: %x: is written over an operand of load, and none has the 96 bytes of float32[4, 6]");
  EXPECT_EQ(refusal("%n: float32[8] x1 activations", "%n: float32[8] x1 activations bytes 8"),
            "q: %n: 8 bytes a slot, float32[8] has 32");
}

TEST(PlanTypes, KernelsMakeTheirResults) {
  EXPECT_EQ(refusal("matmul(%x, %w repeat 2)", "matmul(%x)"),
            "p: mm: matmul: got 1 operand (float32[4, 6]), expected (a, b)");
  EXPECT_EQ(
      refusal("%y: float32[4, 8]", "%y: float32[8, 4]"),
      "p: mm: matmul makes float32[4, 8] of float32[4, 6], float32[6, 8] on device 0, but its results are "
      "float32[8, 4]");
  EXPECT_EQ(
      refusal("%y: float32[4, 8]", "%y: int32[4, 8]"),
      "p: mm: matmul makes float32[4, 8] of float32[4, 6], float32[6, 8] on device 0, but its results are "
      "int32[4, 8]");
  EXPECT_EQ(refusal("{transpose_b=false}", "{transpose_c=false}"),
            "p: mm: matmul: no attribute transpose_c; known are transpose_a, transpose_b");
  EXPECT_EQ(refusal("mm matmul(", "mm matmull("), "p: mm: no op is named \"matmull\" (did you mean matmul?)");
  EXPECT_EQ(refusal("load copy load() -> %x", "load copy load(%done) -> %x"), "no error");
  EXPECT_EQ(
      refusal("load copy load() -> %x", "load copy load(%y) -> %x"),
      "p: load: load reads float32[4, 8] and writes float32[4, 6], expected one result and no operands");
}

TEST(PlanTypes, OnlyCopiesUseMemoryOfTheHost) {
  const std::string copies =
      with("  load copy load() -> %x on net in F\n", R"(  %h: float32[4, 6] x1 activations host 96
  %z: float32[4, 6] x1 activations
  load copy load() -> %x on net in F
  out copy copy(%x) -> %h on net in F
  in copy copy(%h) -> %z on net in F
)");
  const auto refused = [&](std::string_view from, std::string_view to) {
    std::string text = copies;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return refusal(text.replace(at, from.size(), to));
  };
  EXPECT_EQ(refusal(copies), "no error");
  EXPECT_EQ(refused("mm matmul(%x", "mm matmul(%h"), "p: mm: cannot read %h, which lies in host memory");
  EXPECT_EQ(refused("all_reduce(%y)", "all_reduce(%h)"), "p: ar: cannot read %h, which lies in host memory");
  EXPECT_EQ(refused("%y: float32[4, 8] x1 activations", "%y: float32[4, 8] x1 activations host 128"),
            "p: %y: lies in host memory, where mm cannot write");
  EXPECT_EQ(refused("copy(%h) -> %z", "copy(%h, %x) -> %z"),
            "p: in: copy has 2 operands and 1 results, expected as many");
  EXPECT_EQ(refused("%z: float32[4, 6]", "%z: float32[6, 4]"),
            "p: in: copies %h, float32[4, 6] in 96 bytes to %z, float32[6, 4] in 96 bytes");
  EXPECT_EQ(refused("host 96", "host 90"),
            "p: out: copies %x, float32[4, 6] in 96 bytes to %h, float32[4, 6] in 90 bytes");
  EXPECT_EQ(refused("queue compute: compute", "queue compute: host"),
            "p: mm: runs on the host and cannot read %x, which lies on the device");
}

TEST(PlanTypes, PullsStayInOneKindOfMemory) {
  const auto plan = [](const std::string& source, const std::string& result) {
    return fmt::format(R"(plan pair
devices 2
micro_batches 1
peers other: 0 from 1, 1 from 0
class 0-1: p

program p
  phases F
  schedule F[0]
  queue net: network
  %d: float32[4] x1 activations
  %x: float32[4] x1 activations {}
  %y: float32[2] x1 activations {}
  d copy load() -> %d on net in F
  x copy copy(%d) -> %x on net in F
  y pull(%x of p via other) {{ends=[4], starts=[2]}} -> %y on net in F bytes 8
)",
                       source, result);
  };
  const auto said = [](const std::string& text) {
    return support::error_of([&] { check_types(parse_plan(text)); });
  };
  EXPECT_EQ(said(plan("bytes 512", "bytes 512")), "no error");
  EXPECT_EQ(said(plan("host 512", "bytes 512")),
            "p: y: runs on the host and cannot write %y, which lies on the device");
  EXPECT_EQ(said(plan("bytes 512", "host 512")),
            "p: y: runs on the host and cannot read %x, which lies on the device");
}

TEST(PlanTypes, AttributesFitOnEveryRank) {
  EXPECT_EQ(
      refusal("ends_step_tp=[0, 3]", "ends_step_tp=[0, 2]"),
      "p: cut: slice makes float32[4, 2] of float32[4, 6] on device 1, but its results are float32[4, 3]");
  EXPECT_EQ(refusal("starts_step_tp=[0, 3]", "starts_step_tp=[3]"),
            "p: cut: starts_step_tp: has 1 numbers, starts has 2 and needs as many");
  EXPECT_EQ(refusal("starts_step_tp=[0, 3]", "starts_by_tp=[0, 0]"),
            "p: cut: starts_by_tp: has 2 numbers, starts has 2 and needs them for every coordinate");
  EXPECT_EQ(refusal("starts_step_tp=[0, 3]", "start_step_tp=[0, 3]"),
            "p: cut: start_step_tp: there is no attribute start that differs");
  EXPECT_EQ(refusal("starts_step_tp=[0, 3]", "starts_step_dp=[0, 3]"),
            "p: cut: its attributes differ along dp, which is no communicator");
  EXPECT_EQ(refusal("ends_step_tp=[0, 3]", "ends_step_tp=[0, 9223372036854775807]"),
            "p: cut: ends_step_tp: 3 and 1 times 9223372036854775807 are beyond 64 bits");
}

TEST(PlanTypes, CollectivesFitTheirMembers) {
  EXPECT_EQ(
      refusal("%sum: float32[4, 8]", "%sum: float32[8, 4]"),
      "p: ag: gathers float32[8, 4], float32[8, 4] along axis 0, which are not the parts of float32[8, 8]");
  EXPECT_EQ(refusal("%sum: float32[4, 8]", "%sum: float16[4, 8]"),
            "p: ag: float32[8, 8] beside float16[4, 8]");
  EXPECT_EQ(
      refusal("%whole: float32[8, 8]", "%whole: float32[9, 8]"),
      "p: ag: gathers float32[4, 8], float32[4, 8] along axis 0, which are not the parts of float32[9, 8]");
  EXPECT_EQ(
      refusal("%turned: float32[8, 4]", "%turned: float32[4, 8]"),
      "p: aa: gathers float32[4, 8], float32[4, 8] along axis 0, which are not the parts of float32[4, 8]");
  EXPECT_EQ(refusal("ag all_gather(%sum) {axes=[0]}", "ag all_gather(%sum) {axes=[2]}"),
            "p: ag: axes is [2], which names no axis of tensor 0, float32[8, 8]");
  EXPECT_EQ(refusal("ag all_gather(%sum) {axes=[0]}", "ag all_gather(%sum) {axes=0}"),
            "p: ag: attribute axes is 0, expected a list of axes, one for each operand");
  EXPECT_EQ(refusal("ag all_gather(%sum) {axes=[0]}", "ag all_gather(%sum) {axis=[0]}"),
            "p: ag: no attribute axis; known are axes, axes2, reduction, in_place, seconds");
  EXPECT_EQ(refusal("reduction=max", "reduction=mean"),
            "p: rs: attribute reduction is \"mean\", expected sum, max or min");
  EXPECT_EQ(
      refusal("%part: float32[4, 8]", "%part: float32[5, 8]"),
      "p: aa: gathers float32[5, 8], float32[5, 8] along axis 0, which are not the parts of float32[8, 8]");
  EXPECT_EQ(refusal("axes2=[1]", "axes2=[0]"), "p: aa: gathers and splits tensor 0 along axis 0");
  EXPECT_EQ(
      refusal("ar all_reduce(%y)", "ar all_reduce(%y, %y)"),
      "p: ar: reads float32[4, 8], float32[4, 8] and writes float32[4, 8], but the group's first member, "
      "ar of p, reads float32[4, 8], float32[4, 8]");
  EXPECT_EQ(refusal("%done: int8[] x1 workspace bytes 0", "%done: float32[8, 4] x1 workspace"),
            "p: over: writes over its operands, and float32[8, 4] beside");
  EXPECT_EQ(refusal("ag all_gather(%sum) {axes=[0]} -> %whole",
                    "ag all_gather(%sum) {axes=[0], in_place=true} -> %whole"),
            "p: ag: writes over its operands, and float32[8, 8] beside");
}

TEST(PlanTypes, PullsFitWhatTheyRead) {
  EXPECT_EQ(refusal("%p: float32[4, 8]", "%p: float32[4, 9]"),
            "q: pull: pulls float32[4, 8] of %y on device 2, into float32[4, 9]");
  EXPECT_EQ(refusal("%p: float32[4, 8]", "%p: float64[4, 8]"),
            "q: pull: pulls %y, float32[4, 8], as float64[4, 8]");
  EXPECT_EQ(refusal("{ends=[3, 8], starts=[2, 0]}", "{ends=[5, 8], starts=[4, 0]}"),
            "q: row: starts and ends are no block of %y, float32[4, 8], on device 2");
  EXPECT_EQ(refusal("{ends=[3, 8], starts=[2, 0]}", "{ends=[4, 8], starts=[2, 0]}"),
            "q: row: pulls float32[2, 8] of %y on device 2, into float32[8]");
  EXPECT_EQ(refusal("{ends=[3, 8], starts=[2, 0]}", "{end=[3, 8]}"),
            "q: row: no attribute end; known are starts, ends, seconds");
}

}  // namespace
}  // namespace boxcar::ir
