// Processes of different runs do not begin: all of them report the same message.
#include "actors/training/same_run.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/error_of.h"
#include "support/fake_transport.h"

namespace boxcar::training {
namespace {

using Facts = std::map<std::string, std::string>;

// Each process's error message.
std::vector<std::string> said(const std::vector<Facts>& facts) {
  support::FakeNetwork network(static_cast<int>(facts.size()), 1);
  std::vector<std::string> texts(facts.size());
  std::vector<std::thread> processes;
  for (size_t p = 0; p < facts.size(); ++p)
    processes.emplace_back([&, p] {
      const auto transport = network.transport(static_cast<int>(p));
      texts[p] = support::error_of([&] { expect_same_run(*transport, facts[p]); }, Exit::bad_input);
    });
  for (std::thread& process : processes) process.join();
  return texts;
}

TEST(SameRun, NamesTheFlagThatDiffers) {
  const Facts one{{"run.steps", "9"}, {"run.seed", "1"}}, other{{"run.steps", "8"}, {"run.seed", "1"}};
  EXPECT_EQ(said({one, one, other}),
            std::vector<std::string>(3,
                                     "process 2: run.steps: is 8, process 0 has 9 (processes need the same "
                                     "flags and files)"));
}

TEST(SameRun, TakesNoMixedGpus) {
  const Facts one{{gpu_fact, "NVIDIA H200"}, {"run.steps", "9"}},
      other{{gpu_fact, "NVIDIA A100"}, {"run.steps", "9"}};
  EXPECT_EQ(said({one, other}),
            std::vector<std::string>(2,
                                     "process 1: GPU: is NVIDIA A100, process 0 has NVIDIA "
                                     "H200 (train on GPUs of one type, or on the CPU)"));
}

TEST(SameRun, BeginsWhereAllIsAlike) {
  const Facts facts{{gpu_fact, "NVIDIA H200"}, {"run.steps", "9"}};
  support::FakeNetwork network(1, 1);
  const auto transport = network.transport(0);
  expect_same_run(*transport, facts);
}

}  // namespace
}  // namespace boxcar::training
