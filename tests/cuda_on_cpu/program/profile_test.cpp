// `boxcar profile --backend cuda` as a user runs it, over the stand-ins for CUDA, its libraries and NCCL.
// tests/cli/gpu_profile_test checks its use of a real GPU's samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Little memory keeps kernels small. Kernels there report 2 us and 8 ns per thread, which sums eight
// elements.
TEST(ProfileOnGpus, SimulateReadsTheFileThatItWrites) {
  const std::string folder = temporary_folder(), file = folder + "/gpu.yaml";
  setenv("CUDA_ON_CPU_GPUS", "2", 1);
  const Output profile = run_program({"profile", "--backend=cuda", "--memory=1e5", "-o", file});
  unsetenv("CUDA_ON_CPU_GPUS");
  EXPECT_EQ(profile.exit_code, 0) << profile.err;
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), StartsWith("# the host in a GPU's place, measured by `boxcar profile` on "));
  for (const char* line : {"\nname: the host in a GPU's place\n", "\nmemory_bytes: 8589934592\n",
                           "\nmemory_bandwidth: 13710000000\n", "\nkernel_floor: 2.512e-06\n",
                           "\nmultiprocessors: 4\n", "\n  matmul: ", "\n  link_bandwidth: "})
    EXPECT_THAT(text.str(), HasSubstr(line));
  const Output simulated =
      run_program({"simulate", "--model=gpt", "--layers=2", "--hidden=64", "--heads=4", "--seq=64",
                   "--vocab=256", "--precision=bf16", "--cluster=local", "--dp=2", "--device=" + file});
  EXPECT_EQ(simulated.exit_code, 0) << simulated.err;
  EXPECT_THAT(simulated.out, HasSubstr("memory, limit 8.59 GB per GPU"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace boxcar::tests
