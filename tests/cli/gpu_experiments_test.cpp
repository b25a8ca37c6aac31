// experiments/gpu, which users run on a GPU machine: its work and messages without a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "host/temporary.h"

namespace boxcar::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct Said {
  int exit_code = -1;
  std::string text;  // both streams
};

Said shell(const std::string& command) {
  FILE* pipe = popen(fmt::format("cd '{}' && {{ {}; }} 2>&1", BOXCAR_SOURCE_DIR, command).c_str(), "r");
  if (!pipe) return {};
  Said said;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) said.text.append(buffer, n);
  said.exit_code = WEXITSTATUS(pclose(pipe));
  return said;
}

Said compare(const std::string& arguments) {
  return shell(fmt::format("'{}' experiments/gpu/compare {}", BOXCAR_PYTHON, arguments));
}

const std::string on_cpu = "--device backends/presets/devices/cpu.yaml --backend cpu --small";

TEST(GpuCompare, PutsTheSimulatedStepBesideTheMeasuredOne) {
  const Said said = compare(fmt::format("--boxcar '{}' --peak-tflops 1 {}", BOXCAR_PROGRAM, on_cpu));
  EXPECT_EQ(said.exit_code, 0);
  const auto pattern = [](const std::string& model) {
    return model +
           " boxcar acts    +[0-9.]+ ms +[0-9,]+ /s  MFU +[0-9.]+%  +0.00 GB  simulated [0-9.]+ ms, "
           "[-+][0-9.]+%\n    not for this model\n";
  };
  EXPECT_THAT(said.text, MatchesRegex(pattern("GPT, 2 layers   ") + pattern("ResNet-50, small")));
}

TEST(GpuCompare, SaysWhyThereAreNoNumbers) {
  const auto failed = [](const char* model) {
    return fmt::format(
        "{} boxcar acts    not measured  not simulated\n    exit code 1\n    exit code 1\n    not for this "
        "model\n",
        model);
  };
  const Said said = compare("--boxcar false " + on_cpu);
  EXPECT_EQ(said.text, failed("GPT, 2 layers   ") + failed("ResNet-50, small"));
  EXPECT_EQ(said.exit_code, 1);
}

// A program that takes 1 GB and, on GPUs, 256 MiB of scratch memory.
TEST(GpuCompare, CountsWhatKernelsTakeBesideTheArena) {
  const tests::TemporaryFolder folder;
  std::filesystem::permissions(folder.file("boxcar", R"(#!/bin/sh
[ "$1" = simulate ] && exec echo '{"step_time_s": 0.1, "model_tflops_per_gpu": 1}'
echo '{"event": "start", "tokens_per_step": 1000, "peak_memory_bytes": [1000000000]}'
for step in 6 7 8; do echo '{"event": "step", "step": '$step', "step_time_s": 0.2}'; done
)"),
                               std::filesystem::perms::owner_all);
  const auto said = [&](const char* backend) {
    return compare(fmt::format("--boxcar {} --device backends/presets/devices/cpu.yaml --small --backend {}",
                               folder / "boxcar", backend))
        .text;
  };
  EXPECT_THAT(said("cuda"), HasSubstr("acts        200.0 ms       5,000 /s  MFU      -     1.27 GB"));
  EXPECT_THAT(said("cpu"), HasSubstr("acts        200.0 ms       5,000 /s  MFU      -     1.00 GB"));
}

// A row of the script's document: 1e12 operations and 1000 tokens per step.
std::string row(const char* model, const char* way, double simulated, double measured,
                const std::string& pytorch) {
  return fmt::format(
      R"({{"model": "{}", "way": "{}", "simulated": {{"s": {}, "flops": 1e12}}, "peak_flops": 2e13,
          "measured": {{"s": {}, "samples": 1000, "memory_bytes": 2000000000}}, "pytorch": {}, "missing": []}})",
      model, way, simulated, measured, pytorch);
}
std::string peer(double seconds, double bytes) {
  return fmt::format(R"({{"step_time_s": {}, "samples_per_s": {}, "peak_memory_bytes": {}}})", seconds,
                     1000 / seconds, bytes);
}

TEST(GpuCompare, JudgesTheBars) {
  const tests::TemporaryFolder folder;
  const auto judge = [&](const std::string& rows) {
    return compare("--judge " + folder.file("rows.json", "[" + rows + "]"));
  };
  const std::string good = peer(0.11, 2.5e9);
  const Said met = judge(row("one", "acts", 0.124, 0.12, good) + "," + row("one", "graphs", 0.1, 0.1, good));
  EXPECT_EQ(met.text,
            "one              boxcar acts        120.0 ms       8,333 /s  MFU  41.7%     2.00 GB  simulated "
            "124.0 ms, "
            "+3.3%\n"
            "one              pytorch            110.0 ms       9,091 /s  MFU  45.5%     2.50 GB\n"
            "one              boxcar graphs      100.0 ms      10,000 /s  MFU  50.0%     2.00 GB  simulated "
            "100.0 ms, "
            "+0.0%\n"
            "bars\n"
            "  met     one: graphs, 1.10 times PyTorch's speed\n"
            "  met     one: graphs, 0.80 times PyTorch's memory\n"
            "  met     one: acts, simulated +3.3% off\n"
            "  met     one: graphs, simulated +0.0% off\n"
            "aims\n"
            "  missed  one: 1.10 of 1.15 times PyTorch's speed\n");
  EXPECT_EQ(met.exit_code, 0);

  const Said open = judge(row("one", "acts", 0.1, 0.1, "null"));
  EXPECT_THAT(open.text, HasSubstr("  open    one: PyTorch was not measured\n"));
  EXPECT_EQ(open.exit_code, 0);

  const auto expect_missed = [&](const std::string& rows, const std::string& what) {
    const Said said = judge(rows);
    EXPECT_THAT(said.text, HasSubstr("  missed  " + what + "\n"));
    EXPECT_EQ(said.exit_code, 1);
  };
  expect_missed(row("two", "acts", 0.1, 0.1, peer(0.09, 3e9)), "two: acts, 0.90 times PyTorch's speed");
  expect_missed(row("two", "acts", 0.1, 0.1, peer(0.2, 1e9)), "two: acts, 2.00 times PyTorch's memory");
  expect_missed(row("two", "acts", 0.094, 0.1, good), "two: acts, simulated -6.0% off");
  const std::string nothing =
      R"({"model": "two", "way": "acts", "simulated": null, "measured": null, "pytorch": null, "missing": []})";
  expect_missed(nothing, "two: no step was measured");
  expect_missed(row("two", "graphs", 0.1, 0.1, good) + "," + nothing,
                "two: acts, not both simulated and measured");
}

// 1e12 operations at a peak of 2e13 take 50 ms at best.
TEST(GpuCompare, SaysHowFarAimsAre) {
  const tests::TemporaryFolder folder;
  const auto aims = [&](double seconds, const std::string& pytorch) {
    const std::string rows = "[" + row("GPT-2 1.5B", "graphs", seconds, seconds, pytorch) + "]";
    const Said said = compare("--judge " + folder.file("rows.json", rows));
    EXPECT_EQ(said.exit_code, 0);
    return said.text.substr(said.text.find("aims"));
  };
  EXPECT_EQ(aims(0.09, peer(0.108, 3e9)),
            "aims\n"
            "  met     GPT-2 1.5B: 1.20 of 1.15 times PyTorch's speed\n"
            "  met     GPT-2 1.5B: MFU 55.6% of 55%\n");
  EXPECT_EQ(aims(0.1, "null"),
            "aims\n"
            "  open    GPT-2 1.5B: 1.15 times PyTorch's speed\n"
            "  missed  GPT-2 1.5B: MFU 50.0% of 55%\n");
}

// A program that hangs is ended, and earlier measurements are kept.
TEST(GpuCompare, EndsWhatHangs) {
  const tests::TemporaryFolder folder;
  std::filesystem::permissions(
      folder.file("hangs", "#!/bin/sh\n[ \"$1\" = simulate ] && exit 1\nexec sleep 1000\n"),
      std::filesystem::perms::owner_all);
  const Said said = compare(
      fmt::format("--boxcar {} --timeout 0.5 --json {} {}", folder / "hangs", folder / "rows.json", on_cpu));
  EXPECT_THAT(said.text, HasSubstr("\n    exit code 1\n    hangs train: ended after 0.5 s\n"));
  EXPECT_EQ(said.exit_code, 1);
  const Said again = compare(fmt::format("--judge {}", folder / "rows.json"));
  EXPECT_THAT(again.text, HasSubstr("missed  GPT, 2 layers: no step was measured\n"));
}

// Also without PyTorch.
TEST(GpuPytorch, SaysWhatItDoes) {
  const Said help = shell(fmt::format("'{}' experiments/gpu/pytorch_step.py --help", BOXCAR_PYTHON));
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.text, HasSubstr("pytorch_step.py --model resnet50 --micro-batch 128"));
}

TEST(GpuCompare, JudgesNoFileWithoutNumbers) {
  const tests::TemporaryFolder folder;
  const auto refused = [](const std::string& path, const std::string& why) {
    const Said said = compare("--judge " + path);
    EXPECT_THAT(said.text, EndsWith("\ncompare: error: " + path + ": " + why + "\n"));
    EXPECT_EQ(said.exit_code, 2);
  };
  refused(folder / "none.json", "No such file or directory");
  refused(folder.file("torn.json", "[{"), "not what --json writes");
  refused(folder.file("other.json", R"([{"model": "one"}])"), "not what --json writes");
  const Said empty = compare("--judge " + folder.file("empty.json", "[]"));
  EXPECT_EQ(empty.text, "bars\n  missed  there are no numbers\n");
  EXPECT_EQ(empty.exit_code, 1);
}

TEST(GpuRun, SaysWhatItDoes) {
  const Said help = shell("experiments/gpu/run --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.text, HasSubstr("\n  experiments/gpu/run --only build|time|check|several|profile|compare|"
                                   "sanitize|memcheck|racecheck [FOLDER]\n"));
  EXPECT_THAT(help.text, ::testing::Not(HasSubstr("set -")));
  const auto refused = [](const std::string& arguments, const std::string& message) {
    const Said said = shell("experiments/gpu/run " + arguments);
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_EQ(said.text, "run: " + message + "; run --help says more\n");
  };
  refused("--only nix",
          "--only \"nix\": known are build time check several profile compare sanitize memcheck racecheck");
  refused("--nix", "--nix: unknown flag");
  refused("--minutes x", "--minutes \"x\": expected a whole number from 1");
  refused("a b", "b: one folder at a time");
}

// Stands in for the tests: in each group two pass, or none does, one skips, and in the third group one fails.
constexpr const char* program = R"(#!/bin/sh
for word; do case "$word" in --gtest_output=json:*) out=${word#*json:} ;; --gtest_filter=*) filter=${word#*=} ;; esac; done
printf '%s\n' 'x.cpp:1: Skipped' 'cuda: needs two GPUs' ''
pass='{"name": "A", "status": "RUN", "result": "COMPLETED"}'
case "$filter" in Gpu/*) pass= ;; esac
fail=
case "$filter" in Plans/GpuLaw4*) fail=', {"name": "C", "status": "RUN", "result": "COMPLETED", "failures": [{}]}' ;; esac
echo '{"testsuites": [{"name": "S", "testsuite": ['"${pass:+$pass, $pass, }"'{"name": "B", "status": "RUN", "result": "SKIPPED"}'"$fail"']}]}' >"$out"
[ -z "$fail" ]
)";

TEST(GpuRun, DoesNotCountSkippedTestsAsPassed) {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "tests");
  std::filesystem::permissions(folder.file("tests/test_cuda", program), std::filesystem::perms::owner_all);
  const Said said =
      shell(fmt::format("BUILD={} experiments/gpu/run --only check {}", folder.path(), folder / "out"));
  EXPECT_EQ(said.exit_code, 1);
  const std::string skipped = "  1 skipped: cuda: needs two GPUs\n", after = " \\(after [0-9]+ s\\)\n";
  EXPECT_THAT(said.text,
              ::testing::ContainsRegex(
                  "== check: Registry/GpuKernels.\\*" + after + "2 passed, 0 failed, 1 skipped\n" + skipped +
                  "\n== check: Gpu/Conformance.\\*" + after + "0 passed, 0 failed, 1 skipped\n" + skipped +
                  "  nothing was checked\n\n== check: Plans/GpuLaw4.\\*:Orders/GpuImages.\\*" + after +
                  "2 passed, 1 failed, 1 skipped\n  failed: S.C\n" + skipped +
                  "  exit code 1\n\n== check: Plans/GpuGraphs.\\*:GpuGraph.\\*:GpuNccl.\\*" + after +
                  "2 passed, 0 failed, 1 skipped\n" + skipped));
}

// The shell's clock starts at 100 seconds.
TEST(GpuRun, EndsWhenItsTimeIsOver) {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "tests");
  std::filesystem::permissions(folder.file("tests/test_cuda", program), std::filesystem::perms::owner_all);
  const Said said = shell(fmt::format("SECONDS=100 BUILD={} experiments/gpu/run --minutes 1 --only check {}",
                                      folder.path(), folder / "out"));
  EXPECT_THAT(said.text, HasSubstr("\nno result: exit code 124, out of time\n"));
  EXPECT_THAT(said.text, HasSubstr("\nout of time: 1 minutes are over\n"));
  EXPECT_EQ(said.exit_code, 1);
}

// A child that runs when the script is ended does not outlive it.
TEST(GpuRun, EndsWhatItStarted) {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "tests");
  const std::string waits =
      fmt::format("#!/bin/sh\necho $$ >'{0}.new'\nmv '{0}.new' '{0}'\nexec sleep 1000\n", folder / "pid");
  std::filesystem::permissions(folder.file("tests/test_cuda", waits), std::filesystem::perms::owner_all);
  const Said said = shell(fmt::format(
      "BUILD={} experiments/gpu/run --only check {} >/dev/null & until [ -s {} ]; do sleep 0.05; done; kill "
      "$!; "
      "wait $!; code=$?; for i in $(seq 200); do kill -0 $(cat {}) 2>/dev/null || break; sleep 0.05; done; "
      "kill $(cat {}) && echo runs on; exit $code",
      folder.path(), folder / "out", folder / "pid", folder / "pid", folder / "pid"));
  EXPECT_EQ(said.exit_code, 143);
  EXPECT_THAT(said.text, ::testing::Not(HasSubstr("runs on")));
}

// A program that trains the same on any plan but one of tensor parallelism, and fails at the end of a
// pipeline.
TEST(GpuRun, ComparesSeveralGpusWithOne) {
  const tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "tools");
  std::filesystem::create_directories(folder / "tests");
  const auto tool = [&](const std::string& name, const std::string& text) {
    std::filesystem::permissions(folder.file(name, "#!/bin/sh\n" + text), std::filesystem::perms::owner_all);
  };
  tool("tests/test_cuda", "");
  tool("tools/mpirun",
       "while [ \"$1\" != \"${1%train}\" ] || [ ! -x \"$1\" ]; do shift; done; exec \"$@\"\n");
  tool("boxcar", R"(case "$*" in *"--tp 4"*) x=3 ;; *) x=2 ;; esac
printf '{"event": "start"}\n{"event": "step", "loss": %s}\n{"event": "step", "loss": 1.5}\n' "$x"
case "$*" in *"--pp 4"*) exit 3 ;; esac
)");
  const auto run = [&](int gpus) {
    tool("tools/nvidia-smi", fmt::format("for i in $(seq {}); do echo GPU; done\n", gpus));
    return shell(fmt::format("PATH={}:$PATH BUILD={} experiments/gpu/run --only several {}", folder / "tools",
                             folder.path(), folder / "out"));
  };
  const Said four = run(5);
  EXPECT_EQ(four.exit_code, 1);
  EXPECT_THAT(four.text, HasSubstr("\none GPU: 2 1.5\n"));
  EXPECT_THAT(four.text,
              ::testing::ContainsRegex("== several: --dp 4 --zero 3 \\(after [0-9]+ s\\)\n"
                                       "one process: 2 1.5\n"
                                       "mpirun --allow-run-as-root --oversubscribe -n 4: 2 1.5\n\n=="));
  EXPECT_THAT(four.text, HasSubstr("one process: 3 1.5\nlosses differ from one GPU's\n"));
  EXPECT_THAT(four.text, HasSubstr("\nexit code 3\none process: 2 1.5\n"));
  EXPECT_THAT(run(8).text, HasSubstr("== several: --pp 8"));
  const Said one = run(1);
  EXPECT_THAT(one.text, HasSubstr("\nseveral: GPUs here: 1, so nothing was run on several\n"));
  EXPECT_EQ(one.exit_code, 1);
}

// Neither compute-sanitizer nor PyTorch is available, and the program trains nothing.
TEST(GpuRun, FailsWhereNothingWasDone) {
  const tests::TemporaryFolder folder;
  const std::filesystem::path tools = folder / "tools";
  std::filesystem::create_directories(tools);
  for (const char* tool :
       {"bash", "dirname", "realpath", "mkdir", "date", "tee", "head", "tail", "timeout", "sed"})
    std::filesystem::create_symlink(shell(fmt::format("printf %s \"$(command -v {})\"", tool)).text,
                                    tools / tool);
  const std::string python =
      fmt::format("#!/bin/sh\n[ \"$2\" = 'import torch' ] && exit 1\nPATH='{}' '{}' \"$@\"\n",
                  std::getenv("PATH"), BOXCAR_PYTHON);
  std::filesystem::permissions(folder.file("tools/python3", python), std::filesystem::perms::owner_all);
  std::filesystem::permissions(folder.file("boxcar", "#!/bin/sh\nexit 1\n"),
                               std::filesystem::perms::owner_all);
  const auto run = [&](const char* part) {
    return shell(fmt::format("PATH={} BUILD={} experiments/gpu/run --only {} {}", tools.string(),
                             folder.path(), part, folder / "out"));
  };
  const Said sanitized = run("memcheck");
  EXPECT_THAT(sanitized.text, HasSubstr("\nno compute-sanitizer: memcheck was not run\n"));
  EXPECT_EQ(sanitized.exit_code, 1);
  const Said timed = run("time");
  EXPECT_THAT(timed.text, HasSubstr("\nno losses to compare between acts and graphs\n"));
  EXPECT_EQ(timed.exit_code, 1);
}

TEST(OfflineBundle, SaysWhatItDoes) {
  const Said help = shell("scripts/offline-bundle --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.text, HasSubstr("\n  scripts/offline-bundle FILE\n"));
  EXPECT_THAT(help.text, ::testing::Not(HasSubstr("set -")));
  const Said unknown = shell("scripts/offline-bundle --nix");
  EXPECT_EQ(unknown.text, "offline-bundle: --nix: unknown flag\n");
  EXPECT_EQ(unknown.exit_code, 2);
}

}  // namespace
}  // namespace boxcar::cli
