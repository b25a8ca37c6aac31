#include "backends/cpu/cpu_device.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "backends/cpu/kernels.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

constexpr int64_t kAlignment = 512;

// memcpy of nothing from a null pointer is undefined.
void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Bytes that the system can give without swapping; no limit if it does not say.
int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

void CpuQueue::copy(void* to, const void* from, const Block& block) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  if (block.from_stride == block.bytes && block.to_stride == block.bytes) {
    return copy_bytes(out, in, block.rows * block.bytes);
  }
  for (int64_t row = 0; row < block.rows; ++row) {
    copy_bytes(out + row * block.to_stride, in + row * block.from_stride, block.bytes);
  }
}

void CpuQueue::fill_zero(void* to, int64_t bytes) {
  if (bytes > 0) std::memset(to, 0, static_cast<size_t>(bytes));
}

void CpuDevice::Free::operator()(std::byte* memory) const { std::free(memory); }

// Checks free memory first: an overcommitted allocation succeeds, and its use then fails.
void CpuDevice::reserve(int64_t bytes) {
  if (arena_) throw Error::fault("cpu", "memory is reserved once, and has been");
  if (bytes <= available_bytes()) {
    const int64_t size = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    arena_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(size))));
    if (arena_) std::memset(arena_.get(), 0, static_cast<size_t>(size));
  }
  if (!arena_) {
    throw Error::cannot_run("cpu", fmt::format("no memory for a device's {} bytes; use fewer devices on this "
                                               "machine, smaller micro-batches or recomputation",
                                               bytes));
  }
}

std::unique_ptr<Queue> CpuDevice::queue(ir::QueueKind) { return std::make_unique<CpuQueue>(); }

std::unique_ptr<Kernel> CpuDevice::prepare(const Call& call, Queue&) {
  const auto found = fast_kernels().find(call.op);
  std::unique_ptr<Kernel> fast = found == fast_kernels().end() ? nullptr : found->second(call);
  return fast ? std::move(fast) : make_reference_kernel(call);
}

void CpuDevice::to_host(void* to, const void* from, int64_t bytes) { copy_bytes(to, from, bytes); }
void CpuDevice::from_host(void* to, const void* from, int64_t bytes) { copy_bytes(to, from, bytes); }

}  // namespace boxcar::backends::cpu
