#include "backends/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "backends/cuda/kernel_table.h"
#include "backends/cuda/placement.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr std::chrono::milliseconds looking{20};  // a wait looks whether the run has failed
constexpr std::chrono::microseconds resting{20};  // ... and lets others run
constexpr const char* scratch_needs = "beside the plan's memory kernels need scratch memory of";
constexpr int64_t half_bytes = 4 << 20;  // of the buffer for copies with the host

void on(int gpu) { check(cudaSetDevice(gpu), "a device is chosen"); }

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Error::fault("cuda",
                     fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)));
}

void wait_for(const std::function<cudaError_t()>& ask, cpu::Waits& waits) {
  auto look = std::chrono::steady_clock::now() + looking;
  for (int64_t asked = 0;; ++asked) {
    const cudaError_t error = ask();
    if (error == cudaSuccess) return;
    if (error != cudaErrorNotReady) check(error, "acts of a queue");
    cudaGetLastError();  // clears that error
    if (asked < 100) continue;
    std::this_thread::sleep_for(resting);
    if (std::chrono::steady_clock::now() < look) continue;
    waits.check_with_others("its GPU");
    look = std::chrono::steady_clock::now() + looking;
  }
}

Events::~Events() {
  cudaSetDevice(gpu_);
  for (cudaEvent_t event : free_) cudaEventDestroy(event);
}

void Events::make(int64_t count) {
  const std::lock_guard lock(mutex_);
  for (; count > 0; --count) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event is made");
    free_.push_back(event);
  }
}

cudaEvent_t Events::take() {
  for (;; make(1)) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) continue;
    cudaEvent_t event = free_.back();
    free_.pop_back();
    return event;
  }
}

void Events::give(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

PinnedMemory::~PinnedMemory() {
  if (!data_) return;
  cudaSetDevice(gpu_);
  cudaFreeHost(data_);
}

PinnedMemory::PinnedMemory(int64_t bytes) {
  if (bytes == 0) return;
  check(cudaGetDevice(&gpu_), "a GPU is asked");
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error::cannot_run("cuda",
                            fmt::format("the host has no {} bytes for what GPUs copy from and to (free "
                                        "some of its memory, or use fewer devices here)",
                                        bytes));
  }
  check(error, "pinned memory of the host");
  std::memset(data, 0, static_cast<size_t>(bytes));
  data_ = static_cast<std::byte*>(data);
}

CudaMark::CudaMark(std::shared_ptr<Events> events, std::shared_ptr<const KernelFaults> faults,
                   cudaStream_t stream)
    : events_(std::move(events)), faults_(std::move(faults)), event_(events_->take()) {
  check(cudaEventRecord(event_, stream), "a mark is set");
}

bool CudaMark::passed() const {
  if (!has_passed(event_)) return false;
  faults_->check();
  return true;
}

// "Not ready" is kept as the thread's last error, where the next launch would find it.
bool has_passed(cudaEvent_t event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error != cudaErrorNotReady) return true;
  cudaGetLastError();
  return false;
}

CudaTimedMark::CudaTimedMark(cudaStream_t stream) {
  check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "an event is made");
  check(cudaEventRecord(event_, stream), "a mark is set");
}

double CudaTimedMark::seconds_since(const TimedMark& earlier) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaTimedMark&>(earlier).event_, event_),
        "time between marks");
  return 1e-3 * static_cast<double>(milliseconds);
}

CudaQueue::CudaQueue(int gpu, std::shared_ptr<Events> events, std::shared_ptr<KernelFaults> faults,
                     cpu::Waits& waits, std::function<void()> after_waiting, Recorder& recorder,
                     const void* device, bool first)
    : gpu_(gpu),
      events_(std::move(events)),
      faults_(std::move(faults)),
      waits_(waits),
      after_waiting_(std::move(after_waiting)),
      recorder_(recorder),
      device_(device) {
  use();
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities are asked for");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, first ? greatest : least),
        "a stream is made");
  recorder_.add(stream_, gpu_, device_);
}

CudaQueue::~CudaQueue() {
  recorder_.remove(stream_);
  cudaSetDevice(gpu_);
  cudaStreamDestroy(stream_);
  cudaFree(scratch_);
}

void CudaQueue::use() const { on(gpu_); }

void CudaQueue::copy(void* to, const void* from, const Block& block) {
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  if (block.rows * block.bytes == 0) return;
  const auto mine = turn();
  use();
  const bool dense = block.rows == 1 || (block.from_stride == block.bytes && block.to_stride == block.bytes);
  if (dense)
    check(cudaMemcpyAsync(to, from, size(block.rows * block.bytes), cudaMemcpyDefault, stream_), "a copy");
  else
    check(cudaMemcpy2DAsync(to, size(block.to_stride), from, size(block.from_stride), size(block.bytes),
                            size(block.rows), cudaMemcpyDefault, stream_),
          "a copy of rows");
}

void CudaQueue::fill_zero(void* to, int64_t bytes) {
  if (bytes == 0) return;
  const auto mine = turn();
  use();
  check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), stream_), "zeros are written");
}

void CudaQueue::finish() {
  use();
  wait_for([this] { return cudaStreamQuery(stream_); }, waits_);
  if (after_waiting_) after_waiting_();
}

void CudaQueue::finish_to(const Mark& mark) {
  use();
  const auto event = dynamic_cast<const CudaMark&>(mark).event();
  wait_for([event] { return cudaEventQuery(event); }, waits_);
  faults_->check();
}

void CudaQueue::expect_marks(int64_t marks) {
  use();
  events_->make(marks);
}

std::shared_ptr<CudaMark> CudaQueue::cuda_mark() {
  const auto mine = turn();
  use();
  return std::make_shared<CudaMark>(events_, faults_, stream_);
}
std::shared_ptr<const Mark> CudaQueue::mark() { return cuda_mark(); }
std::shared_ptr<const TimedMark> CudaQueue::timed_mark() {
  use();
  return std::make_shared<CudaTimedMark>(stream_);
}

void CudaQueue::wait(const Mark& mark) {
  const auto mine = turn();
  use();
  check(cudaStreamWaitEvent(stream_, dynamic_cast<const CudaMark&>(mark).event(), 0), "a mark is waited for");
}

void CudaQueue::need_scratch(int64_t bytes) {
  if (bytes <= scratch_bytes_) return;
  use();
  finish();
  check(cudaFree(scratch_), "scratch memory is freed");
  scratch_ = nullptr;
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "memory is counted");
  check_memory(gpu_, bytes, static_cast<int64_t>(free), static_cast<int64_t>(total), scratch_needs);
  const cudaError_t error = cudaMalloc(&scratch_, static_cast<size_t>(bytes));
  if (error == cudaErrorMemoryAllocation)
    cudaGetLastError(), no_piece(gpu_, bytes, static_cast<int64_t>(free));
  check(error, "scratch memory");
  scratch_bytes_ = bytes;
}

CudaDevice::CudaDevice(int gpu, cpu::Waits& waits, std::function<void()> after_waiting, Recorder& recorder,
                       std::shared_ptr<Algorithms> algorithms)
    : gpu_(gpu),
      waits_(waits),
      after_waiting_(std::move(after_waiting)),
      recorder_(recorder),
      events_(std::make_shared<Events>(gpu)),
      faults_(std::make_shared<KernelFaults>()),
      pinned_((on(gpu), 2 * half_bytes)),
      libraries_(waits, std::move(algorithms)) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream is made");
  for (size_t h = 0; h < 2; ++h)
    halves_[h] = {pinned_.data() + static_cast<int64_t>(h) * half_bytes, events_->take()};
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(gpu_);
  for (const Half& half : halves_) events_->give(half.free);
  cudaStreamDestroy(stream_);
  cudaFree(arena_);
}

DeviceFacts CudaDevice::facts() {
  on(gpu_);
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "memory is counted");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu_), "a GPU is asked");
  return {properties.name, static_cast<int64_t>(total), static_cast<int64_t>(free),
          properties.multiProcessorCount};
}

void CudaDevice::reserve(int64_t bytes) {
  if (arena_) throw Error::fault("cuda", "memory is reserved once, and has been");
  on(gpu_);
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "memory is counted");
  check_memory(gpu_, bytes, static_cast<int64_t>(free), static_cast<int64_t>(total));
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation)
    cudaGetLastError(), no_piece(gpu_, bytes, static_cast<int64_t>(free));
  check(error, "memory for a plan");
  arena_ = static_cast<std::byte*>(memory);
  check(cudaMemsetAsync(arena_, 0, size, stream_), "zeros are written");
  check(cudaStreamSynchronize(stream_), "zeros are written");
}

std::unique_ptr<Queue> CudaDevice::queue(ir::QueueKind kind) {
  return std::make_unique<CudaQueue>(gpu_, events_, faults_, waits_, after_waiting_, recorder_, this,
                                     kind == ir::QueueKind::network);
}

std::unique_ptr<Kernel> CudaDevice::prepare(const Call& call, Queue& queue) {
  auto& stream = dynamic_cast<CudaQueue&>(queue);
  stream.use();
  return make_kernel(call, stream, libraries_);
}

std::shared_ptr<std::byte> CudaDevice::host_memory(int64_t bytes) {
  on(gpu_);
  const auto memory = std::make_shared<const PinnedMemory>(bytes);
  return {memory, memory->data()};
}

// Part by part: the GPU copies one while the host copies another.
void CudaDevice::to_host(void* to, const void* from, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  on(gpu_);
  const int64_t parts = (bytes + half_bytes - 1) / half_bytes;
  const auto size = [bytes](int64_t part) {
    return static_cast<size_t>(std::min(half_bytes, bytes - part * half_bytes));
  };
  for (int64_t part = 0; part <= parts; ++part) {
    if (part < parts) {
      check(cudaMemcpyAsync(half(part).data, static_cast<const std::byte*>(from) + part * half_bytes,
                            size(part), cudaMemcpyDefault, stream_),
            "a copy to the host");
      check(cudaEventRecord(half(part).free, stream_), "a mark is set");
    }
    if (part == 0) continue;
    check(cudaEventSynchronize(half(part - 1).free), "a copy to the host");
    std::memcpy(static_cast<std::byte*>(to) + (part - 1) * half_bytes, half(part - 1).data, size(part - 1));
  }
}
void CudaDevice::from_host(void* to, const void* from, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  on(gpu_);
  for (int64_t at = 0; at < bytes; at += half_bytes) {
    const auto size = static_cast<size_t>(std::min(half_bytes, bytes - at));
    const Half& part = half(at / half_bytes);
    check(cudaEventSynchronize(part.free), "a copy from the host");
    std::memcpy(part.data, static_cast<const std::byte*>(from) + at, size);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, part.data, size, cudaMemcpyDefault, stream_),
          "a copy from the host");
    check(cudaEventRecord(part.free, stream_), "a mark is set");
  }
  check(cudaStreamSynchronize(stream_), "a copy from the host");
}

}  // namespace boxcar::backends::cuda
