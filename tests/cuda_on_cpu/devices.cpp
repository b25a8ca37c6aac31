// CUDA's runtime over the host's memory: its GPUs and their contexts. One GPU, or the number in the
// environment variable CUDA_ON_CPU_GPUS.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "runtime.h"

namespace cuda_on_cpu {
namespace {

int number(const char* name, int otherwise) {
  const char* const wanted = std::getenv(name);
  return wanted ? std::atoi(wanted) : otherwise;
}
bool loads_lazily() {
  const char* const wanted = std::getenv("CUDA_MODULE_LOADING");
  return !wanted || std::strcmp(wanted, "EAGER") != 0;
}

struct Context {
  std::set<std::string> loaded;
  bool loading = false;
};
std::map<int, Context> contexts;  // by GPU
thread_local cudaError_t last = cudaSuccess;

}  // namespace

thread_local int current = 0;
thread_local bool chosen = false;

State::State()
    : machine{.gpus = number("CUDA_ON_CPU_GPUS", 1),
              .driver = CUDART_VERSION,
              .lazy = loads_lazily(),
              .branches = number("CUDA_ON_CPU_BRANCHES", 1 << 30),
              .seed = number("CUDA_ON_CPU_SEED", -1)} {}
State& state() {
  static State state;
  return state;
}

cudaError_t failed(cudaError_t error) { return last = error; }

Called::Called() : lock_(state().mutex) {
  if (!chosen) ++state().tallies["calls without a GPU"];
  while (contexts[current].loading) pause();
  if (state().machine.seed >= 0) run_some();
}
void Called::load(const std::string& kernel) {
  Context& context = contexts[current];
  if (!state().machine.lazy || kernel.empty() || !context.loaded.insert(kernel).second) return;
  context.loading = true;
  ++state().tallies["loads"];
  for (bool all = false; !all;) {
    all = true;
    for (const auto& [stream, gpu] : state().streams)
      all &= gpu != current || run(*stream->work, stream->work->launched);
    if (!all) pause();
  }
  context.loading = false;
}
void Called::pause() {
  lock_.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  lock_.lock();
}

void tally(const std::string& what) { ++state().tallies[what]; }
int tallied(const std::string& what) {
  const std::lock_guard lock(state().mutex);
  return state().tallies[what];
}

// A process that begins has loaded nothing.
void pretend(const Machine& other) {
  state().machine = other;
  contexts.clear();
  if (other.seed >= 0) state().drawn.seed(static_cast<uint64_t>(other.seed));
}
Machine pretended() { return state().machine; }
void touch() { const Called called; }

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge:
      return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
  }
  return "unknown";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = state().machine.driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = state().machine.gpus;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  if (gpu < 0 || gpu >= state().machine.gpus) return failed(cudaErrorInvalidDevice);
  const auto i = static_cast<size_t>(gpu);
  std::strcpy(properties->name, i < state().machine.names.size() ? state().machine.names[i].c_str()
                                                                 : "the host in a GPU's place");
  properties->uuid.bytes[15] = static_cast<char>(gpu);
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= state().machine.gpus) return failed(cudaErrorInvalidDevice);
  current = gpu;
  chosen = true;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* gpu) {
  *gpu = current;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int gpu, int other) {
  *can = gpu != other;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned) {
  const std::lock_guard lock(state().mutex);
  static std::set<std::pair<int, int>> enabled;
  if (other < 0 || other >= state().machine.gpus || other == current) return failed(cudaErrorInvalidDevice);
  return enabled.emplace(current, other).second ? cudaSuccess : failed(cudaErrorPeerAccessAlreadyEnabled);
}
}
