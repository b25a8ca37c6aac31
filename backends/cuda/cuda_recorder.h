// Steps as CUDA graphs: what the queues of a backend are given between start() and stop() is captured, all
// streams in one graph with the order that their marks give.
//
//   recorder.start();                 // streams are idle; each joins the capture of a stream of the
//   recorder's
//   ... threads launch on queues, each call under its turn(): a graph is not made by two threads at once ...
//   auto step = recorder.stop();      // a Recording (backends/backend.h)
//
// What an act reads of its step alone (the learning rate, what dropout draws) it reads from memory of its
// device, which prepare() writes: StepValues. Nothing is allocated, and no stream waited for, while acts are
// recorded; a mark that was set before cannot be waited for. NCCL's calls in a recording are not watched one
// by one, so that recordings have a limit() then.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "backends/backend.h"
#include "backends/cpu/waits.h"
#include "backends/cuda/step_values.h"

namespace boxcar::backends::cuda {

class Recorder {
 public:
  Recorder(cpu::Waits& waits, std::function<void()> after_waiting)
      : waits_(waits), after_waiting_(std::move(after_waiting)) {}
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Queues, by stream, with their GPU; `device` is what shares step values.
  void add(cudaStream_t stream, int gpu, const void* device);
  void remove(cudaStream_t stream);

  // Of recordings from here on: one whose finish() has waited so long ends the run. None where nobody says.
  void limit(double seconds) { seconds_ = seconds; }
  bool on() const { return on_; }
  // Empty where nothing is recorded.
  std::unique_lock<std::mutex> turn();
  StepValues* steps(const void* device);

  void start();
  std::unique_ptr<Recording> stop();

 private:
  struct Joined {
    int gpu = 0;
    const void* device = nullptr;
  };
  cpu::Waits& waits_;
  const std::function<void()> after_waiting_;
  double seconds_ = std::numeric_limits<double>::infinity();
  std::mutex mutex_;
  bool on_ = false;  // changes while no queue is used
  std::map<cudaStream_t, Joined> streams_;
  int gpu_ = -1;                   // of the recorder's stream
  cudaStream_t stream_ = nullptr;  // which begins captures, and on which recordings run
  std::map<const void*, std::unique_ptr<StepValues>> steps_;  // by device, while on
};

}  // namespace boxcar::backends::cuda
