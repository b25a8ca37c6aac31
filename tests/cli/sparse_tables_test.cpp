// Training and plans with updates of the rows of a table that a step read (--sparse-tables).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "train.h"

namespace boxcar::tests {
namespace {

// In a step of 16 samples most rows of the table are not read. Their gradients may come from another stage.
const std::string with_table = R"(graph recommender layers=3
%items: int64[batch, 4] = input()
%numbers: float32[batch, 8] = input()
%clicks: int64[batch] = input()
%table.weight: float32[150, 8] = parameter()
%rows = embedding(%table.weight, %items) layer=0
%flat = reshape(%rows) {shape=[batch, 32]} layer=1
%fc1.weight: float32[32, 16] = parameter()
%fc1.bias: float32[16] = parameter()
%fc1 = matmul(%flat, %fc1.weight)
%fc1.sum = add(%fc1, %fc1.bias)
%fc1.gelu = gelu(%fc1.sum)
%fc2.weight: float32[16, 8] = parameter()
%fc2 = matmul(%fc1.gelu, %fc2.weight) layer=2
%wide = add(%fc2, %numbers)
%head.weight: float32[8, 2] = parameter()
%logits = matmul(%wide, %head.weight)
%losses = cross_entropy(%logits, %clicks)
%loss = reduce_mean(%losses) {axes=[0]}
)";

// Law 4 for updates of the rows that a step read alone.
class SparseTables : public Train {
 protected:
  using Losses = std::map<int, double>;  // by step

  // A command with the graph and these flags.
  Output run(const char* command, const std::vector<Words>& flags) const {
    Words words{command, "--graph=" + graph_.path(), "--global-batch=16", "--learning-rate=0.01"};
    for (const Words& more : flags) words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  static Losses losses_of(const Output& output) {
    EXPECT_EQ(output.exit_code, 0) << output.err;
    Losses all = losses(output.out);
    EXPECT_EQ(all.size(), 4u);
    return all;
  }
  Losses trained(const Words& plan, const Words& more) const {
    const Words usual{"--clip-norm=0", "--precision=fp64", "--data=random", "--steps=4", "--json"};
    return losses_of(run("train", {usual, plan, more}));
  }
  // Under the plan that a search finds with these flags.
  Losses planned(const Words& plan) const {
    const TemporaryFile file("plan.txt", "");
    const Words usual{"--clip-norm=0",   "--precision=fp64", "--weight-decay=0.1",
                      "--sparse-tables", "--cluster=local",  "-o",
                      file.path()};
    const Output found = run("search", {usual, plan});
    EXPECT_EQ(found.exit_code, 0) << found.err;
    return losses_of(run_program({"train", "--plan", file.path(), "--data=random", "--steps=4", "--json"}));
  }
  static void expect_near(const Losses& got, const Losses& want, const Words& plan) {
    for (const auto& [step, loss] : want)
      EXPECT_NEAR(got.at(step), loss, 1e-9 * loss) << testing::PrintToString(plan) << " step " << step;
  }

  TemporaryFile graph_{"recommender.txt", with_table};
};

TEST_F(SparseTables, EverySplitHasTheSingleDevicesLosses) {
  for (const char* optimizer : {"adam", "sgd", "adagrad"}) {
    const Words more{"--sparse-tables", "--weight-decay=0.1", std::string("--optimizer=") + optimizer};
    const Losses alone = trained({}, more);
    for (const Words& plan :
         {Words{"--dp=4"}, Words{"--dp=2", "--zero=1"}, Words{"--dp=2", "--zero=2"},
          Words{"--dp=4", "--zero=3"}, Words{"--gpus=4", "--dp=2", "--tp=2", "--zero=1"},
          Words{"--gpus=8", "--dp=4", "--tp=2", "--zero=3"}, Words{"--pp=3", "--micro-batch=16"},
          Words{"--pp=2", "--micro-batch=16", "--schedule=zb-h1", "--tp=2"},
          Words{"--dp=2", "--recompute=full"}, Words{"--dp=2", "--fused-optimizer", "--zero=1"}})
      expect_near(trained(plan, more), alone, plan);
  }
}

TEST_F(SparseTables, FoundLayoutsHaveTheSingleDevicesLosses) {
  const Words alone{"--gpus=1"};
  const Losses want = planned(alone);
  for (const char* layout : {"S(0)", "S(1)", "B"})
    for (const char* zero : {"--zero=0", "--zero=3"}) {
      const std::string one = layout;
      for (const Words& plan :
           {Words{"--gpus=4", "--dp=1", "--tp=4", "--pp=1", "--micro-batch=16", "--pin=table.weight=" + one},
            Words{"--gpus=4", "--dp=2", "--tp=2", "--pp=1", "--micro-batch=8", zero,
                  "--pin=table.weight=(B, " + one + ")"}})
        expect_near(planned(plan), want, plan);
    }
}

// Without moments and decay, rows that were not read stay as they are anyway.
TEST_F(SparseTables, AreWhatDenseOnesAreWithoutMoments) {
  const Words sparse{"--sparse-tables"};
  for (const Words& plan : {Words{"--optimizer=sgd"}, Words{"--optimizer=adagrad", "--dp=2"}})
    expect_near(trained(plan, sparse), trained(plan, {}), plan);
  EXPECT_NE(trained({}, sparse), trained({}, {}));  // adam
}

TEST_F(SparseTables, AreRefusedWhereRowsAreNotEnough) {
  const auto said = [&](const Words& more) {
    const Output output = run("train", {{"--data=random", "--steps=1", "--sparse-tables"}, more});
    EXPECT_EQ(output.exit_code, 2);
    return output.err;
  };
  EXPECT_EQ(said({}),
            "boxcar: --sparse-tables: the norm of all gradients is not known (use clip_norm 0, or switch it "
            "off)\n");
  EXPECT_EQ(said({"--clip-norm=0", "--precision=fp16"}),
            "boxcar: --sparse-tables: gradients are not unscaled (use another precision than fp16, or switch "
            "it off)\n");
  EXPECT_EQ(
      said({"--clip-norm=0", "--precision=fp32", "--micro-batch=4"}),
      "boxcar: --sparse-tables: rows of several micro-batches are not summed (use a larger micro_batch, "
      "so that a step has one, or switch it off)\n");
  EXPECT_EQ(said({"--clip-norm=0", "--precision=fp32", "--optimizer=lamb"}),
            "boxcar: --sparse-tables: lamb needs the norms of whole tables (use another optimizer, or switch "
            "it off)\n");
  const TemporaryFile twice(
      "twice.txt", replace_all(with_table, "%flat = reshape(%rows)",
                               "%again = embedding(%table.weight, %items)\n%sum = add(%rows, %again)\n"
                               "%flat = reshape(%sum)"));
  EXPECT_EQ(said({"--clip-norm=0", "--precision=fp32", "--graph=" + twice.path()}),
            "boxcar: --sparse-tables: has no effect unless the model has a table that one embedding alone "
            "reads\n");
}

}  // namespace
}  // namespace boxcar::tests
