// What users see when a process goes wrong: mpirun starts tests/mpi/faulty.cpp, whose process 1 does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace boxcar::backends {
namespace {

using testing::HasSubstr;

struct Ended {
  int exit_code = -1;
  std::string text;
};

Ended mpirun(const std::string& fault, const std::string& silence = "60") {
  // A folder of its own: OpenMPI's run in one that all runs share, which the last one to end takes away.
  // Those that a dead one takes along have three seconds for what they say, not one, as machines may be busy.
  const std::string patient = fault == "dies" ? " --mca odls_base_sigkill_timeout 3" : "";
  const std::string command = "d=$(mktemp -d); TMPDIR=$d " + std::string(BOXCAR_MPIRUN) +
                              " --allow-run-as-root --oversubscribe --bind-to none" + patient + " -n 3 " +
                              BOXCAR_FAULTY + " " + fault + " " + silence + " 2>&1; e=$?; rm -rf $d; exit $e";
  Ended run;
  FILE* pipe = popen(command.c_str(), "r");
  char part[4096];
  while (const size_t bytes = fread(part, 1, sizeof part, pipe)) run.text.append(part, bytes);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  return run;
}

TEST(MpiFaults, NoneEndsWell) {
  const Ended run = mpirun("none");
  EXPECT_EQ(run.exit_code, 0);
  for (const char* process : {"0", "1", "2"}) {
    EXPECT_THAT(run.text, HasSubstr(std::string("process ") + process + ": done\n"));
  }
}

TEST(MpiFaults, AProcessThatDiesIsNamedByThoseThatWait) {
  const Ended run = mpirun("dies");
  EXPECT_EQ(run.exit_code, 137);
  for (const char* process : {"0", "2"}) {
    EXPECT_THAT(
        run.text,
        HasSubstr(
            std::string("process ") + process +
            ": ended by SIGTERM, which mpirun sends when another process dies or it is interrupted; device " +
            process + ": h0.barrier: barrier in all waits for device 1 of process 1\n"));
  }
}

TEST(MpiFaults, AProcessThatStopsIsNotWaitedForForever) {
  const Ended run = mpirun("stops", "5");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.text,
              HasSubstr("barrier in all: waits for device 1 of process 1: process 1 has not been heard "
                        "from for 5 s\n"));
}

TEST(MpiFaults, AProcessThatFailsIsNamedOnce) {
  const Ended run = mpirun("fails");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.text, HasSubstr("boxcar: process 1: device 1: out of luck\n"));
  EXPECT_THAT(run.text, testing::Not(HasSubstr("waits for")));  // the others do not speak
}

TEST(MpiFaults, AProcessThatLeavesEarlyEndsTheRun) {
  const Ended run = mpirun("leaves");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.text, HasSubstr("device 0: h0.barrier: barrier in all waits for device 1 of process 1\n"));
}

}  // namespace
}  // namespace boxcar::backends
