// CUDA's runtime over the host's memory: memory of GPUs, pinned memory, and copies. The first MiB of new
// memory is bytes 0xff, which are NaNs as floats.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t pinned_of_host = size_t{1} << 30, poisoned = size_t{1} << 20;

struct Memory {
  int gpu;
  size_t bytes;
};
std::map<void*, Memory> memory;
std::map<void*, size_t> pinned;

// Copies from or to pageable memory of the host wait for the host, or make it wait.
void tally_copy(const void* to, const void* from) {
  const std::lock_guard lock(state().mutex);
  for (const void* end : {to, from}) {
    const auto within = [end](const void* begin, size_t bytes) {
      return begin <= end && end < static_cast<const char*>(begin) + bytes;
    };
    const bool known =
        std::any_of(memory.begin(), memory.end(),
                    [&](const auto& m) { return within(m.first, m.second.bytes); }) ||
        std::any_of(pinned.begin(), pinned.end(), [&](const auto& p) { return within(p.first, p.second); });
    if (!known) ++state().tallies["copies of pageable memory"];
  }
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaMalloc(void** result, size_t bytes) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  *result = nullptr;
  {
    const Called called;
    if (captures()) return failed(cudaErrorStreamCaptureUnsupported);
  }
  if (bytes > free) return failed(cudaErrorMemoryAllocation);
  void* const got = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!got) return failed(cudaErrorMemoryAllocation);
  std::memset(got, 0xff, std::min(bytes, poisoned));
  const std::lock_guard lock(state().mutex);
  memory[got] = {current, bytes};
  ++state().tallies["memory"];
  *result = got;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** result, size_t bytes, unsigned) {
  const Called called;
  *result = nullptr;
  if (captures()) return failed(cudaErrorStreamCaptureUnsupported);
  if (bytes > pinned_of_host) return failed(cudaErrorMemoryAllocation);
  *result = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(*result, 0xff, std::min(bytes, poisoned));
  pinned[*result] = bytes;
  ++state().tallies["pinned memory"];
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* address) {
  if (!address) return cudaSuccess;
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (pinned.erase(address) == 0) return failed(cudaErrorInvalidValue);
  run_all(lock);
  std::free(address);
  return cudaSuccess;
}
// Waits for the GPU, as CUDA does.
cudaError_t cudaFree(void* address) {
  if (!address) return cudaSuccess;
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (captures()) return failed(cudaErrorStreamCaptureUnsupported);
  if (memory.erase(address) == 0) return failed(cudaErrorInvalidValue);
  run_all(lock);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Called called;
  *total = *free = state().machine.memory;
  for (const auto& [address, m] : memory)
    if (m.gpu == current) *free -= std::min(*free, m.bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (const auto& watch = state().machine.watch) watch({.bytes = bytes});
  return put(stream, [=] { std::memset(to, value, bytes); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  tally_copy(to, from);
  return put(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return failed(cudaErrorInvalidValue);
  tally_copy(to, from);
  return put(stream, [=] {
    for (size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                  width);
  });
}
}
