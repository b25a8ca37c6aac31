// The stand-in for CUDA is as strict as it says: without, the tests over it would show less.
#include <gtest/gtest.h>

#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

namespace {

class StandIn : public testing::Test {
 protected:
  StandIn() {
    cudaSetDevice(0);
    for (cudaStream_t& stream : streams_) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
    cudaMalloc(&memory_, 64 * sizeof(int));
  }
  ~StandIn() override {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    cudaEventDestroy(event_);
    cudaFree(memory_);
  }
  // On the first stream: one block.
  template <class... Arguments>
  cudaError_t launch(void (*kernel)(Arguments...), unsigned threads, Arguments... arguments) {
    cudaLaunchConfig_t config;
    config.blockDim = dim3(threads);
    config.stream = streams_[0];
    return cudaLaunchKernelEx(&config, kernel, arguments...);
  }

  cudaStream_t streams_[2] = {};
  cudaEvent_t event_ = nullptr;
  int* memory_ = nullptr;
};

void numbers(int* out) { out[threadIdx.x] = static_cast<int>(threadIdx.x); }
void late(int* out) {
  for (int i = 0; i < 3; ++i) __syncthreads();
  out[threadIdx.x] = 7;
}
// Thread t reads what thread 63 - t wrote.
void reversed(int* out, bool waits) {
  __shared__ int shared[64];
  shared[threadIdx.x] = -1;
  __syncthreads();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (waits) __syncthreads();
  out[threadIdx.x] = shared[63 - threadIdx.x];
  __syncthreads();
}
void half_of_a_block() {
  if (threadIdx.x < 32) __shfl_xor_sync(0xffffffffu, 1, 1);
  if (threadIdx.x % 2 == 0) __shfl_xor_sync(0xffffffffu, 1, 1);
}
void last_of_shuffles(int* out) {
  int sum = static_cast<int>(threadIdx.x);
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  out[threadIdx.x] = sum + 1000 * __popc(__ballot_sync(0xffffffffu, threadIdx.x < 40));
}

TEST_F(StandIn, WhatNobodyWaitsForHasNotRun) {
  ASSERT_EQ(launch(numbers, 64, memory_), cudaSuccess);
  int third = 0;
  cudaMemcpyAsync(&third, memory_ + 3, sizeof third, cudaMemcpyDefault, streams_[1]);
  cudaStreamSynchronize(streams_[1]);
  EXPECT_EQ(third, -1);
  cudaEventRecord(event_, streams_[0]);
  cudaStreamWaitEvent(streams_[1], event_, 0);
  cudaMemcpyAsync(&third, memory_ + 3, sizeof third, cudaMemcpyDefault, streams_[1]);
  EXPECT_EQ(cudaStreamQuery(streams_[1]), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(streams_[1]), cudaSuccess);
  EXPECT_EQ(third, 3);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(StandIn, AMissingBarrierIsSeen) {
  for (const bool waits : {true, false}) {
    int wrong = 0;
    for (int run = 0; run < 2; ++run) {
      ASSERT_EQ(launch(reversed, 64, memory_, waits), cudaSuccess);
      cudaStreamSynchronize(streams_[0]);
      for (int t = 0; t < 64; ++t) wrong += memory_[t] != 63 - t;
    }
    EXPECT_EQ(wrong == 0, waits);
  }
}

TEST_F(StandIn, ThreadsMeetAtBarriersAndInWarps) {
  launch(late, 64, memory_);
  cudaStreamSynchronize(streams_[0]);
  EXPECT_EQ(std::vector<int>(memory_, memory_ + 64), std::vector<int>(64, 7));
  launch(last_of_shuffles, 64, memory_);
  cudaStreamSynchronize(streams_[0]);
  EXPECT_EQ(memory_[31], 31 * 32 / 2 + 32'000);
  EXPECT_EQ(memory_[32], 31 * 32 / 2 + 32 * 32 + 8'000);
}

TEST_F(StandIn, LaunchesThatCannotBeAreRefused) {
  EXPECT_EQ(launch(numbers, 0, memory_), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(numbers, 1056, memory_), cudaErrorInvalidConfiguration);
  cudaStreamDestroy(streams_[0]);
  EXPECT_EQ(launch(numbers, 64, memory_), cudaErrorInvalidResourceHandle);
  cudaStreamCreateWithFlags(&streams_[0], cudaStreamNonBlocking);
  cudaGetLastError();
}

using StandInDeathTest = StandIn;
TEST_F(StandInDeathTest, LanesThatNeverMeet) {
  EXPECT_DEATH(
      {
        launch(half_of_a_block, 64);
        cudaStreamSynchronize(streams_[0]);
      },
      "threads of the block wait for each other");
}

TEST(StandInFloats, RoundToNearestEven) {
  EXPECT_EQ(__float2half_rn(1.0F).bits, 0x3c00);
  EXPECT_EQ(__float2half_rn(1.0F + 0x1p-11F).bits, 0x3c00);
  EXPECT_EQ(__float2half_rn(1.0F + 0x1.8p-10F).bits, 0x3c02);
  EXPECT_EQ(__float2half_rn(65520).bits, 0x7c00);
  EXPECT_EQ(__float2half_rn(0x1p-25F).bits, 0);
  EXPECT_EQ(__float2half_rn(-0x1.8p-24F).bits, 0x8002);
  EXPECT_EQ(__double2bfloat16(1 + 0x1p-8).bits, 0x3f80);
  EXPECT_EQ(__double2bfloat16(1 + 0x1p-8 + 0x1p-30).bits, 0x3f81);  // once, not twice
  for (int bits = 0; bits < 0x7c00; ++bits) {
    __half half;
    half.bits = static_cast<uint16_t>(bits);
    ASSERT_EQ(__float2half_rn(__half2float(half)).bits, bits);
  }
}

}  // namespace
