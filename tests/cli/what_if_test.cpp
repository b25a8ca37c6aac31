// Changed constants, slow ranks, devices that differ.
#include "cli/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "backends/machines/collective_model.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/named_constants.h"
#include "planner/planner.h"
#include "sbp/error.h"
#include "sim/jitter.h"
#include "support/run_program.h"

namespace boxcar::cli {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> job(std::vector<std::string> more) {
  std::vector<std::string> all = {"simulate",     "--model=gpt", "--layers=2",
                                  "--hidden=256", "--heads=4",   "--seq=128",
                                  "--vocab=1000", "--gpus=16",   "--cluster=dgx-a100-80g"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

nlohmann::json document(std::vector<std::string> more) {
  more.push_back("--json");
  return nlohmann::json::parse(boxcar::tests::run_program(job(std::move(more))).out);
}

std::string said(const std::function<void(backends::Cluster&)>& work) {
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 16);
  try {
    work(cluster);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

std::string what_if(const std::string& text) {
  return said([&](backends::Cluster& cluster) { change(cluster, text); });
}

std::string straggler(const std::string& text) {
  return said([&](backends::Cluster& cluster) { slow_down(cluster, text); });
}

TEST(WhatIf, AConstantIsSetOrMultiplied) {
  const backends::Cluster described = backends::load_cluster("dgx-a100-80g", 16);
  backends::Cluster cluster = described;
  change(cluster, "bandwidth.network=2x");
  EXPECT_EQ(cluster.node.nic_bandwidth, 2 * described.node.nic_bandwidth);
  change(cluster, "latency.network=5e-6");
  EXPECT_EQ(cluster.node.nic_latency, 5e-6);
  change(cluster, "memory=0.5x");
  EXPECT_EQ(cluster.device->memory_bytes, described.device->memory_bytes / 2);
  change(cluster, "flops=3x");
  for (const auto& [type, rate] : described.device->peak_flops)
    EXPECT_EQ(cluster.device->peak_flops.at(type), 3 * rate);
  change(cluster, "memory_efficiency=0.5x");
  EXPECT_EQ(cluster.device->memory_efficiency.at(1e9), 0.5 * described.device->memory_efficiency.at(1e9));
  change(cluster, "node.nic_bandwidth=1e9");  // by its place in the file
  EXPECT_EQ(cluster.node.nic_bandwidth, 1e9);
  change(cluster, "collective.net.ring_simple.hop=0");
  EXPECT_EQ(cluster.collective->ring[2].hop, 0);
}

TEST(WhatIf, EveryConstantCanBeNamed) {
  for (const std::string& name : backends::constant_names(backends::load_cluster("dgx-a100-80g", 16)))
    EXPECT_THAT(
        what_if(name + "=1x"),
        ::testing::AnyOf("accepted", "--what-if " + name + ": is 0, which no factor changes; give a number"));
}

TEST(WhatIf, RefusesWhatItCannotRead) {
  const std::string form = "expected NAME=NUMBER or NAME=FACTORx, as bandwidth.network=2x";
  EXPECT_EQ(what_if("bandwidth.network"), "--what-if: got \"bandwidth.network\", " + form);
  EXPECT_EQ(what_if("=2x"), "--what-if: got \"=2x\", " + form);
  EXPECT_EQ(what_if("memory="), "--what-if: got \"memory=\", " + form);
  EXPECT_EQ(
      what_if("bandwith.network=2x"),
      "--what-if: unknown constant \"bandwith.network\" (did you mean bandwidth.network?); docs/clusters.md "
      "lists them");
  EXPECT_EQ(what_if("bandwidth.network=fast"),
            "--what-if bandwidth.network: got \"fast\", expected a number as 450GB/s, or a factor as 2x");
  EXPECT_EQ(what_if("bandwidth.network=-1"),
            "--what-if bandwidth.network: got \"-1\", expected a number as 450GB/s, or a factor as 2x");
  EXPECT_EQ(what_if("flops=1e15"), "--what-if flops: stands for 4 numbers; give a factor as 2x");
  EXPECT_EQ(what_if("matmul.tiles=9x"),
            "--what-if matmul.tiles: matmul.tiles.0 would be 8.748, expected 0 to 1.5");
  EXPECT_EQ(what_if("overlap_slowdown=1.5"), "--what-if overlap_slowdown: would be 1.5, expected 0 to 0.99");
  EXPECT_EQ(what_if("bandwidth.network=50"),
            "--what-if bandwidth.network: would be 50, expected 1e+06 to 1e+15, or a unit as in 450GB/s");
  EXPECT_EQ(what_if("piece_seconds=2x"),
            "--what-if piece_seconds: is 0, which no factor changes; give a number");
}

TEST(Straggler, RefusesWhatItCannotRead) {
  const std::string form = "expected rank=NUMBER,slowdown=FACTOR, as rank=17,slowdown=1.3";
  EXPECT_EQ(straggler("17"), "--straggler: got \"17\", " + form);
  EXPECT_EQ(straggler("rank=1,speed=2"), "--straggler: got \"rank=1,speed=2\", " + form);
  EXPECT_EQ(straggler("rank=one,slowdown=2"), "--straggler: got \"rank=one,slowdown=2\", " + form);
  EXPECT_EQ(straggler("rank=16,slowdown=2"), "--straggler: rank 16 is not there; ranks are 0 to 15");
  EXPECT_EQ(straggler("rank=1.5,slowdown=2"), "--straggler: rank 1.5 is not there; ranks are 0 to 15");
  EXPECT_EQ(straggler("rank=1,slowdown=0.5"), "--straggler: slowdown 0.5 is outside 1 to 1000");
}

TEST(Simulate, AFasterNetworkShowsBesideTheDescribedOne) {
  const nlohmann::json plain = document({}), faster = document({"--what-if=bandwidth.network=4x"});
  EXPECT_FALSE(plain.contains("what_if"));
  EXPECT_EQ(faster["what_if"]["changes"], nlohmann::json({"bandwidth.network=4x"}));
  EXPECT_EQ(faster["what_if"]["described_step_time_s"], plain["step_time_s"]);
  EXPECT_LT(faster["step_time_s"], plain["step_time_s"]);
  const std::string table = boxcar::tests::run_program(job({"--what-if=bandwidth.network=4x"})).out;
  EXPECT_THAT(table, HasSubstr("  what if                bandwidth.network=4x\n  as described           "));
}

TEST(Simulate, AllWaitForAStraggler) {
  const nlohmann::json plain = document({}), slow = document({"--straggler=rank=3,slowdown=1.5"});
  EXPECT_EQ(slow["what_if"]["changes"], nlohmann::json({"straggler rank=3,slowdown=1.5"}));
  EXPECT_GT(slow["step_time_s"].get<double>(), 1.1 * plain["step_time_s"].get<double>());
}

TEST(Simulate, SmallerMemoryDoesNotFit) {
  const boxcar::tests::Output out = boxcar::tests::run_program(job({"--what-if=memory=2e6"}));
  EXPECT_EQ(out.exit_code, 1);
  EXPECT_THAT(out.err, HasSubstr("does not fit"));
}

TEST(Simulate, JitterIsTheSameForASeed) {
  const nlohmann::json once = document({"--jitter=0.05", "--runs=5", "--seed=7"})["jitter"];
  EXPECT_EQ(once, document({"--jitter=0.05", "--runs=5", "--seed=7"})["jitter"]);
  EXPECT_NE(once, document({"--jitter=0.05", "--runs=5", "--seed=8"})["jitter"]);
  EXPECT_EQ(once["runs"], 5);
  EXPECT_GE(once["p95_s"], once["mean_s"]);
}

// The slowest of 16 sets the pace, so more noise takes longer; no noise changes nothing.
TEST(Simulate, JitterCostsTime) {
  const double plain = document({})["step_time_s"];
  const auto mean = [](const char* deviation) {
    return document({std::string("--jitter=") + deviation, "--runs=5"})["jitter"]["mean_s"].get<double>();
  };
  const double little = mean("0.01"), much = mean("0.2");
  EXPECT_GT(little, plain);
  EXPECT_GT(much, little);
  EXPECT_FALSE(document({"--jitter=0"}).contains("jitter"));
}

TEST(Simulate, RefusesJitterThatCannotBe) {
  const auto error = [](std::vector<std::string> more) { return boxcar::tests::run_program(job(more)).err; };
  EXPECT_EQ(error({"--jitter=2"}), "boxcar: --jitter: got \"2\", expected a number from 0 to 1\n");
  EXPECT_EQ(error({"--jitter=much"}), "boxcar: --jitter: got \"much\", expected a number from 0 to 1\n");
  EXPECT_EQ(error({"--jitter=0.1", "--runs=0"}),
            "boxcar: --runs: got \"0\", expected a whole number from 1 to 1000\n");
  EXPECT_EQ(error({"--jitter=0.1", "--seed=-1"}),
            "boxcar: --seed: got \"-1\", expected a whole number from 0 to 1000000000\n");
  EXPECT_EQ(error({"--runs=3"}), "boxcar: --runs requires --jitter\n");
}

// No act depends on the routing skew, so a saved plan accepts another one, and no other change.
TEST(WhatIf, ASavedPlanIsSimulatedWithAnotherRoutingSkew) {
  const boxcar::tests::TemporaryFile even("even.txt", ""), skewed("skewed.txt", ""), plain("plain.txt", "");
  const std::vector<std::string> mixture = {"--experts=8", "--dp=16", "--ep=8", "--global-batch=32"};
  const auto step = [&](std::vector<std::string> more, bool planned = false) {
    more.push_back("--json");
    if (planned) more.insert(more.begin(), "simulate");
    const boxcar::tests::Output output = boxcar::tests::run_program(planned ? more : job(more));
    return nlohmann::json::parse(output.out)["step_time_s"].get<double>();
  };
  const auto made = [&](const boxcar::tests::TemporaryFile& file, const char* skew) {
    std::vector<std::string> all = mixture;
    all.insert(all.end(), {skew, "--save-plan", file.path()});
    return step(all);
  };
  const double even_step = made(even, "--routing-skew=1"), skewed_step = made(skewed, "--routing-skew=2");
  EXPECT_LT(even_step, skewed_step);
  EXPECT_EQ(step({"--plan", even.path(), "--routing-skew=2"}, true), skewed_step);
  EXPECT_EQ(step({"--plan", skewed.path(), "--routing-skew=1"}, true), even_step);
  const auto refused = [&](const boxcar::tests::TemporaryFile& file, const char* flag) {
    return boxcar::tests::run_program({"simulate", "--plan", file.path(), flag}).err;
  };
  EXPECT_EQ(
      refused(even, "--routing-skew=9"),
      "boxcar: " + std::string(even.path()) +
          ": label train.routing_skew: 9 times the mean is more than all tokens (use at most experts 8 / "
          "top_k 2 = 4)\n");
  EXPECT_EQ(refused(even, "--tp=2"),
            "boxcar: --tp: has no effect on a saved plan; of a job's keys it takes --cluster, --device, "
            "--attention-kernel and --routing-skew\n");
  boxcar::tests::run_program(job({"--dp=16", "--global-batch=32", "--save-plan", plain.path()}));
  EXPECT_EQ(refused(plain, "--routing-skew=2"),
            "boxcar: --routing-skew: has no effect on a plan without experts\n");
}

// With "=" or without. A command without --what-if does not know it.
TEST(WhatIf, AFlagWithTheNameOfAConstantChangesIt) {
  const auto step = [](std::vector<std::string> more) {
    more.push_back("--tp=4");
    return document(std::move(more))["step_time_s"].get<double>();
  };
  const double changed = step({"--what-if=node.link_bandwidth=3GB/s"});
  EXPECT_GT(changed, 1.1 * step({}));
  EXPECT_EQ(step({"--link-bandwidth=3GB/s"}), changed);
  EXPECT_EQ(step({"--link-bandwidth", "3GB/s"}), changed);
  EXPECT_THAT(tests::run_program({"simulate", "--link-bandwidth", "3GB/s", "no_such_job.yaml"}).err,
              HasSubstr("no_such_job.yaml: cannot be read"));
  EXPECT_THAT(tests::run_program({"train", "--model=gpt2", "--link-bandwidth=3GB/s"}).err,
              HasSubstr("--link-bandwidth: unknown flag"));
}

}  // namespace
}  // namespace boxcar::cli
