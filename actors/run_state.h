// What the threads of one process's run share: where its memory lies, whether the run goes on, and its
// options.
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
#include "sbp/error.h"

namespace boxcar::actors {

// Thrown where a thread stops because another one has failed; never seen outside.
struct Stopped {};

class RunState {
 public:
  RunState(const Layout& layout, backends::Backend& backend, const Hooks& hooks, const RunOptions& options)
      : layout(layout), backend(backend), hooks(hooks), options(options) {}

  const Layout& layout;
  backends::Backend& backend;
  const Hooks& hooks;
  const RunOptions& options;
  std::vector<std::unique_ptr<Probe>> probes;  // by device; null for others' devices, or without the option
  std::function<void()> on_failure;            // wakes the threads that sleep
  std::chrono::steady_clock::time_point began;

  std::byte* slot(int device, int reg, int slot) const {
    const ir::Register& r = layout.program(device).registers[static_cast<size_t>(reg)];
    return backend.device(device).arena() + r.offset + r.bytes * slot;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  // The first error counts: it ends all waits.
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
  // What a wait for another process calls now and then.
  void check(const std::string& whom) const {
    if (stopped()) throw Stopped{};
    try {
      backend.transport()->check();
    } catch (const Error& error) {
      throw Error::fault("waits for " + whom, error.what());
    }
  }
  std::exception_ptr error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_;
  std::atomic<bool> stopped_{false};
};

inline constexpr std::chrono::milliseconds wake_interval{
    100};  // in which a wait looks whether the run has failed

}  // namespace boxcar::actors
