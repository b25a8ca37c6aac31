// A GPU, or a share of one: an arena of its own, and a stream for each queue.
//
//   CudaDevice device(0, waits);
//   device.reserve(1 << 30);
//   auto queue = device.queue(ir::QueueKind::compute);
//
// Acts are launched; finish() waits, and throws if the run has failed. Acts of a queue follow each other, so
// its kernels share one block of scratch memory, as large as the largest needs.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cpu/waits.h"
#include "backends/cuda/cuda_recorder.h"
#include "backends/cuda/kernel_faults.h"
#include "backends/cuda/kernel_table.h"
#include "backends/device.h"
#include "sbp/at.h"

namespace boxcar::backends::cuda {

// Throws Error (fault) naming `what` was done and CUDA's error.
void check(cudaError_t error, const char* what);

// Polls `ask` until it succeeds, so that the wait can end even if a collective on the stream never does.
void wait_for(const std::function<cudaError_t()>& ask, cpu::Waits& waits);

// A pool that reuses events that nobody waits for any more.
class Events {
 public:
  explicit Events(int gpu) : gpu_(gpu) {}
  ~Events();
  // Makes this many more in advance, so that take() need not.
  void make(int64_t count);
  cudaEvent_t take();
  void give(cudaEvent_t event);

 private:
  const int gpu_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

// Zeroed, pinned memory of the host, which GPUs copy from and to by themselves.
class PinnedMemory {
 public:
  // By a thread that has chosen a GPU. Throws Error (cannot run) if the host has no more such memory.
  explicit PinnedMemory(int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  int gpu_ = 0;
};

// Whether all work before the event is done.
bool has_passed(cudaEvent_t event);

class CudaMark : public Mark {
 public:
  CudaMark(std::shared_ptr<Events> events, std::shared_ptr<const KernelFaults> faults, cudaStream_t stream);
  ~CudaMark() override { events_->give(event_); }
  CudaMark(const CudaMark&) = delete;
  CudaMark& operator=(const CudaMark&) = delete;
  cudaEvent_t event() const { return event_; }
  // Throws Error (fault) if a kernel has found a fault in its operands.
  bool passed() const override;

 private:
  const std::shared_ptr<Events> events_;
  const std::shared_ptr<const KernelFaults> faults_;
  cudaEvent_t event_;
};

class CudaTimedMark : public TimedMark {
 public:
  explicit CudaTimedMark(cudaStream_t stream);
  ~CudaTimedMark() override { cudaEventDestroy(event_); }
  CudaTimedMark(const CudaTimedMark&) = delete;
  CudaTimedMark& operator=(const CudaTimedMark&) = delete;
  bool passed() const override { return has_passed(event_); }
  double seconds_since(const TimedMark& earlier) const override;

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaQueue : public Queue {
 public:
  // `device`: when acts are recorded, queues with the same one share step values. `first`: its blocks get a
  // multiprocessor before those of other queues.
  CudaQueue(int gpu, std::shared_ptr<Events> events, std::shared_ptr<KernelFaults> faults, cpu::Waits& waits,
            std::function<void()> after_waiting, Recorder& recorder, const void* device, bool first);
  ~CudaQueue() override;
  void copy(void* to, const void* from, const Block& block) override;
  void fill_zero(void* to, int64_t bytes) override;
  void finish() override;
  void finish_to(const Mark& mark) override;
  void expect_marks(int64_t marks) override;
  std::shared_ptr<const Mark> mark() override;
  std::shared_ptr<const TimedMark> timed_mark() override;
  void wait(const Mark& mark) override;

  // Makes its GPU the calling thread's from here on.
  void use() const;
  cudaStream_t stream() const { return stream_; }
  std::shared_ptr<CudaMark> cuda_mark();
  // Reserves this many bytes at scratch(), before anything runs.
  void need_scratch(int64_t bytes);
  void* scratch() const { return scratch_; }
  // Acts are recorded on one queue at a time: code that uses the stream itself holds the turn.
  std::unique_lock<std::mutex> turn() const { return recorder_.turn(); }
  bool records() const { return recorder_.on(); }
  void follow() { recorder_.follow(stream_); }
  void note(std::string act) { recorder_.note(stream_, std::move(act)); }
  std::string act_in_flight(const std::string& end) const { return recorder_.act_in_flight(end); }
  StepValues* steps() const { return recorder_.steps(device_); }
  int gpu() const { return gpu_; }
  KernelFaults& faults() { return *faults_; }

 private:
  const int gpu_;
  const std::shared_ptr<Events> events_;
  const std::shared_ptr<KernelFaults> faults_;
  cpu::Waits& waits_;
  const std::function<void()> after_waiting_;
  Recorder& recorder_;
  const void* const device_;
  cudaStream_t stream_ = nullptr;
  void* scratch_ = nullptr;
  int64_t scratch_bytes_ = 0;
};

class CudaDevice : public Device {
 public:
  // `after_waiting` is called when a queue has waited for its stream, and looks for failures there. With
  // `algorithms`, kernels are the fastest (Libraries).
  CudaDevice(int gpu, cpu::Waits& waits, std::function<void()> after_waiting, Recorder& recorder,
             std::shared_ptr<Algorithms> algorithms = nullptr);
  ~CudaDevice() override;
  DeviceFacts facts() override;
  void reserve(int64_t bytes) override;
  std::byte* arena() override { return arena_; }
  std::unique_ptr<Queue> queue(ir::QueueKind kind) override;
  std::shared_ptr<std::byte> host_memory(int64_t bytes) override;
  std::unique_ptr<Kernel> prepare(const Call& call, Queue& queue) override;
  void to_host(void* to, const void* from, int64_t bytes) override;
  void from_host(void* to, const void* from, int64_t bytes) override;
  int gpu() const { return gpu_; }
  const std::set<Made>& made() const { return libraries_.made(); }
  const KernelFaults& faults() const { return *faults_; }

 private:
  // Half of the pinned memory; copies from and to other host memory go through both in turn.
  struct Half {
    std::byte* data = nullptr;
    cudaEvent_t free = nullptr;  // passes when the copy from or to it is done
  };
  Half& half(int64_t part) { return at(halves_, part % 2); }

  const int gpu_;
  cpu::Waits& waits_;
  const std::function<void()> after_waiting_;
  Recorder& recorder_;
  const std::shared_ptr<Events> events_;
  const std::shared_ptr<KernelFaults> faults_;
  std::byte* arena_ = nullptr;
  std::mutex mutex_;  // of the stream of copies
  cudaStream_t stream_ = nullptr;
  const PinnedMemory pinned_;
  std::array<Half, 2> halves_;
  Libraries libraries_;
};

}  // namespace boxcar::backends::cuda
