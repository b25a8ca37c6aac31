// boxcar explain, as a user runs it.
#include <gtest/gtest.h>

#include "support/run_program.h"

namespace boxcar::testing {
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

TEST_F(Explain, draws_who_holds_which_block_of_a_tensor) {
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

// The product by rows of its weight: parts of a sum, which the residual stream wants whole.
TEST_F(Explain, compares_the_signatures_of_an_op) {
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

TEST_F(Explain, says_what_moves_and_why) {
  const Output output = run_program({"explain", plan_.path()});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_NE(
      output.out.find("h*.attn.proj.all_reduce: partial sums, wanted whole; made by h*.attn.proj; read by "
                      "h*.residual1\n"),
      std::string::npos)
      << output.out;
  EXPECT_NE(output.out.find("\nin flight\n  stage0     room for the activations of 1 micro-batches\n"),
            std::string::npos)
      << output.out;
}

TEST_F(Explain, names_the_nearest) {
  const Output op = explain("--op", "h0.attn.prj"), tensor = explain("--tensor", "h0.ln9");
  EXPECT_EQ(op.err, "boxcar: --op: the plan's graph has no h0.attn.prj (did you mean h0.attn.proj?)\n");
  EXPECT_EQ(tensor.err, "boxcar: graph gpt: has no tensor %h0.ln9 (did you mean h0.ln1?)\n");
  EXPECT_EQ(op.exit_code, 2);
}

TEST(ExplainSearch, tells_the_runners_up) {
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

TEST(ExplainSearch, finds_the_layouts_of_a_plan_again) {
  TemporaryFile plan("plan.txt", "");
  const Output found =
      run_program({"search", "--model=gpt", "--layers=2", "--hidden=64", "--heads=4", "--seq=32",
                   "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=2", "--tp=2", "--micro-batch=1..2",
                   "--global-batch=4", "--pin=h*.mlp.fc1.weight=S(0)", "--no-partial", "--out", plan.path()});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  EXPECT_NE(found.out.find("\n  layout of every op: optimal within this space by the time models; kernels "),
            std::string::npos)
      << found.out;
  EXPECT_NE(found.out.find("\n  no partial values: with them the step takes "), std::string::npos)
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
}  // namespace boxcar::testing
