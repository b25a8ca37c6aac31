// boxcar explain, as a user runs it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "support/run_program.h"

namespace boxcar::tests {
namespace {

class Explain : public ::testing::Test {
 protected:
  void SetUp() override {
    const Output saved = run_program({"simulate", "--model=gpt", "--layers=2", "--hidden=64", "--heads=4",
                                      "--seq=32", "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=4",
                                      "--tp=2", "--zero=1", "--global-batch=8", "--save-plan", plan_.path()});
    ASSERT_EQ(saved.exit_code, 0) << saved.err;
  }
  Output explain(const std::string& flag, const std::string& name) {
    return run_program({"explain", plan_.path(), flag, name});
  }
  TemporaryFile plan_{"plan.txt", ""};
};

TEST_F(Explain, DrawsWhoHoldsWhichBlockOfATensor) {
  EXPECT_EQ(explain("--tensor", "h1.attn.qkv.weight").out,
            R"(%h1.attn.qkv.weight: float32[64, 192] on stage 0, devices 0-3
dp 2: S(0), tp 2: S(1)

                 0:96           96:192
  0:32           0              1
  32:64          2              3
)");
  EXPECT_EQ(explain("--tensor", "h1.attn.qkv.weight.half").out,
            R"(%h1.attn.qkv.weight.half: float16[64, 192] on stage 0, devices 0-3
dp 2: B, tp 2: S(1)

                 0:96           96:192
  0:64           0, 2           1, 3
)");
  EXPECT_EQ(explain("--tensor", "h1.ln1").out,
            R"(%h1.ln1: float16[2, 32, 64] on stage 0, devices 0-3
dp 2: S(0), tp 2: B

  [0:1, 0:32, 0:64]  0-1
  [1:2, 0:32, 0:64]  2-3
)");
}

TEST(ExplainPlan, SaysWhichStagesStandOnSlowDevices) {
  const TemporaryFile cluster(
      "slow.yaml",
      "name: slow\ndevice: a100-sxm-80g\nnode: {gpus: 2, link: nvswitch, link_bandwidth: "
      "300e9}\nslowdown: {1: 1.5}\n");
  const TemporaryFile plan("plan.txt", "");
  const Output saved =
      run_program({"simulate", "--model=gpt", "--layers=5", "--hidden=64", "--heads=4", "--seq=32",
                   "--vocab=128", "--cluster", cluster.path(), "--gpus=2", "--pp=2", "--stage-layers=3,2",
                   "--global-batch=8", "--save-plan", plan.path()});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  EXPECT_NE(
      run_program({"explain", plan.path()})
          .out.find("\n  on slow devices: stage 1 with 2 layers (1.5 times as long); elsewhere 3 a stage\n"),
      std::string::npos);
}

// Replaces times, sizes and shares by #, however wide: they depend on the time models.
std::string without_numbers(const std::string& text) {
  static const std::regex number(R"( *[+-]?[0-9.e-]+ (s|ms|us|B|kB|MB|GB|%)(?![a-z]))");
  return std::regex_replace(text, number, " #");
}

TEST_F(Explain, TellsVirtualStagesByTheirEnds) {
  const Output saved = run_program({"simulate", "--model=gpt", "--layers=8", "--hidden=64", "--heads=4",
                                    "--seq=32", "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=2", "--pp=2",
                                    "--virtual-stages=4", "--global-batch=8", "--save-plan", plan_.path()});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const std::string out = run_program({"explain", plan_.path()}).out;
  EXPECT_NE(out.find("stage0           1 0 ... 6 "), std::string::npos) << out;
  EXPECT_NE(out.find("stage1           1 1 ... 7 "), std::string::npos) << out;
}

// Cells stand below their heads, however long the layers are.
TEST_F(Explain, AlignsStagesOfManyLayers) {
  const Output saved = run_program({"simulate", "--model=gpt", "--layers=80", "--hidden=64", "--heads=4",
                                    "--seq=32", "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=4", "--pp=2",
                                    "--virtual-stages=4", "--global-batch=8", "--save-plan", plan_.path()});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const std::string out = run_program({"explain", plan_.path(), "--no-sensitivity"}).out;
  std::istringstream lines(out.substr(out.find("  stage         GPUs layers")));
  std::string head, first;
  std::getline(lines, head), std::getline(lines, first);
  EXPECT_EQ(first.find("0-9 ... 60-69 "), head.find("layers")) << out;
  EXPECT_EQ(first.find("dp 2"), head.find("mesh")) << out;
}

TEST_F(Explain, TellsStagesWhole) {
  const Output saved =
      run_program({"simulate", "--model=gpt", "--layers=5", "--hidden=64", "--heads=4", "--seq=32",
                   "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=8", "--dp=2", "--tp=2", "--pp=2",
                   "--stage-layers=3,2", "--global-batch=8", "--save-plan", plan_.path()});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const std::string out = run_program({"explain", plan_.path()}).out;
  const size_t begin = out.find("\nstages, "), end = out.find("\ncommunication by time");
  ASSERT_NE(end, std::string::npos) << out;
  EXPECT_EQ(without_numbers(out.substr(begin, end - begin)), R"(
stages, memory of one device, limit #
  stage         GPUs layers       mesh                 in flight      busy    idle   exposed      peak  parameters   gradients   optimizer activations   workspace
  stage0           4 0-2          dp 2 x tp 2                  2 # # # # # # # # #
  stage1           4 3-4          dp 2 x tp 2                  1 # # # # # # # # #

layouts as kept, by part of a device's bytes
  stage0     parameters (B, S(1)) #, (B, S(0)) #, (B, B) #; activations (S(0), S(2)) #, (S(0), B) #, (S(0), S(1)) #
  stage1     parameters (B, S(0)) #, (B, S(1)) #, (B, B) #; activations (S(0), S(2)) #, (S(0), B) #, (S(0), S(1)) #
)");
  const auto doc = nlohmann::json::parse(run_program({"explain", plan_.path(), "--json"}).out);
  ASSERT_EQ(doc["stages"].size(), 2);
  const auto& stage = doc["stages"][1];
  EXPECT_EQ(stage["name"], "stage1");
  EXPECT_EQ(stage["gpus"], 4);
  EXPECT_EQ(stage["layers"], "3-4");
  EXPECT_EQ(stage["mesh"], "dp 2 x tp 2");
  EXPECT_EQ(stage["in_flight"], 1);
  double shares = 0;
  for (const auto& share : stage["activation_layouts"]) shares += share.get<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(stage["peak_memory_bytes"], doc["peak_memory_bytes"][1]);
  EXPECT_EQ(stage["memory_bytes"], doc["memory_breakdown_bytes"][1]);
  EXPECT_GT(stage["busy_s"], 0);
  EXPECT_LT(stage["busy_s"], doc["step_time_s"]);
  EXPECT_GT(stage["bubble_fraction"], 0);
  EXPECT_LE(stage["exposed_comm_s"], doc["exposed_comm_s"]);
  EXPECT_FALSE(doc["communications"].empty());
}

// Buckets of gradients differ in their number alone.
TEST_F(Explain, TellsEqualCommunicationOnce) {
  const Output saved = run_program({"simulate", "--model=gpt", "--layers=8", "--hidden=256", "--heads=4",
                                    "--seq=32", "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=4",
                                    "--grad-bucket-mb=1", "--global-batch=8", "--save-plan", plan_.path()});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const auto doc = nlohmann::json::parse(run_program({"explain", plan_.path(), "--json"}).out);
  std::set<std::string> rows;
  double bytes = 0;
  bool merged = false;
  for (const auto& row : doc["communications"]) {
    EXPECT_TRUE(rows.insert(row["over"].get<std::string>() + row["why"].get<std::string>()).second) << row;
    merged |= row["name"].get<std::string>().ends_with(".*");
    if (row["over"] == "dp 4") bytes += row["bytes"].get<double>();
  }
  EXPECT_TRUE(merged) << doc["communications"].dump(2);
  EXPECT_NEAR(bytes * 4 * 2 * 3 / 4, doc["comm_bytes"]["all_reduce"].get<double>(), 1);  // rings of four
}

TEST_F(Explain, SaysWhatDecidedAndWhatWouldChangeIt) {
  EXPECT_EQ(without_numbers(explain("--op", "h0.attn.proj").out),
            R"(h0.attn.proj = matmul(%h0.attn.merge, %h0.attn.proj.weight.half)

dp, 2 devices
    signature                                       step    kernel    boxing  what moves
  * S(0), B -> S(0)                                    - #         -
    B, B -> B # # #  h0.attn.merge: S(0) -> B, h0.attn.proj: B -> S(0)
    B, S(1) -> S(2) # # #  h0.attn.merge: S(0) -> B, h0.attn.proj.weight.half: B -> S(1), h0.attn.proj: S(2) -> S(0)
    S(1), B -> S(1) # # #  h0.attn.merge: S(0) -> S(1), h0.attn.proj: S(1) -> S(0)
    S(2), S(0) -> P(sum) # # #  h0.attn.merge: S(0) -> S(2), h0.attn.proj.weight.half: B -> S(0), h0.attn.proj: P(sum) -> S(0)
    B, P(sum) -> P(sum)                             none # #  h0.attn.merge: S(0) -> B, h0.attn.proj.weight.half: B -> P(sum), h0.attn.proj: P(sum) -> S(0)
  the next is B, B -> B; the boxing of %h0.attn.merge decided, S(0) -> B in # there
  the next would win by # here if %h0.attn.proj were kept B
  no constant of the cluster, at 1/64 to 64 times, lets the next win

tp, 2 devices
    signature                                       step    kernel    boxing  what moves
  * S(2), S(0) -> P(sum)                               - # #  h0.attn.proj: P(sum) -> B
    B, B -> B # # #  h0.attn.merge: S(2) -> B, h0.attn.proj.weight.half: S(0) -> B
    B, S(1) -> S(2) # # #  h0.attn.merge: S(2) -> B, h0.attn.proj.weight.half: S(0) -> S(1), h0.attn.proj: S(2) -> B
    S(1), B -> S(1) # # #  h0.attn.merge: S(2) -> S(1), h0.attn.proj.weight.half: S(0) -> B, h0.attn.proj: S(1) -> B
  the next is B, B -> B; the boxing of %h0.attn.proj.weight.half decided, S(0) -> B in # there
  the next would win by # here if %h0.attn.proj.weight.half were kept B
  no constant of the cluster, at 1/64 to 64 times, lets the next win

step: by how much it would grow by the time models with this signature and all other ops as they are
none: no layouts of the other ops go with it
)");
  const Output output =
      run_program({"explain", plan_.path(), "--op=h0.attn.proj", "--tensor=h0.ln1", "--json"});
  const auto doc = nlohmann::json::parse(output.out);
  EXPECT_EQ(doc["op"]["op"], "h0.attn.proj = matmul(%h0.attn.merge, %h0.attn.proj.weight.half)");
  EXPECT_EQ(doc["op"]["others"], "as they are");
  const auto& tp = doc["op"]["dimensions"][1];
  EXPECT_EQ(tp["name"], "tp");
  EXPECT_EQ(tp["signatures"][0]["signature"], "S(2), S(0) -> P(sum)");
  EXPECT_EQ(tp["signatures"][0]["chosen"], true);
  EXPECT_EQ(tp["signatures"][0]["step_growth_s"], 0);
  EXPECT_EQ(tp["signatures"][0]["moved"][0]["tensor"], "h0.attn.proj");
  EXPECT_EQ(doc["tensor"]["layout"][0], "dp 2: S(0)");
  EXPECT_EQ(doc["tensor"]["blocks"].size(), 2);
}

// The product with its weight split by rows: partial sums, which the residual stream needs whole.
// Its memory is a constant of a step only where it updates.
TEST_F(Explain, TellsOfAHostThatUpdates) {
  const TemporaryFile offloaded("offloaded.txt", "");
  const Output saved =
      run_program({"simulate", "--model=gpt", "--layers=2", "--hidden=512", "--heads=8", "--seq=32",
                   "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=4", "--global-batch=8",
                   "--offload-optimizer", "--save-plan", offloaded.path()});
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const std::string device = run_program({"explain", plan_.path()}).out,
                    host = run_program({"explain", offloaded.path()}).out;
  for (const char* text : {"bandwidth of the host's memory", "on the host"}) {
    EXPECT_EQ(device.find(text), std::string::npos) << text;
    EXPECT_NE(host.find(text), std::string::npos) << text;
  }
}

TEST_F(Explain, ComparesTheSignaturesOfAnOp) {
  const std::string out = explain("--op", "h0.attn.proj").out;
  EXPECT_TRUE(
      out.starts_with("h0.attn.proj = matmul(%h0.attn.merge, %h0.attn.proj.weight.half)\n\ndp, 2 devices\n"))
      << out;
  const size_t tp = out.find("\ntp, 2 devices\n");
  ASSERT_NE(tp, std::string::npos);
  const auto line_of = [&](const std::string& signature) {
    const size_t at = out.find(signature, tp);
    return at == std::string::npos
               ? ""
               : out.substr(out.rfind('\n', at) + 1, out.find('\n', at) - out.rfind('\n', at) - 1);
  };
  EXPECT_TRUE(line_of("S(2), S(0) -> P(sum)").starts_with("  * ")) << out;
  EXPECT_TRUE(line_of("S(2), S(0) -> P(sum)").ends_with("  h0.attn.proj: P(sum) -> B")) << out;
  EXPECT_TRUE(line_of("B, S(1) -> S(2)").starts_with("    ")) << out;
  EXPECT_TRUE(
      line_of("B, S(1) -> S(2)")
          .ends_with(
              "h0.attn.merge: S(2) -> B, h0.attn.proj.weight.half: S(0) -> S(1), h0.attn.proj: S(2) -> B"))
      << out;
}

TEST_F(Explain, SaysWhatMovesAndWhy) {
  const Output output = run_program({"explain", plan_.path()});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_NE(
      output.out.find("h*.attn.proj.all_reduce: partial sums, wanted whole; made by h*.attn.proj; read by "
                      "h*.residual1\n"),
      std::string::npos)
      << output.out;
}

TEST_F(Explain, NamesTheNearest) {
  const Output op = explain("--op", "h0.attn.prj"), tensor = explain("--tensor", "h0.ln9");
  EXPECT_EQ(op.err, "boxcar: --op: the plan's graph has no h0.attn.prj (did you mean h0.attn.proj?)\n");
  EXPECT_EQ(tensor.err, "boxcar: --tensor: the plan's graph has no h0.ln9 (did you mean h0.ln1?)\n");
  EXPECT_EQ(op.exit_code, 2);
  const Output state = explain("--op", "h0.attn.proj.weight");
  EXPECT_EQ(
      state.err,
      "boxcar: --op: h0.attn.proj.weight is there from the start, and no op makes it; give an op that reads "
      "it, or --tensor h0.attn.proj.weight\n");
  EXPECT_EQ(state.exit_code, 2);
}

TEST(ExplainSearch, TellsTheRunnersUp) {
  TemporaryFile plan("plan.txt", "");
  const Output found = run_program({"search", "--model=gpt", "--layers=2", "--hidden=64", "--heads=4",
                                    "--seq=32", "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=2",
                                    "--global-batch=8", "--simulate=3", "--json", "--out", plan.path()});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  const std::string out = run_program({"explain", plan.path()}).out;
  const size_t at = out.find("\nrunners-up of the search\n  ");
  ASSERT_NE(at, std::string::npos) << out;
  EXPECT_NE(out.find(" % slower: --dp ", at), std::string::npos) << out;
}

// The search chooses layouts on each dimension; the report gives the cost of alternatives on each.
TEST(ExplainSearch, TellsOfEachDimension) {
  TemporaryFile plan("plan.txt", "");
  const Output found =
      run_program({"search", "--model=gpt", "--layers=2", "--hidden=64", "--heads=4", "--seq=32",
                   "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=4", "--dp=2", "--tp=2",
                   "--global-batch=4", "--pin=h*.mlp.fc1.weight=(B, S(0))", "--out", plan.path()});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  const std::string op = run_program({"explain", plan.path(), "--op", "h1.mlp.fc1"}).out;
  const size_t dp = op.find("\ndp, 2 devices\n"), tp = op.find("\ntp, 2 devices\n");
  ASSERT_TRUE(dp < tp && tp != std::string::npos) << op;
  EXPECT_NE(op.substr(dp, tp - dp).find(" +"), std::string::npos) << op;
  EXPECT_NE(op.find(" none ", tp), std::string::npos) << op;
  EXPECT_NE(op.find(" and the best layouts of all other ops on that dimension\n"), std::string::npos) << op;
}

TEST(ExplainSearch, FindsTheLayoutsOfAPlanAgain) {
  TemporaryFile plan("plan.txt", "");
  const Output found =
      run_program({"search", "--model=gpt", "--layers=2", "--hidden=64", "--heads=4", "--seq=32",
                   "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--micro-batch=1..2",
                   "--global-batch=4", "--pin=h*.mlp.fc1.weight=S(0)", "--no-partial", "--out", plan.path()});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_NE(found.out.find("\n  layout of every op: optimal within this space by the time models; kernels "),
            std::string::npos)
      << found.out;
  EXPECT_NE(found.out.find("\n  no partial values: with them, at these degrees, the step takes "),
            std::string::npos)
      << found.out;
  const std::string out = run_program({"explain", plan.path(), "--tensor", "h1.mlp.fc1.weight"}).out;
  EXPECT_EQ(out,
            "%h1.mlp.fc1.weight: float32[64, 256] on stage 0, devices 0-1\n"
            "tp 2: S(0)\n\n"
            "                 0:256\n"
            "  0:32           0\n"
            "  32:64          1\n");
  const std::string op = run_program({"explain", plan.path(), "--op", "h1.mlp.gelu"}).out;
  EXPECT_EQ(op.substr(0, 151),
            "h1.mlp.gelu = bias_gelu(%h1.mlp.fc1, %h1.mlp.fc1.bias.half)\n\n"
            "tp, 2 devices\n"
            "    signature                                       step    kernel    boxing");
  EXPECT_NE(op.find("\n  * "), std::string::npos) << op;
  EXPECT_NE(op.find("\nstep: by how much it would grow by the time models"), std::string::npos) << op;
}

}  // namespace
}  // namespace boxcar::tests
