// A backend as the runtime sees it: devices with memory and queues, and kernels prepared for them. The
// runtime (actors/) knows a backend only through this file, backend.h and communicator.h. Every backend
// passes tests/backends/conformance.
//
//   Device& d = backend.device(0);
//   d.reserve(plan.arena_bytes);
//   auto queue = d.queue(ir::QueueKind::compute);
//   auto kernel = d.prepare({"matmul", {f32[2, 3], f32[3, 4]}, {f32[2, 4]}, attrs}, *queue);
//   kernel->run(inputs, outputs, {.step = 0, .micro_batch = 1});
//   queue->finish();
//
// Addresses are void*, in memory of the queue's device. Calls on one queue come from one thread; different
// queues may be used from different threads. Errors are boxcar::Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ir/plan.h"
#include "ir/types.h"
#include "sbp/at.h"

namespace boxcar::backends {

// Moment of an act: values not known while compiling.
struct Moment {
  int64_t step = 0;         // optimizer steps since the model's first, from 0
  int64_t micro_batch = 0;  // in this step
  int64_t micro_batches = 1;
  int64_t seed = 0;
  double learning_rate = -1;  // of this step; negative: as the op's attribute says
};

// One op on local tensors with everything but addresses and moment. `attrs` are complete and of this rank.
struct Call {
  std::string op;
  ir::Types inputs, outputs;
  ir::Attrs attrs;
};

// How kernels of an op are carried out, e.g. "cuDNN". `why`: what keeps the backend from a faster way that it
// has, and how to change that; empty if it uses the fastest.
struct Made {
  std::string op, how, why;
  auto operator<=>(const Made&) const = default;
};

// A call made ready for one queue. Inputs and outputs do not overlap, with two exceptions: an update op's
// output may be its input of the same name, element for element, and add's output its first input of its
// type.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Puts the act on its queue; it is done when the queue is. Operands in the op's order, null if empty.
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs,
                   const Moment& moment) = 0;
};

// `rows` pieces of `bytes` each, `from_stride` and `to_stride` bytes apart: packs and unpacks parts along an
// axis.
struct Block {
  int64_t rows = 1, bytes = 0, from_stride = 0, to_stride = 0;
};

// A point in a queue: behind all acts put there before it was made.
class Mark {
 public:
  virtual ~Mark() = default;
  // Whether all those acts are done. From any thread; does not wait.
  virtual bool passed() const = 0;
};

// A mark that also knows when the device reached it.
class TimedMark : public Mark {
 public:
  // Time from `earlier`, a mark of the same queue, to this one. Both have passed once the queue has finished.
  virtual double seconds_since(const TimedMark& earlier) const = 0;
};

// A FIFO of acts. If calls only launch acts, marks order them between queues and the host runs ahead:
//
//   kernel->run(...);                     // on `compute`
//   const auto mark = compute.mark();
//   if (mark) network.wait(*mark);        // by another thread; neither call waits for the kernel
//   network.copy(...);
class Queue {
 public:
  virtual ~Queue() = default;
  // Copies within the process: from this device, another one's memory or the host's.
  virtual void copy(void* to, const void* from, const Block& block) = 0;
  virtual void fill_zero(void* to, int64_t bytes) = 0;
  // Waits until all acts on it are done.
  virtual void finish() = 0;
  // Waits until `mark`, of this queue, has passed.
  virtual void finish_to(const Mark& /*mark*/) { finish(); }
  // At least this many marks of this queue will be in use at once.
  virtual void expect_marks(int64_t /*marks*/) {}
  // Null if an act is done when the call that puts it there returns.
  virtual std::shared_ptr<const Mark> mark() { return nullptr; }
  // A mark timed by the device's own clock; null if the host's clock serves as well.
  virtual std::shared_ptr<const TimedMark> timed_mark() { return nullptr; }
  // Acts put here from now on begin behind `mark`, of any queue of the same backend.
  virtual void wait(const Mark& /*mark*/) {}
};

// Facts that a device reports.
struct DeviceFacts {
  std::string name;
  int64_t memory_bytes = 0, free_bytes = 0;
  int multiprocessors = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceFacts facts() { return {}; }
  // Reserves memory for one plan; called once. Aligned to 512 bytes, zeroed. Throws Error (cannot run) if
  // there is not enough.
  virtual void reserve(int64_t bytes) = 0;
  virtual std::byte* arena() = 0;
  virtual std::unique_ptr<Queue> queue(ir::QueueKind kind) = 0;
  // Zeroed host memory that queues of this device copy from and to without the host's help. It must outlive
  // their use of it.
  virtual std::shared_ptr<std::byte> host_memory(int64_t bytes) {
    return {new std::byte[static_cast<size_t>(bytes)](), std::default_delete<std::byte[]>()};
  }
  // Whether kernels on a queue of kind host work in memory of the host.
  virtual bool computes_on_host() const { return false; }
  // Throws Error (fault) for an op or types without a kernel, naming both.
  virtual std::unique_ptr<Kernel> prepare(const Call& call, Queue& queue) = 0;
  // Copies between host memory and this device's at once, without waiting for queues that use that memory.
  virtual void to_host(void* to, const void* from, int64_t bytes) = 0;
  virtual void from_host(void* to, const void* from, int64_t bytes) = 0;
};

}  // namespace boxcar::backends
