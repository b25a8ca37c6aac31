// Calibration recovers the constants that the simulator's own times were made with, and leaves unmeasured
// ones alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backends/machines/collective_model.h"
#include "backends/machines/device_profile.h"
#include "cli/timings.h"
#include "cli/what_if.h"
#include "sbp/error.h"
#include "sim/models/collective_time.h"
#include "support/run_program.h"

namespace boxcar::cli {
namespace {

using boxcar::tests::run_program;
using boxcar::tests::TemporaryFile;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

backends::Cluster changed(const std::string& preset, int gpus, const Words& changes) {
  backends::Cluster cluster = backends::load_cluster(preset, gpus);
  for (const std::string& change : changes) cli::change(cluster, change);
  return cluster;
}

// Output of nccl-tests for an all-reduce over all devices of `cluster`, from 512 B to 1 GiB.
std::string nccl_text(const backends::Cluster& cluster, const std::string& program = "all_reduce_perf",
                      sbp::Collective collective = sbp::Collective::all_reduce) {
  std::string text = "# nThread 1 nGpus 1 minBytes 512 maxBytes 1073741824 step: 8(factor)\n";
  text += "# Collective test starting: " + program + "\n# Using devices\n";
  std::vector<int> devices;
  for (int d = 0; d < cluster.devices(); ++d) {
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on node{} device  {} [0x07] NVIDIA A100\n", d, 100 + d,
                        cluster.node_of(d), d % cluster.node.gpus);
    devices.push_back(d);
  }
  text += "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong\n";
  text += "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n";
  text += "node0:1:1 [0] NCCL INFO Launch mode Parallel\n";
  for (int64_t bytes = 512; bytes <= int64_t{1} << 30; bytes *= 8) {
    const double seconds =
        sim::collective_time(cluster, collective, bytes, sim::span_of(cluster, devices)).seconds();
    text += fmt::format("{:12} {:12}     float     sum      -1 {:8.3f}  {:6.2f}  {:6.2f}      0\n", bytes,
                        bytes / 4, seconds * 1e6, static_cast<double>(bytes) / seconds / 1e9, 0.0);
  }
  return text + "# Out of bounds values : 0 OK\n";
}

Measurements read(const std::string& name, const std::string& text) {
  const TemporaryFile file(name, text);
  Measurements measured;
  read_measurements(file.path(), measured);
  return measured;
}

fit::Calibration fitted(const Measurements& measured, const std::string& cluster = "dgx-a100-80g") {
  return fit::calibrate(load_cluster(cluster, "", 0), measured_on(cluster, "", measured),
                        [](const std::string&) {});
}

const fit::FittedConstant& find(const fit::Calibration& done, const std::string& name) {
  return *std::find_if(done.constants.begin(), done.constants.end(),
                       [&](const auto& c) { return c.name == name; });
}

Words left(const fit::Calibration& done) {
  Words names;
  for (const fit::FittedConstant& c : done.constants)
    if (!c.why_not.empty()) names.push_back(c.name + ": " + c.why_not);
  return names;
}

constexpr const char* nothing = ": no step was measured";

TEST(Calibrate, AnAllReduceInANodeTellsItsLinksAndLatencies) {
  backends::Cluster real = changed("dgx-a100-80g", 8, {"node.link_bandwidth=0.8x"});
  for (auto& line : real.collective->node) line.base *= 1.5, line.hop *= 1.5;
  const fit::Calibration done = fitted(read("nccl.txt", nccl_text(real)));
  EXPECT_NEAR(find(done, "node.link_bandwidth").fitted, 0.8 * 300e9, 0.01 * 300e9);
  EXPECT_NEAR(find(done, "latencies of collectives in a node").fitted, 1.5, 0.02);
  EXPECT_NEAR(done.cluster.collective->node[2].hop, real.collective->node[2].hop,
              0.02 * real.collective->node[2].hop);
  ASSERT_EQ(done.groups.size(), 1u);
  EXPECT_EQ(done.groups[0].name, "all_reduce, 1 x 8 GPUs");
  EXPECT_EQ(done.groups[0].rows, 8u);
  EXPECT_GT(done.groups[0].before, 0.15);
  EXPECT_LT(done.groups[0].after, 0.01);
  EXPECT_FALSE(done.device_changed);
  EXPECT_EQ(left(done),
            (Words{"node.nic_bandwidth: no measurement depends on it",
                   "latencies of collectives between nodes: no measurement depends on it",
                   std::string("under_load") + nothing, std::string("memory_efficiency") + nothing,
                   std::string("node.host_speed") + nothing}));
}

// One file may hold several runs.
TEST(Calibrate, CollectivesOverNodesTellTheNetwork) {
  backends::Cluster real = changed("dgx-a100-80g", 32, {"bandwidth.network=0.6x", "latency.network=2x"});
  for (auto* line : {real.collective->ring, real.collective->ring + 1, real.collective->ring + 2,
                     real.collective->tree, real.collective->tree + 1, real.collective->tree + 2})
    line->base *= 2, line->hop *= 2, line->net_hop *= 2;
  const fit::Calibration done = fitted(
      read("nccl.txt", nccl_text(real) + nccl_text(real, "all_gather_perf", sbp::Collective::all_gather)));
  EXPECT_NEAR(find(done, "node.nic_bandwidth").fitted, 0.6 * 25e9, 0.01 * 25e9);
  EXPECT_NEAR(find(done, "latencies of collectives between nodes").fitted, 2, 0.03);
  ASSERT_EQ(done.groups.size(), 2u);
  EXPECT_EQ(done.groups[1].name, "all_gather, 4 x 8 GPUs");
  for (const fit::FittedGroup& group : done.groups) EXPECT_LT(group.after, 0.01);
}

// A single bad row pulls little.
TEST(Calibrate, OutliersPullLittle) {
  const backends::Cluster real = changed("dgx-a100-80g", 8, {"node.link_bandwidth=0.8x"});
  Measurements measured = read("nccl.txt", nccl_text(real));
  measured.tests[0].rows.back().seconds *= 5;
  EXPECT_NEAR(find(fitted(measured), "node.link_bandwidth").fitted, 0.8 * 300e9, 0.06 * 300e9);
}

Words job(const std::string& hidden, const std::string& batch) {
  return {"--model=gpt",
          "--layers=4",
          "--hidden=" + hidden,
          "--heads=8",
          "--seq=512",
          "--vocab=2048",
          "--gpus=1",
          "--micro-batch=" + batch,
          "--global-batch=" + batch,
          "--attention=unfused"};
}

double simulated(Words words, const Words& more) {
  words.insert(words.begin(), {"simulate", "--json"});
  words.insert(words.end(), more.begin(), more.end());
  return nlohmann::json::parse(run_program(words).out)["step_time_s"];
}

const std::pair<const char*, const char*> shapes[] = {
    {"512", "1"}, {"1024", "8"}, {"4096", "8"}, {"512", "32"}};

// "gpt,4,512,8,512,2048,1,1,1,unfused,0.0123"
std::string steps_csv(const Words& changes, Words more = {}) {
  std::string text = "model,layers,hidden,heads,seq,vocab,gpus,micro_batch,global-batch,attention,step_s\n";
  more.emplace_back("--cluster=dgx-a100-80g");
  for (const std::string& change : changes) more.push_back("--what-if=" + change);
  for (const auto& [hidden, batch] : shapes)
    text += fmt::format("gpt,4,{},8,512,2048,1,{},{},unfused,{}\n", hidden, batch, batch,
                        simulated(job(hidden, batch), more));
  return text;
}

TEST(Calibrate, StepsTellTheDeviceAndItsHost) {
  const fit::Calibration done = fitted(
      read("steps.csv", steps_csv({"under_load=0.8", "memory_efficiency=0.85x", "node.host_speed=0.7"})));
  EXPECT_NEAR(find(done, "under_load").fitted, 0.8, 0.01);
  EXPECT_NEAR(find(done, "memory_efficiency").fitted, 0.85, 0.01);
  EXPECT_NEAR(find(done, "node.host_speed").fitted, 0.7, 0.01);
  EXPECT_TRUE(done.device_changed);
  EXPECT_EQ(left(done), (Words{"node.link_bandwidth: no measurement depends on it",
                               "latencies of collectives in a node: no collective was measured",
                               "node.nic_bandwidth: no measurement depends on it",
                               "latencies of collectives between nodes: no collective was measured"}));
  ASSERT_EQ(done.groups.size(), 1u);
  EXPECT_EQ(done.groups[0].name, "training steps");
  EXPECT_LT(done.groups[0].after, 0.01);
}

// One step cannot separate the products' share from the memory's.
TEST(Calibrate, OneStepTellsOneConstant) {
  const std::string text = steps_csv({"under_load=0.8"});
  const fit::Calibration done = fitted(
      read("steps.csv", text.substr(0, text.find("gpt")) +
                            text.substr(text.find("gpt,4,4096"),
                                        text.find("gpt,4,512,8,512,2048,1,32") - text.find("gpt,4,4096"))));
  EXPECT_NEAR(find(done, "under_load").fitted, 0.8, 0.01);
  EXPECT_EQ(find(done, "memory_efficiency").why_not, "the measurements cannot tell it from under_load");
  EXPECT_EQ(find(done, "memory_efficiency").fitted, 1);
}

// Launch times are scaled to a host of speed 1, whatever the framework.
TEST(Calibrate, AHostIsAsFastUnderAnyFramework) {
  const std::string text = steps_csv({"node.host_speed=0.7"}, {"--stack=megatron"});
  Measurements measured = read("steps.csv", text);
  for (MeasuredStep& step : measured.steps) step.keys["train.stack"] = {"megatron", ""};
  EXPECT_NEAR(find(fitted(measured), "node.host_speed").fitted, 0.7, 0.01);
}

// A device that exceeds its description stops at the constant's bound.
TEST(Calibrate, SaysWhereAConstantIsAtItsBound) {
  Measurements measured = read("steps.csv", steps_csv({}));
  for (MeasuredStep& step : measured.steps) step.seconds *= 0.5;
  const fit::Calibration done = fitted(measured);
  EXPECT_EQ(find(done, "under_load").fitted, 1);
  EXPECT_TRUE(find(done, "under_load").at_bound);
}

TEST(CalibrateCommand, WritesAClusterThatSimulates) {
  const TemporaryFile steps("steps.csv", steps_csv({"under_load=0.8", "node.host_speed=0.7"})),
      output("my.yaml", "");
  const boxcar::tests::Output run =
      run_program({"calibrate", steps.path(), "--cluster=dgx-a100-80g", "-o", output.path()});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("under_load "));
  EXPECT_THAT(run.out, HasSubstr("  training steps (4 rows)"));
  for (const auto& [hidden, batch] : shapes) {
    const double real = simulated(job(hidden, batch), {"--cluster=dgx-a100-80g", "--what-if=under_load=0.8",
                                                       "--what-if=node.host_speed=0.7"});
    EXPECT_NEAR(simulated(job(hidden, batch), {"--cluster=" + output.path()}), real, 0.01 * real);
  }
}

// A collective's output changes no device: the file names the preset's.
TEST(CalibrateCommand, PrintsWhatWasFitted) {
  const TemporaryFile nccl("all_reduce.txt",
                           nccl_text(changed("dgx-a100-80g", 8, {"node.link_bandwidth=0.8x"}))),
      output("my.yaml", "");
  const boxcar::tests::Output run =
      run_program({"calibrate", nccl.path(), "--cluster=dgx-a100-80g", "-o", output.path()});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out,
            R"(fitted                                          described         fitted  error without it
  node.link_bandwidth                            300 GB/s       240 GB/s             8.5 %
  latencies of collectives in a node                  x 1            x 1             0.0 %

left as described
  node.nic_bandwidth                              25 GB/s  no measurement depends on it
  latencies of collectives between nodes              x 1  no measurement depends on it
  under_load                                            1  no step was measured
  memory_efficiency                                   x 1  no step was measured
  node.host_speed                                       1  no step was measured

mean absolute error                          as described      as fitted
  all_reduce, 1 x 8 GPUs (8 rows)                   8.5 %          0.0 %

written: )" + output.path() +
                "\n");
  std::ifstream written(output.path());
  std::stringstream text;
  text << written.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\ndevice: a100-sxm-80g\n"));
  EXPECT_THAT(text.str(), HasSubstr("# node.link_bandwidth: 240 GB/s, described 300 GB/s\n"));
}

TEST(Calibrate, EveryPresetIsWrittenAndReadBack) {
  for (const std::string& name : backends::cluster_presets()) {
    const backends::Cluster cluster = backends::load_cluster(name);
    const std::string text = backends::to_yaml(cluster, cluster.device->name);
    const backends::Cluster back = backends::parse_cluster(text, "back.yaml");
    EXPECT_EQ(backends::to_yaml(back, back.device->name), text);
    EXPECT_EQ(backends::describe(back), backends::describe(cluster));
    EXPECT_EQ(back.collective, cluster.collective) << name;
    EXPECT_EQ(back.node.mesh_links, cluster.node.mesh_links) << name;
    EXPECT_EQ(back.fabric.dims, cluster.fabric.dims) << name;
  }
}

// The message without the path, whose folder differs.
std::string refusal(const std::string& name, const std::string& text) {
  const TemporaryFile file(name, text);
  try {
    Measurements measured;
    read_measurements(file.path(), measured);
    fitted(measured);
  } catch (const Error& e) {
    const std::string what = e.what();
    return what.starts_with(file.path()) ? what.substr(file.path().size()) : what;
  }
  return "accepted";
}

TEST(Calibrate, RefusesStepsThatItCannotRead) {
  const std::string head = "model,layers,hidden,heads,seq,vocab,gpus,step_s\n", row = "gpt,1,64,4,16,100,1,";
  const auto steps = [&](const std::string& text) { return refusal("steps.csv", text); };
  EXPECT_EQ(steps(""),
            ": is empty; expected the output of nccl-tests, or a CSV of jobs with a column step_s");
  EXPECT_EQ(steps(head), ": has no rows under its header");
  EXPECT_EQ(steps("model,layers\n"), ":1: no column step_s, the measured seconds of an optimizer step");
  EXPECT_EQ(
      steps("micro_bath,step_s\n"),
      ":1: unknown column \"micro_bath\" (did you mean micro_batch?); a column is a key of a job or step_s");
  EXPECT_EQ(steps("cluster,step_s\n"),
            ":1: column cluster: give --cluster instead, it is the same for all rows");
  EXPECT_EQ(steps("device,step_s\n"),
            ":1: column device: give --device instead, it is the same for all rows");
  EXPECT_EQ(steps("model,family,step_s\n"), ":1: column family is given twice");
  EXPECT_EQ(steps("step_s,step_s\n"), ":1: column step_s is given twice");
  EXPECT_EQ(steps("# comment\n" + head + "gpt,1,64\n"), ":3: 3 cells for 8 columns");
  EXPECT_EQ(steps(head + row + "fast\n"), ":2: step_s: got \"fast\", expected seconds above 0");
  EXPECT_EQ(steps(head + row + "0\n"), ":2: step_s: got \"0\", expected seconds above 0");
  EXPECT_EQ(steps(head + "\"gpt,1\n"), ":2: a quote is not closed");
  EXPECT_EQ(steps(head + "gpt,one,64,4,16,100,1,0.1\n"),
            ":2: layers: got \"one\", expected a whole number from 1 to 2000");
  EXPECT_EQ(steps(head + "gpt,1,64,4,16,100,12,0.1\n"),
            ":2: gpus: 12 is not a multiple of the 8 GPUs of a node of dgx-a100-80g (use 8 or 16)");
}

TEST(Calibrate, RefusesTablesThatItCannotRead) {
  const std::string rank = "#  Rank  0 Pid 1 on a device 0\n#  Rank  1 Pid 1 on a device 1\n";
  const std::string table = "#  size count type redop time algbw busbw\n";
  const std::string rows =
      " 512 128 float sum 10.0 0 0\n 1024 256 float sum 11 0 0\n 2048 512 float sum 12 0 0\n";
  const auto nccl = [&](const std::string& text) { return refusal("all_reduce_perf.txt", text); };
  EXPECT_EQ(nccl(rank + table + rows), "accepted");
  EXPECT_EQ(
      nccl(table + rows),
      ":1: no \"Rank\" lines before this table say which devices took part, two at least; keep all that "
      "nccl-tests prints");
  EXPECT_EQ(nccl(rank + "#  Rank  2 Pid 1 on b device 0\n" + table + rows),
            ":4: 3 ranks on 2 hosts; expected as many on each");
  EXPECT_EQ(refusal("out.txt", rank + table + rows),
            ":3: nothing says which collective this is; name the file after the program, as in "
            "all_reduce_perf.txt (also all_gather, reduce_scatter, alltoall, broadcast)");
  EXPECT_EQ(nccl(rank + table + " 512 128 float sum 10.0\n"),
            ":3: 1 sizes; expected at least 3, from small to large");
  EXPECT_EQ(nccl(rank + table + " 512 128 float\n"),
            ":4: 3 columns, expected 5 and more: size count type redop time");
  EXPECT_EQ(nccl(rank + table + " 512 128 float sum fast 0 0\n"),
            ":4: time: got \"fast\", expected microseconds above 0");
  EXPECT_EQ(nccl(rank + table + " 99999999999999999999 128 float sum 1 0 0\n"),
            ":4: size: got \"99999999999999999999\", expected bytes");
  std::string nine;
  for (int r = 0; r < 9; ++r) nine += fmt::format("#  Rank {} Pid 1 on a device {}\n", r, r);
  EXPECT_EQ(nccl(nine + table + rows), ":10: 9 ranks on a host, a node of dgx-a100-80g has 8 GPUs");
}

TEST(Calibrate, RefusesHostsThatNothingConnects) {
  backends::Cluster cluster = changed("dgx-a100-80g", 8, {});
  cluster.node.nics = 0;
  const TemporaryFile apart("apart.yaml", backends::to_yaml(cluster, "a100-sxm-80g"));
  const TemporaryFile two("all_reduce.txt", nccl_text(changed("dgx-a100-80g", 16, {})));
  Measurements measured;
  read_measurements(two.path(), measured);
  try {
    fitted(measured, apart.path());
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.what(), two.path() + ":21: 2 hosts, but nodes of dgx-a100-80g have no NICs");
  }
}

TEST(CalibrateCommand, RefusesWhatItCannotStartFrom) {
  const TemporaryFile file("all_reduce.txt", nccl_text(changed("dgx-a100-80g", 8, {})));
  const auto error = [](Words words) {
    words.insert(words.begin(), "calibrate");
    return run_program(words).err;
  };
  EXPECT_EQ(error({}),
            "boxcar: calibrate needs measurements: the output of nccl-tests, or a CSV of jobs with a column "
            "step_s\n");
  EXPECT_EQ(error({file.path()}), "boxcar: --cluster: missing; name the cluster to start from\n");
  EXPECT_EQ(error({file.path(), "--cluster=dgx-a100-80g"}),
            "boxcar: -o: missing; name the cluster file to write\n");
  EXPECT_EQ(error({file.path(), "--cluster=dgx-a100-80g", "-o", "my"}),
            "boxcar: -o: got \"my\", expected a name that ends in .yaml\n");
  EXPECT_EQ(error({"none.txt", "--cluster=dgx-a100-80g", "-o", "my.yaml"}),
            "boxcar: none.txt: cannot be read; check the path\n");
  EXPECT_EQ(
      error({file.path(), "--clutser=dgx-a100-80g"}),
      "boxcar: --clutser: unknown flag (did you mean --cluster?); `boxcar calibrate --help` lists all\n");
}

}  // namespace
}  // namespace boxcar::cli
