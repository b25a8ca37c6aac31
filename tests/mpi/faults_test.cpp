// Messages that users see when a process fails: mpirun starts tests/mpi/faulty.cpp, whose process 1 fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace boxcar::backends {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

struct Ended {
  int exit_code = -1;
  std::string text;
};

Ended mpirun(const std::string& kind, const std::string& fault, const std::string& silence = "60") {
  // A separate folder: OpenMPI puts a run's into one shared by all runs, which the last to end removes.
  // Processes that end because another died or left get three seconds for their messages: one is too short on
  // a busy machine.
  const std::string patient =
      fault == "dies" || fault == "leaves" ? " --mca odls_base_sigkill_timeout 3" : "";
  const std::string command = "d=$(mktemp -d); TMPDIR=$d " + std::string(BOXCAR_MPIRUN) +
                              " --allow-run-as-root --oversubscribe --bind-to none" + patient + " -n 3 " +
                              BOXCAR_FAULTY + " " + kind + " " + fault + " " + silence +
                              " 2>&1; e=$?; rm -rf $d; exit $e";
  Ended run;
  FILE* pipe = popen(command.c_str(), "r");
  char part[4096];
  while (const size_t bytes = fread(part, 1, sizeof part, pipe)) run.text.append(part, bytes);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  return run;
}

// How processes end whose devices communicate by the CPU backend, or by NCCL's interface.
class MpiFaults : public testing::TestWithParam<std::string> {
 protected:
  static Ended mpirun(const std::string& fault, const std::string& silence = "60") {
    return backends::mpirun(GetParam(), fault, silence);
  }
  // Message of `process`, which waits in the barrier.
  static std::string waits(int process) {
    const std::string device = "device " + std::to_string(process),
                      act = device + ": h0.barrier: barrier in all";
    if (GetParam() == "cpu") return act + " waits for device 1 of process 1\n";
    return act + ": rank " + std::to_string(process) + " of 3, " + device + " waits for " +
           (process == 0 ? "device 1 of process 1, device 2 of process 2\n"
                         : "device 0 of process 0, device 1 of process 1\n");
  }
};

INSTANTIATE_TEST_SUITE_P(Over, MpiFaults, testing::Values("cpu", "nccl"),
                         [](const auto& info) { return info.param; });

TEST_P(MpiFaults, NoneEndsWell) {
  const Ended run = mpirun("none");
  EXPECT_EQ(run.exit_code, 0);
  for (const char* process : {"0", "1", "2"}) {
    EXPECT_THAT(run.text, HasSubstr(std::string("process ") + process + ": done\n"));
  }
}

TEST_P(MpiFaults, AProcessThatDiesIsNamedByThoseThatWait) {
  const Ended run = mpirun("dies");
  EXPECT_EQ(run.exit_code, 137);
  for (const int process : {0, 2}) {
    EXPECT_THAT(
        run.text,
        HasSubstr("process " + std::to_string(process) +
                  ": ended by SIGTERM, which mpirun sends when another process dies or it is interrupted; " +
                  waits(process)));
  }
}

TEST_P(MpiFaults, AProcessThatStopsIsNotWaitedForForever) {
  const Ended run = mpirun("stops", "5");
  EXPECT_EQ(run.exit_code, 3);
  const std::string silent = "process 1 has not been heard from for 5 s",
                    start = "boxcar: process [02]: [^\n]*",
                    act = "barrier in all: rank [02] of 3, device [02]";
  const bool cpu = GetParam() == "cpu";
  EXPECT_THAT(
      run.text,
      ContainsRegex(cpu ? start + "barrier in all: waits for device 1 of process 1: " + silent
                        : start + "(" + act + "[^\n]*" + silent + "|" + silent + "[^\n]*" + act + ")"));
}

TEST_P(MpiFaults, AProcessThatFailsIsNamedOnce) {
  const Ended run = mpirun("fails");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.text, HasSubstr("boxcar: process 1: device 1: out of luck\n"));
  EXPECT_THAT(run.text, testing::Not(HasSubstr("waits for")));  // the others do not speak
}

TEST_P(MpiFaults, AProcessThatLeavesEarlyEndsTheRun) {
  const Ended run = mpirun("leaves");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.text, testing::AnyOf(HasSubstr(waits(0)), HasSubstr(waits(2))));
}

// One gathers where the others meet; another takes the second group first.
TEST(MpiNccl, MembersThatCallDifferentlyAreTold) {
  const Ended run = mpirun("nccl", "gathers");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.text,
              ContainsRegex("boxcar: process [012]: (waits for NCCL: )?(device [012]: h0.barrier: "
                            ")?(barrier|all_gather) in all: "
                            "rank [012] of 3, device [012]: NCCL: invalid usage \\(rank [012] calls "
                            "(all_reduce|all_gather) of [^\n]*; rank [012] (all_reduce|all_gather) of "));
}

TEST(MpiNccl, AnotherOrderOfCollectivesIsLate) {
  const Ended run = mpirun("nccl", "reorders");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(
      run.text,
      ContainsRegex("boxcar: process [012]: [^\n]*device [012]: h0.barrier: barrier in (all|others): "
                    "rank [012] of 3, device [012]: not done after 3 s: another member has stopped, or "
                    "was given another order of collectives\n"));
}

}  // namespace
}  // namespace boxcar::backends
