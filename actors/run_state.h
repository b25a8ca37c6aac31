// State shared by the threads of one process's run: its memory, whether it continues, its options.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/layout.h"
#include "actors/probe.h"
#include "actors/runtime.h"
#include "backends/backend.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {

// Marks of the act after which a slot may be read, and of the acts after which it may be written again. The
// sender of a message about a slot sets its mark first, and the receiver of the message reads it, so no lock
// is needed.
struct SlotMarks {
  using Mark = std::shared_ptr<const backends::Mark>;
  Mark written;
  std::vector<Mark> read;  // by reader, as in Layout::readers
};

// A group member's set-up of everything that the group's calls need from the other members; `name` is the
// group's. All members set up groups in one order.
struct Connection {
  int device = 0;
  std::string name;
  std::function<void()> make;
};

// Thrown in a thread that stops because another one has failed; never seen outside.
struct Stopped {};

class RunState {
 public:
  RunState(const Layout& layout, backends::Backend& backend, const Hooks& hooks, const RunOptions& options)
      : layout(layout), backend(backend), hooks(hooks), options(options), ordered(all_ordered(layout)) {}

  const Layout& layout;
  backends::Backend& backend;
  const Hooks& hooks;
  const RunOptions& options;
  const bool ordered;                                   // whether all queues of the plan are ordered
  std::vector<std::shared_ptr<std::byte>> host_memory;  // by device: its registers on the host, or null
  std::vector<std::unique_ptr<Probe>> probes;  // by device; null for others' devices, or without the option
  std::vector<std::vector<std::vector<SlotMarks>>> marks;  // by local device, register, slot
  SlotMarks& marks_of(int device, int reg, int slot) { return at(at(at(marks, device), reg), slot); }
  std::function<void()> on_failure;  // wakes sleeping threads
  std::chrono::steady_clock::time_point began;
  int recorded = -1;  // which of the plan's steps is being recorded, see QueueThread; -1: none

  std::byte* slot(int device, int reg, int slot) const {
    const ir::Register& r = at(layout.program(device).registers, reg);
    std::byte* const memory =
        r.host_bytes > 0 ? at(host_memory, device).get() : backend.device(device).arena();
    return memory + r.offset + ir::slot_bytes(r) * slot;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  // Only the first error counts; it ends all waits.
  void fail(const std::exception_ptr& error, const std::string& what) {
    {
      const std::lock_guard lock(mutex_);
      if (error_) return;
      error_ = error;
      stopped_ = true;
    }
    backend.abort(what);
    if (on_failure) on_failure();
  }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
  // Called regularly by a wait for another process or for the driver.
  void check(const std::string& whom) const {
    if (stopped()) throw Stopped{};
    try {
      if (backend.transport()) backend.transport()->check();
    } catch (const Error& error) {
      throw Error::fault("waits for " + whom, error.what());
    }
  }
  std::exception_ptr error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  static bool all_ordered(const Layout& layout) {
    for (const ir::Program& program : layout.plan().programs)
      for (const ir::Queue& queue : program.queues)
        if (!queue.ordered) return false;
    return true;
  }

  mutable std::mutex mutex_;
  std::exception_ptr error_;
  std::atomic<bool> stopped_{false};
};

inline constexpr std::chrono::milliseconds wake_interval{100};  // between a wait's checks for a failed run

}  // namespace boxcar::actors
