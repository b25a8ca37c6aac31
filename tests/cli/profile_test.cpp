// `boxcar profile`: user mistakes, constants fitted to samples, and the file it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/samples_file.h"
#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using Words = std::vector<std::string>;

void expect_profile_refused(const Words& arguments, const std::string& message) {
  const Output output = run_program(arguments);
  EXPECT_EQ(output.err, "boxcar: " + message + "\n");
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.exit_code, 2);
}

TEST(Profile, RefusesWhatItCannotDo) {
  expect_profile_refused({"profile"}, "-o: missing; name the device file to write");
  expect_profile_refused({"profile", "--backend=cude", "-o", "x.yaml"},
                         "--backend: got \"cude\", expected one of cpu, cuda (did you mean cuda?)");
  expect_profile_refused({"profile", "--fast", "-o", "x.yaml"}, "--fast: needs backend cuda");
  expect_profile_refused({"profile", "--memory=1e9", "-o", "x.yaml"}, "--memory: needs backend cuda");
  expect_profile_refused({"profile", "--backend=cuda", "--memory=8", "-o", "x.yaml"},
                         "--memory: got 8, expected 1e5 to 32e9 bytes");
  expect_profile_refused(
      {"profile", "--outptu=x.yaml"},
      "--outptu: unknown flag (did you mean --output?); `boxcar profile --help` lists all");
  expect_profile_refused({"profile", "-o", "x.yaml", "y.yaml"}, "y.yaml: one argument too many");
  expect_profile_refused({"profile", "-o", "/no/such/dir/cpu.yaml"},
                         "/no/such/dir/cpu.yaml: cannot be written: No such file or directory");
  expect_profile_refused({"profile", "-o", "/"}, "/: cannot be written: Is a directory");
}

TEST(Profile, RefusesFilesThatAreNoSamples) {
  const auto refused = [](const std::string& text, const std::string& why) {
    const TemporaryFile file("samples.json", text);
    expect_profile_refused({"profile", "--from", file.path(), "-o", "x.yaml"}, file.path() + ": " + why);
  };
  const auto with = [](const std::string& kernel) {
    return R"({"schema_version":1,"device":"a","type":"bfloat16","memory_bytes":1,"multiprocessors":2,"load_share":1,"act_s":0,)"
           R"("launch_s":0,"message_s":0,"copy_bytes_per_s":0,"upload_bytes_per_s":0,"cores":0,"groups":[],)"
           R"("kernels":[)" +
           kernel + "]}";
  };
  const auto add = [&](const std::string& op, const std::string& output, const std::string& seconds) {
    return with(R"({"op":")" + op + R"(","inputs":["float32[2]","float32[2]"],"outputs":[")" + output +
                R"("],"attrs":{},"adds":0,"time_s":)" + seconds + "}");
  };
  const std::string times = "time_s: expected a number ";
  refused("", "is no JSON document, as `boxcar profile --samples` writes it");
  refused("{}", "schema_version: is missing");
  refused("[]", "schema_version: is missing");
  refused(with("1"), "op: is missing");
  refused(add("add", "float32[2]", "\"1\""), times + "from 0");
  refused(add("add", "float32[2]", "0"), times + "above 0");
  refused(add("add", "float32[3]", "1"), "add: outputs: are not of the types that its inputs give");
  refused(add("add", "float32[0]", "1"), "outputs: has a tensor without elements");
  refused(add("add", "float32[2]", "1"),
          "has too few kernels to fit a device, or times or names that cannot be right");
  const TemporaryFile unknown("samples.json", add("ad", "float32[2]", "1"));
  const Output output = run_program({"profile", "--from", unknown.path(), "-o", "x.yaml"});
  EXPECT_THAT(output.err, ::testing::StartsWith("boxcar: " + unknown.path() + ": "));
  EXPECT_EQ(output.exit_code, 2);
  expect_profile_refused({"profile", "--from=x.json", "--fast", "-o", "x.yaml"},
                         "--from: measures nothing; leave out --backend, --fast, --memory and --samples");
  expect_profile_refused({"profile", "--from=x.json", "--samples=x.json", "-o", "x.yaml"},
                         "--samples: x.json is the same file as --from");
}

TEST(Profile, SamplesAreReadAsTheyWereWritten) {
  const measure::Samples samples = cli::read_samples(BOXCAR_SOURCE_DIR "/tests/fuzz/seeds/samples/h200");
  EXPECT_GE(samples.kernels.size(), 5U);
  const TemporaryFile file("samples.json", cli::samples_text(samples));
  EXPECT_EQ(cli::samples_text(cli::read_samples(file.path())), cli::samples_text(samples));
}

// An H200's measurements of itself, and steps that it took on the same day (2026-11-28): GPT-2 124M is none
// of the jobs whose kernels were measured. docs/gpu.md has the numbers.
TEST(Profile, ADeviceFittedToAnH200SimulatesItsSteps) {
  const TemporaryFile device("h200.yaml", "");
  ASSERT_EQ(run_program({"profile", "--from", BOXCAR_SOURCE_DIR "/experiments/fit/samples/profile_h200.json",
                         "-o", device.path()})
                .exit_code,
            0);
  const auto off = [](const std::string& on, double measured, const Words& flags) {
    Words words{"simulate",         "--json",           "--model=gpt2",
                "--precision=bf16", "--micro-batch=16", "--global-batch=32",
                "--cluster=local",  "--dp=1",           "--device=" + on};
    words.insert(words.end(), flags.begin(), flags.end());
    const double simulated = nlohmann::json::parse(run_program(words).out)["step_time_s"];
    return simulated / measured - 1;
  };
  const Words fast{"--attention=flash", "--epilogues=true", "--gelu=tanh",    "--fused-optimizer=true",
                   "--fused-loss=true", "--logits=half",    "--pad-vocab=64", "--dropout=0"};
  EXPECT_NEAR(off(device.path(), 61.6e-3, fast), 0, 0.03);
  EXPECT_NEAR(off(device.path(), 180e-3, {"--pad-vocab=1", "--attention=unfused"}), 0, 0.04);
  EXPECT_NEAR(off("h200-sxm", 61.6e-3, fast), 0, 0.06);
  EXPECT_NEAR(off("h200-sxm", 180e-3, {"--pad-vocab=1", "--attention=unfused"}), 0, 0.12);
}

// As in training: there is a GPU, or one message says why there is none.
TEST(Profile, NeedsAGpuForCuda) {
  if (access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "there is a GPU: see tests/cuda";
  const TemporaryFile file("gpu.yaml", "");
  const Output output = run_program({"profile", "--backend=cuda", "-o", file.path()});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.out, "");
  EXPECT_THAT(output.err, ::testing::MatchesRegex(
                              "boxcar: cuda: (this program was built without CUDA; build it where nvcc "
                              "is found, with -DBOXCAR_CUDA=ON, or use --backend cpu|"
                              "no NVIDIA driver answers on this machine; install one for CUDA "
                              "[0-9.]+ or later, or use --backend cpu|"
                              "no GPU is visible to this process .look at CUDA_VISIBLE_DEVICES, or use "
                              "--backend cpu.)\n"));
}

TEST(Profile, DevicesThatAreNotThere) {
  const Words job{"simulate", "--model=gpt", "--layers=2",      "--hidden=16", "--heads=4",
                  "--seq=16", "--vocab=256", "--cluster=local", "--dp=1",      "--precision=fp32"};
  const auto refused = [&](const std::string& device, const std::string& message) {
    Words words = job;
    words.push_back("--device=" + device);
    expect_profile_refused(words, message);
  };
  refused("cpus",
          "--device: no preset cpus (did you mean cpu?); known: a100-pcie-80g, a100-sxm-40g, a100-sxm-80g, "
          "b200-sxm, b300-sxm, cpu, gb200, gb300, gh200-96g, h100-sxm, h200-sxm, v100-sxm2-16g, "
          "v100-sxm2-32g, v100-sxm3-32g; or "
          "give a path to a .yaml file");
  refused("/no/such.yaml", "--device: /no/such.yaml: cannot be read");
}

TEST(Profile, LongMeasuresADeviceThatSimulatesAndTrains) {
  const TemporaryFile text("text.txt", std::string(4000, 'a'));
  const std::string device = std::filesystem::path(text.path()).parent_path().string() + "/cpu.yaml";
  const TemporaryFile samples("samples.json", ""), again("again.yaml", "");
  const Output profiled =
      run_program({"profile", "--backend=cpu", "-o", device, "--samples", samples.path()});
  ASSERT_EQ(profiled.exit_code, 0) << profiled.err;
  EXPECT_EQ(profiled.out, "");
  EXPECT_THAT(profiled.err,
              ::testing::MatchesRegex("(boxcar: other programs kept [0-9.]+ of the processors busy "
                                      "when this began: what is measured may be too slow\n)?"));
  EXPECT_EQ(run_program({"profile", "--from", samples.path(), "-o", again.path()}).exit_code, 0);
  const auto fitted = [](const std::string& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path).rdbuf();
    const std::string text = bytes.str();
    return text.substr(text.find('\n'));  // without the comment
  };
  EXPECT_EQ(fitted(again.path()), fitted(device));
  Words job{"--json",   "--model=gpt", "--layers=2", "--hidden=16",        "--heads=4",
            "--seq=16", "--vocab=256", "--dp=2",     "--device=" + device, "--precision=fp32"};
  Words simulate{"simulate", "--cluster=local"}, train{"train", "--steps=2", "--data=" + text.path()};
  simulate.insert(simulate.end(), job.begin(), job.end());
  train.insert(train.end(), job.begin(), job.end());
  const Output simulated = run_program(simulate), trained = run_program(train);
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  EXPECT_GT(nlohmann::json::parse(simulated.out).at("step_time_s"), 0);
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
}

}  // namespace
}  // namespace boxcar::tests
