// The points of a sweep file: values of its keys, their product, and errors with their places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/sweep/points.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SweepRange, HasItsValues) {
  const auto values = [](const std::string& text) { return range_values(text, "here"); };
  EXPECT_THAT(values("8..64 x2"), ElementsAre("8", "16", "32", "64"));
  EXPECT_THAT(values("8..63 x2"), ElementsAre("8", "16", "32"));
  EXPECT_THAT(values("1..4"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(values("3..3"), ElementsAre("3"));
  EXPECT_THAT(values("0..12 +4"), ElementsAre("0", "4", "8", "12"));
  EXPECT_THAT(values("1x..8x x2"), ElementsAre("1x", "2x", "4x", "8x"));
  EXPECT_THAT(values("0.5x..2x x2"), ElementsAre("0.5x", "1x", "2x"));
  EXPECT_THAT(values("0..1 +0.1"), ::testing::SizeIs(11));
  EXPECT_EQ(values("0..1 +0.1")[3], "0.3");
  EXPECT_THAT(values("2k..32k x4"), ElementsAre("2k", "8k", "32k"));
  EXPECT_THAT(values("1M-tokens..4M-tokens x2"), ElementsAre("1M-tokens", "2M-tokens", "4M-tokens"));
  EXPECT_THAT(values("25GB/s..75GB/s +25"), ElementsAre("25GB/s", "50GB/s", "75GB/s"));
  EXPECT_THAT(values("1 .. 3"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(values("../a.yaml"), ElementsAre("../a.yaml"));
  EXPECT_THAT(values("8"), ElementsAre("8"));
}

TEST(SweepRange, RefusesWhatIsNone) {
  const auto why = [](const std::string& text) {
    try {
      range_values(text, "here");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string expected = "expected a range such as 1..4, 8..64 x2 or 0..12 +4";
  EXPECT_EQ(why("8.."), "here: got \"8..\", " + expected);
  EXPECT_EQ(why("8..64 *2"), "here: got \"8..64 *2\", " + expected);
  EXPECT_EQ(why("8..64 x"), "here: got \"8..64 x\", " + expected);
  EXPECT_EQ(why("8..64 x2k"), "here: got \"8..64 x2k\", " + expected);
  EXPECT_EQ(why("8k..64M x2"), "here: got \"8k..64M x2\", whose ends have different units");
  EXPECT_EQ(why("8..4"), "here: got \"8..4\", which ends before it begins");
  const std::string endless =
      "which never ends: its step must be above +0, or above x1 from a number above 0";
  EXPECT_EQ(why("8..64 x1"), "here: got \"8..64 x1\", " + endless);
  EXPECT_EQ(why("0..64 x2"), "here: got \"0..64 x2\", " + endless);
  EXPECT_EQ(why("8..64 +0"), "here: got \"8..64 +0\", " + endless);
  EXPECT_EQ(why("1..1000000"), "here: got \"1..1000000\", which has more than 100000 values");
}

TEST(SweepPoints, AreTheProductInOrder) {
  const Sweep sweep = parse_sweep(
      "what_if: {bandwidth.network: [1x, 2x], latency.network: 3us}\nmodel: {family: gpt, layers: [2, 4]}\n"
      "cluster: dgx-h100\ntp: 1..2\n",
      "s.yaml");
  EXPECT_EQ(sweep.count(), 8);
  std::vector<std::string> all;
  for (int64_t i = 0; i < sweep.count(); ++i) {
    const SweepPoint point = sweep.at(i);
    EXPECT_EQ(point.number, i);
    all.push_back(point.given.at("model.layers").text + " " + point.given.at("parallel.tp").text + " " +
                  point.changes.at(0) + " " + std::to_string(sweep.group_of(i)));
    EXPECT_EQ(point.changes.at(1), "latency.network=3us");
  }
  EXPECT_THAT(all, ElementsAre("2 1 bandwidth.network=1x 0", "2 1 bandwidth.network=2x 0",
                               "2 2 bandwidth.network=1x 1", "2 2 bandwidth.network=2x 1",
                               "4 1 bandwidth.network=1x 2", "4 1 bandwidth.network=2x 2",
                               "4 2 bandwidth.network=1x 3", "4 2 bandwidth.network=2x 3"));
}

TEST(SweepPoints, KeysHaveTheNamesOfFlagsOrStandInSections) {
  const Sweep sweep = parse_sweep(
      "model: [gpt2, llama3-8b]\ncluster: {preset: dgx-h100, gpus: 8}\nmicro_batch: 2\ncp: 1\npreset: "
      "modern\n"
      "run: {steps: 3}\nstage_layers: [\"6,6\", [5, 7]]\nrecompute_layers: [1, 2]\n",
      "s.yaml");
  std::vector<std::string> names;
  for (const SweepAxis& axis : sweep.axes) names.push_back(axis.name);
  EXPECT_THAT(names, ElementsAre("model.family", "cluster.preset", "cluster.gpus", "parallel.micro_batch",
                                 "parallel.context_parallel", "train.preset", "parallel.stage_layers",
                                 "parallel.recompute_layers"));
  EXPECT_EQ(sweep.axes[6].values[1].text, "[5,7]");
  EXPECT_EQ(sweep.count(), 8);
  EXPECT_FALSE(sweep.search);
  EXPECT_TRUE(parse_sweep("search: true\ntp: 2", "s.yaml").search);
}

TEST(SweepPoints, HaveAPrice) {
  const Sweep sweep = parse_sweep("tp: 2\nprice: 2.50\n", "s.yaml");
  EXPECT_EQ(sweep.count(), 1);
  EXPECT_EQ(sweep.at(0).price, 2.5);
  EXPECT_EQ(parse_sweep("tp: 2", "s.yaml").at(0).price, std::nullopt);
}

TEST(SweepPoints, FlagsComeOverTheFile) {
  const Sweep sweep = parse_sweep("tp: [1, 2]\nprecision: [bf16, fp16]\n", "s.yaml",
                                  {{"parallel.tp", {"[4, 8..16 x2]", "--tp"}},
                                   {"cluster.gpus", {"8,16", "--gpus"}},
                                   {"train.precision", {"fp32", "--precision"}}});
  EXPECT_EQ(sweep.count(), 6);
  EXPECT_EQ(sweep.at(0).given.at("train.precision").text, "fp32");
  EXPECT_EQ(sweep.at(5).given.at("parallel.tp").text, "16");
}

TEST(SweepPoints, RefuseMistakesAtTheirPlace) {
  const auto why = [](const std::string& text) {
    try {
      parse_sweep(text, "s.yaml");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::bad_input);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(why(""), "s.yaml: is empty; it needs a model and a cluster");
  EXPECT_EQ(why("[1, 2]"), "s.yaml: expected keys and their values, as in tp: [1, 2, 4]");
  EXPECT_EQ(why("tpp: 2"),
            "s.yaml:1:1: unknown key \"tpp\" (did you mean tp?); a key has the name of its flag, and "
            "docs/jobs.md lists "
            "them; what_if, search, max_stack and price are known too");
  EXPECT_THAT(why("parallel: {tpp: 2}"),
              StartsWith("s.yaml:1:12: unknown key \"tpp\" under parallel (did you mean tp?)"));
  EXPECT_THAT(why("parallel: {tensor_parallel: 2}"),
              StartsWith("s.yaml:1:12: unknown key \"tensor_parallel\" under parallel (did you mean tp?)"));
  EXPECT_THAT(why("batch_size: 2"),
              StartsWith("s.yaml:1:1: unknown key \"batch_size\" (did you mean global_batch?)"));
  EXPECT_EQ(why("plan gpt\n"), "s.yaml: is a saved plan, not YAML");
  EXPECT_EQ(why("parallel: 3"), "s.yaml:1:11: parallel: expected keys and values, as in parallel: {...}");
  EXPECT_EQ(why("tp: [1, x]"), "s.yaml:1:9: parallel.tp: got \"x\", expected a whole number from 1 to 10000");
  EXPECT_EQ(why("tp: [1, 8..4]"), "s.yaml:1:9: parallel.tp: got \"8..4\", which ends before it begins");
  EXPECT_EQ(why("tp: [1, 2, 1]"), "s.yaml:1:12: parallel.tp: 1 is given twice");
  const std::string price = "expected one number of dollars per GPU and hour, 0 to 1e+06, as 2.50";
  for (const char* text : {"price: [1, 2]", "price: cheap", "price: 3$", "price: -1"})
    EXPECT_EQ(why(text), "s.yaml:1:8: price: " + price) << text;
  EXPECT_EQ(why("price: 1\nprice: 2"), "s.yaml:2:8: price: given twice");
  EXPECT_EQ(why("tp: []"), "s.yaml:1:5: parallel.tp: has an empty list of values");
  EXPECT_EQ(why("tp: {a: 1}"), "s.yaml:1:5: parallel.tp: expected a value, a range, or a list of values");
  EXPECT_EQ(why("tp: [{a: 1}]"), "s.yaml:1:6: parallel.tp: expected a value, a range, or a list of values");
  EXPECT_EQ(why("stage_layers: [[[1]]]"),
            "s.yaml:1:16: parallel.stage_layers: expected plain values in the inner list");
  EXPECT_EQ(why("stage_layers: [7, 8, 8, 7]"),
            "s.yaml:1:16: parallel.stage_layers: a list in a sweep is a list of values to try; one value of "
            "stage_layers "
            "is [[7, 8, 8, 7]] or \"7,8,8,7\"");
  EXPECT_THAT(why("tp:"), HasSubstr("parallel.tp: has no value; leave the key out for its default"));
  EXPECT_EQ(why("tp: 1\nparallel: {tp: 2}"), "s.yaml:2:16: parallel.tp: given twice");
  EXPECT_EQ(why("search: maybe"), "s.yaml:1:9: search: expected true or false");
  EXPECT_EQ(why("search: true\nsearch: true"), "s.yaml:2:9: search: given twice");
  EXPECT_EQ(why("search: true\nmax_stack: [megatron]"),
            "s.yaml:2:12: max_stack: expected the name of one framework");
  EXPECT_EQ(why("max_stack: megatron\ntp: 2"), "s.yaml:1:12: max_stack: has no effect without search: true");
  EXPECT_THAT(
      why("search: true\nmax_stack: megatorn"),
      StartsWith("s.yaml:2:12: max_stack: no framework is named \"megatorn\" (did you mean megatron?)"));
  EXPECT_THAT(
      why("search: true\nmax_stack: boxcar"),
      StartsWith("s.yaml:2:12: max_stack: framework boxcar does not say what it runs; those that do"));
  EXPECT_EQ(why("run: {steps: [1, 2]}"),
            "s.yaml:1:15: run.steps: has no effect on a sweep, which trains nothing");
  EXPECT_THAT(why("model: [gpt3-175b, gtp2]"),
              StartsWith("s.yaml:1:20: model.family: no model is named \"gtp2\""));
  EXPECT_THAT(why("cluster: [dgx-h100, dgx-h10]"),
              StartsWith("s.yaml:1:21: cluster.preset: no preset dgx-h10 (did you mean dgx-h100?)"));
  EXPECT_EQ(why("what_if: 3"),
            "s.yaml:1:10: what_if: expected names and values, as in what_if: {bandwidth.network: [1x, 2x]}");
  EXPECT_EQ(why("cluster: dgx-h100\nwhat_if: {bandwith.network: 2x}"),
            "s.yaml:2:29: what_if.bandwith.network: unknown constant \"bandwith.network\" (did you mean "
            "bandwidth.network?); docs/clusters.md lists them");
  EXPECT_THAT(why("cluster: dgx-h100\nwhat_if: {bandwidth.network: [2x, fast]}"),
              StartsWith("s.yaml:2:35: what_if.bandwidth.network: got \"fast\", expected a number"));
  EXPECT_EQ(why("seq: 1..1000\nvocab: 1..1000\nlayers: 1..2"),
            "s.yaml: has 2e+06 points, more than 1000000 (use fewer values, or several files)");
}

}  // namespace
}  // namespace boxcar::cli
