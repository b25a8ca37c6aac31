// A device that is a part of this process's memory. An act runs on the thread that puts it on the queue.
//
//   CpuDevice device;
//   device.reserve(1 << 20);
//   auto queue = device.queue(ir::QueueKind::compute);
//   device.prepare({"matmul", {f32[2, 3], f32[3, 4]}, {f32[2, 4]}, attrs}, *queue)->run(inputs, outputs, {});
//
// Acts are done when the call returns, so finish() does not wait. Different queues and their kernels may be
// used from different threads; reserve() comes first.
#pragma once

#include "backends/device.h"

namespace boxcar::backends::cpu {

class CpuQueue : public Queue {
 public:
  void copy(void* to, const void* from, const Block& block) override;
  void fill_zero(void* to, int64_t bytes) override;
  void finish() override {}
};

class CpuDevice : public Device {
 public:
  void reserve(int64_t bytes) override;
  std::byte* arena() override { return arena_.get(); }
  std::unique_ptr<Queue> queue(ir::QueueKind kind) override;
  bool computes_on_host() const override { return true; }
  std::unique_ptr<Kernel> prepare(const Call& call, Queue& queue) override;
  void to_host(void* to, const void* from, int64_t bytes) override;
  void from_host(void* to, const void* from, int64_t bytes) override;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> arena_;
};

}  // namespace boxcar::backends::cpu
