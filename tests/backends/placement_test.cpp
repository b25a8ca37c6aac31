// Errors if devices cannot be GPUs: whole messages, without a GPU.
#include "backends/cuda/placement.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "support/error_of.h"

namespace boxcar::backends::cuda {
namespace {

using support::error_of;

Gpus gpus(int count) {
  Gpus result{.driver = 13010, .runtime = 13000};
  for (int i = 0; i < count; ++i) result.names.emplace_back("NVIDIA H200");
  return result;
}

std::string refusal(const Gpus& gpus, const Wanted& wanted) {
  return error_of([&] { place(gpus, wanted); }, Exit::cannot_run);
}

TEST(Placement, DealsGpusInOrder) {
  EXPECT_EQ(place(gpus(4), {.devices = 2}), (std::vector<int>{0, 1}));
  EXPECT_EQ(place(gpus(8), {.devices = 1, .processes = 8, .process = 5}), std::vector<int>{5});
  EXPECT_EQ(place(gpus(8), {.devices = 2, .processes = 3, .process = 2}), (std::vector<int>{5, 6}));
}

TEST(Placement, SharesGpusWhereItMay) {
  EXPECT_EQ(place(gpus(1), {.devices = 4, .share = true}), std::vector<int>(4, 0));
  EXPECT_EQ(place(gpus(2), {.devices = 5, .share = true}), (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(place(gpus(4), {.devices = 2, .share = true}), (std::vector<int>{0, 1}));
}

TEST(Placement, SaysWhatIsMissing) {
  EXPECT_EQ(refusal({.runtime = 13000}, {}),
            "cuda: no NVIDIA driver answers on this machine; install one for CUDA 13.0 or later, or use "
            "--backend cpu");
  EXPECT_EQ(refusal({.driver = 12040, .runtime = 13000}, {}),
            "cuda: the driver is for CUDA 12.4, this program for CUDA 13.0; update the driver, or build with "
            "an older "
            "CUDA");
  EXPECT_EQ(refusal(gpus(0), {}),
            "cuda: no GPU is visible to this process (look at CUDA_VISIBLE_DEVICES, or use --backend cpu)");
  Gpus mixed = gpus(1);
  mixed.names.emplace_back("NVIDIA A100");
  EXPECT_EQ(
      refusal(mixed, {}),
      "cuda: GPUs of two types, NVIDIA H200 and NVIDIA A100; name those of one in CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(refusal(gpus(1), {.devices = 8}),
            "cuda: 8 devices for 1 GPU; use more GPUs or fewer devices, or --share-gpus to put several "
            "devices on one");
  EXPECT_EQ(refusal(gpus(2), {.devices = 1, .processes = 3, .process = 0}),
            "cuda: 3 processes for 2 GPUs that they all see; start one for each GPU");
}

TEST(Placement, RefusesAPlanThatDoesNotFit) {
  check_memory(0, 100, 100, 200);
  EXPECT_EQ(
      error_of([] { check_memory(3, 160'000'000'000, 149'250'000'000, 150'109'106'995); }, Exit::cannot_run),
      "cuda: GPU 3: the plan needs 160.00 GB, 149.25 of 150.11 GB are free; use smaller micro-batches, "
      "recomputation, sharding or more devices");
  EXPECT_EQ(error_of([] { check_memory(0, 32 << 20, 20'000'000, 2'000'000'000, "kernels need"); },
                     Exit::cannot_run),
            "cuda: GPU 0: kernels need 0.03 GB, 0.02 of 2.00 GB are free; use smaller micro-batches, "
            "recomputation, sharding or more devices");
  EXPECT_EQ(error_of([] { no_piece(1, 3'000'000'000, 4'000'000'000); }, Exit::cannot_run),
            "cuda: GPU 1: 3.00 GB are wanted in one piece, 4.00 GB are free in smaller ones; use smaller "
            "micro-batches, recomputation, sharding or more devices");
}

// All processes see their machine's GPUs, or each sees its own.
TEST(Placement, DealsGpusToThoseWhoSeeThem) {
  const auto sharers_of = [](const std::vector<std::string>& ids, int process) {
    const Wanted wanted = sharers(ids, process);
    return std::pair(wanted.process, wanted.processes);
  };
  const std::vector<std::string> two_machines{"a b", "b a", "c d", "c d"};
  for (int p = 0; p < 4; ++p) EXPECT_EQ(sharers_of(two_machines, p), std::pair(p % 2, 2));
  const std::vector<std::string> own{"a", "b", "c", "a"};
  EXPECT_EQ(sharers_of(own, 1), std::pair(0, 1));
  EXPECT_EQ(sharers_of(own, 3), std::pair(1, 2));
  EXPECT_EQ(place(gpus(1), sharers(own, 2)), std::vector<int>{0});
  EXPECT_EQ(sharers_of({"a b"}, 0), std::pair(0, 1));
  for (const int process : {0, 2})
    EXPECT_EQ(error_of(
                  [&] {
                    sharers(std::vector<std::string>{"a b", "c", "d b"}, process);
                  },
                  Exit::cannot_run),
              "cuda: processes 0 and 2 both see GPU b, and others that the other one does not; set "
              "CUDA_VISIBLE_DEVICES alike for all of a machine, or to GPUs of its own for each");
}

// A batch queue's variables do not decide where a single process runs.
TEST(Placement, DoesNotAskSlurm) {
  setenv("SLURM_NTASKS_PER_NODE", "8", 1);
  EXPECT_EQ(place(gpus(1), sharers(std::vector<std::string>{"a"}, 0)), std::vector<int>{0});
  unsetenv("SLURM_NTASKS_PER_NODE");
}

}  // namespace
}  // namespace boxcar::backends::cuda
