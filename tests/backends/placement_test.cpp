// What is said where devices cannot be GPUs: whole messages, without a GPU.
#include "backends/cuda/placement.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

TEST(Placement, deals_gpus_in_order) {
  EXPECT_EQ(place(gpus(4), {.devices = 2}), (std::vector<int>{0, 1}));
  EXPECT_EQ(place(gpus(8), {.devices = 1, .processes = 8, .process = 5}), std::vector<int>{5});
  EXPECT_EQ(place(gpus(8), {.devices = 2, .processes = 3, .process = 2}), (std::vector<int>{5, 6}));
}

TEST(Placement, shares_gpus_where_it_may) {
  EXPECT_EQ(place(gpus(1), {.devices = 4, .share = true}), std::vector<int>(4, 0));
  EXPECT_EQ(place(gpus(2), {.devices = 5, .share = true}), (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(place(gpus(4), {.devices = 2, .share = true}), (std::vector<int>{0, 1}));
}

TEST(Placement, says_what_is_missing) {
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
            "cuda: 3 processes on this machine for 2 GPUs; start one for each GPU");
}

TEST(Placement, refuses_a_plan_that_does_not_fit) {
  check_memory(0, 100, 100, 200);
  EXPECT_EQ(
      error_of([] { check_memory(3, int64_t{150} << 30, int64_t{139} << 30, int64_t{140} << 30); },
               Exit::cannot_run),
      "cuda: GPU 3: the plan needs 150.00 GiB, 139.00 of 140.00 GiB are free; use smaller micro-batches, "
      "recomputation, sharding or more devices");
}

TEST(Placement, reads_what_mpirun_says) {
  setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "3", 1);
  const Wanted wanted = processes_here(2);
  EXPECT_EQ(wanted.devices, 2);
  EXPECT_EQ(wanted.processes, 4);
  EXPECT_EQ(wanted.process, 3);
  unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
  EXPECT_EQ(processes_here(1).processes, 1);
}

}  // namespace
}  // namespace boxcar::backends::cuda
