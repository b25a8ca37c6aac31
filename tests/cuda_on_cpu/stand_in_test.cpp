// The stand-in for CUDA is as strict as documented; otherwise the tests over it would prove less.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "tally.h"

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

TEST_F(StandIn, WorkThatNobodyWaitsForHasNotRun) {
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

// --- rules that bite where an act waits for another

using cuda_on_cpu::Kept;
void unloaded(int* out) { out[threadIdx.x] = 1; }

// Its first launch, and meanwhile any other call on the GPU.
TEST_F(StandIn, AFirstLaunchWaitsUntilTheGpuIsIdle) {
  const cuda_on_cpu::Pretending back;
  for (const bool lazy : {true, false}) {
    cuda_on_cpu::pretend({.driver = 13000, .lazy = lazy});
    std::atomic<bool> ends = false, launched = false, asked = false;
    cuda_on_cpu::put_until(streams_[1], [&](Kept&) { return ends.load(); });
    std::thread launches([&] {
      cudaSetDevice(0);
      launch(unloaded, 64, memory_);
      launched = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::thread asks([&] {
      cudaSetDevice(0);
      cudaEventQuery(event_);
      asked = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(launched, !lazy);
    EXPECT_EQ(asked, !lazy);
    ends = true;
    launches.join();
    asks.join();
    cudaStreamSynchronize(streams_[0]);
    cudaStreamSynchronize(streams_[1]);
  }
}

// A library waits for all of them, a kernel for one.
TEST_F(StandIn, AnActWaitsForMultiprocessors) {
  const cuda_on_cpu::Pretending back;
  cuda_on_cpu::pretend({.driver = 13000, .lazy = false, .multiprocessors = 4});
  bool ends = false, begun = false;
  for (const bool kernel : {false, true}) {
    ends = begun = false;
    cuda_on_cpu::put_until(
        streams_[0], [&](Kept&) { return ends; }, kernel ? 4 : 3);
    EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorNotReady);
    if (kernel)
      cuda_on_cpu::put(
          streams_[1], [&] { begun = true; }, "a kernel");
    else
      cuda_on_cpu::put_until(
          streams_[1], [&](Kept&) { return begun = true; }, 2);
    for (int asked = 0; asked < 3; ++asked) EXPECT_EQ(cudaStreamQuery(streams_[1]), cudaErrorNotReady);
    EXPECT_FALSE(begun);
    ends = true;
    for (cudaStream_t stream : streams_) cudaStreamSynchronize(stream);
    EXPECT_TRUE(begun);
  }
  cudaGetLastError();
}

// Any call lets streams run, and which comes first depends on the seed.
TEST_F(StandIn, DrawsWhatRunsNext) {
  std::set<std::string> orders;
  for (int seed = 0; seed < 8; ++seed) {
    std::string order;
    cuda_on_cpu::put(streams_[0], [&] { order += "a"; });
    cuda_on_cpu::put(streams_[1], [&] { order += "b"; });
    {
      const cuda_on_cpu::Pretending back;
      cuda_on_cpu::pretend({.driver = 13000, .seed = seed});
      cudaEventQuery(event_);
    }
    for (cudaStream_t stream : streams_) cudaStreamSynchronize(stream);
    orders.insert(order);
  }
  EXPECT_EQ(orders, (std::set<std::string>{"ab", "ba"}));
}

// Two streams under capture: numbers on the first, then late on the second, which joins and is joined back.
class StandInGraph : public StandIn {
 protected:
  StandInGraph() { cudaEventCreateWithFlags(&joins_, cudaEventDisableTiming); }
  ~StandInGraph() override {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(streams_[0], &graph);
    cudaGraphDestroy(graph);
    cudaEventDestroy(joins_);
    cudaGetLastError();
  }
  cudaError_t begin() { return cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeRelaxed); }
  cudaError_t hold_back(int stream, int behind, cudaEvent_t event) {
    cudaEventRecord(event, streams_[behind]);
    return cudaStreamWaitEvent(streams_[stream], event, 0);
  }

  cudaEvent_t joins_ = nullptr;
};

TEST_F(StandInGraph, RunsWhenItIsLaunchedAndAgain) {
  ASSERT_EQ(begin(), cudaSuccess);
  launch(numbers, 64, memory_);
  ASSERT_EQ(hold_back(1, 0, event_), cudaSuccess);
  int third = 0;
  cudaMemcpyAsync(&third, memory_ + 3, sizeof third, cudaMemcpyDefault, streams_[1]);
  ASSERT_EQ(hold_back(0, 1, joins_), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(memory_[3], -1);
  for (int run = 0; run < 2; ++run) {
    third = memory_[3] = -1;
    ASSERT_EQ(cudaGraphLaunch(exec, streams_[1]), cudaSuccess);
    EXPECT_EQ(memory_[3], -1);
    cudaStreamSynchronize(streams_[1]);
    EXPECT_EQ(third, 3);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(StandInGraph, AMissingEdgeIsSeen) {
  ASSERT_EQ(begin(), cudaSuccess);
  hold_back(1, 0, event_);  // before what it should wait for
  launch(numbers, 64, memory_);
  int third = 0;
  cudaMemcpyAsync(&third, memory_ + 3, sizeof third, cudaMemcpyDefault, streams_[1]);
  hold_back(0, 1, joins_);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  cudaGraphLaunch(exec, streams_[0]);
  cudaStreamSynchronize(streams_[0]);
  EXPECT_EQ(third, -1);
  cudaGraphExecDestroy(exec);
}

// The second stream's act ends the first's.
TEST_F(StandInGraph, HasAsManyBranchesUnderWayAsTheMachine) {
  const cuda_on_cpu::Pretending back;
  for (const int branches : {2, 1}) {
    cuda_on_cpu::pretend({.driver = 13000, .branches = branches});
    std::atomic<bool> ends = false;
    ASSERT_EQ(begin(), cudaSuccess);
    hold_back(1, 0, event_);
    cuda_on_cpu::put_until(streams_[0], [&](Kept&) { return ends.load(); });
    cuda_on_cpu::put(streams_[1], [&] { ends = true; });
    hold_back(0, 1, joins_);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    std::vector<bool> ended;
    for (int launched = 0; launched < 2; ++launched) {  // the newest act first, then the oldest
      ends = false;
      cudaGraphLaunch(exec, streams_[0]);
      for (int asked = 0; asked < 5; ++asked) cudaStreamQuery(streams_[0]);
      ended.push_back(cudaStreamQuery(streams_[0]) == cudaSuccess);
      ends = true;
      cudaStreamSynchronize(streams_[0]);
    }
    EXPECT_EQ(ended, (std::vector<bool>{true, branches > 1}));
    cudaGraphExecDestroy(exec);
  }
  cudaGetLastError();
}

TEST_F(StandInGraph, DrawsWhichBranchIsNext) {
  const cuda_on_cpu::Pretending back;
  std::set<std::string> orders;
  for (int seed = 0; seed < 8; ++seed) {
    cuda_on_cpu::pretend({.driver = 13000, .seed = seed});
    std::string order;
    ASSERT_EQ(begin(), cudaSuccess);
    hold_back(1, 0, event_);
    for (const char* act : {"a", "c"}) cuda_on_cpu::put(streams_[0], [&order, act] { order += act; });
    cuda_on_cpu::put(streams_[1], [&] { order += "b"; });
    hold_back(0, 1, joins_);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    cudaGraphLaunch(exec, streams_[0]);
    cudaStreamSynchronize(streams_[0]);
    cudaGraphExecDestroy(exec);
    orders.insert(order);
  }
  EXPECT_EQ(orders, (std::set<std::string>{"acb", "abc", "bac"}));
}

TEST_F(StandInGraph, RefusesWhatCudaRefuses) {
  cudaGraph_t graph = nullptr;
  launch(numbers, 64, memory_);
  cudaEventRecord(event_, streams_[0]);
  cudaStreamSynchronize(streams_[0]);
  ASSERT_EQ(begin(), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(streams_[0], event_, 0), cudaErrorStreamCaptureIsolation);  // from outside
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(streams_[0]), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(), cudaSuccess);
  int* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 4), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaFree(memory_), cudaErrorStreamCaptureUnsupported);
  cudaEventRecord(event_, streams_[0]);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorCapturedEvent);
  ASSERT_EQ(cudaStreamWaitEvent(streams_[1], event_, 0), cudaSuccess);
  cudaMemcpyAsync(memory_, memory_ + 1, 4, cudaMemcpyDefault, streams_[1]);
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaStreamWaitEvent(streams_[1], event_, 0),
            cudaErrorCapturedEvent);  // of a capture that is over
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
