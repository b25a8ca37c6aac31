// Steps as CUDA graphs: acts put on the queues of a backend between start() and stop() are captured, all
// streams in one graph ordered by their marks.
//
//   recorder.start();                 // streams are idle; each joins the capture of the recorder's stream
//   ... threads launch on queues, each call under its turn(): a graph is not made by two threads at once ...
//   auto step = recorder.stop();      // a Recording (backends/backend.h)
//
// Values that depend only on the step (the learning rate, dropout's draws) are read from device memory, which
// prepare() writes: StepValues. While acts are recorded, nothing is allocated, no stream is waited for, and a
// mark set earlier cannot be waited for. Acts that may wait for others for ever are noted: when one is over,
// the graph writes that to host memory, on a branch per queue that no act waits for. So a recording that
// makes no progress for limit() seconds ends the run with the act named.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/waits.h"
#include "backends/cuda/step_values.h"

namespace boxcar::backends::cuda {

// Which of the noted acts of a recording are over.
class NotedActs {
 public:
  static constexpr size_t most = 1 << 16;

  // `stream` is of the GPU, and idle.
  NotedActs(int gpu, cudaStream_t stream);
  ~NotedActs();
  NotedActs(const NotedActs&) = delete;
  NotedActs& operator=(const NotedActs&) = delete;
  // Notes an act; `tells`, a captured stream, reports that it is over. Acts beyond `most` are not noted.
  void add(cudaStream_t tells, std::string act);

  // Resets all acts to not over, while the recording does not run. `turn` is greater than earlier ones.
  void launched(int64_t turn);
  void finished() { turn_ = 0; }
  // From any thread. turn() is 0 while the recording does not run. over() counts acts that are over.
  // act_in_flight() is the first act that is not over and whose text ends with `end`; empty: none. No act
  // depends on one captured later in this process, so the others wait for it.
  int64_t turn() const { return turn_; }
  size_t over() const;
  std::string act_in_flight(const std::string& end = "") const;

 private:
  bool is_over(size_t act) const;

  const int gpu_;
  void* one_ = nullptr;                 // a byte of the GPU's, which is 1
  std::unique_ptr<PinnedMemory> over_;  // a byte for each act
  std::vector<std::string> acts_;
  std::atomic<int64_t> turn_ = 0;
};

// An event that orders two streams of a capture, or tells that a recording is done.
class Event {
 public:
  Event();
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // On the GPU that the event was made on.
  void record(cudaStream_t stream) const;
  void hold_back(cudaStream_t stream) const;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class Recorder {
 public:
  Recorder(cpu::Waits& waits, std::function<void()> after_waiting)
      : waits_(waits), after_waiting_(std::move(after_waiting)) {}
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Queues, by stream, with their GPU; those of one `device` share step values.
  void add(cudaStream_t stream, int gpu, const void* device);
  void remove(cudaStream_t stream);

  // Limit for later recordings: finish() ends the run when it has waited this long for the same act. No limit
  // by default.
  void limit(double seconds) { seconds_ = seconds; }
  bool on() const { return on_; }
  // Empty if nothing is recorded.
  std::unique_lock<std::mutex> turn();
  StepValues* steps(const void* device);
  // Names the last work put on `stream` as `act`; under the turn.
  void note(cudaStream_t stream, std::string act);
  // The noted act of a running recording that the others wait for, among those whose text ends with `end`;
  // empty: none. From any thread, whatever locks it holds.
  std::string act_in_flight(const std::string& end = "") const;

  // With `in_order`, each noted act runs behind the one noted before it, whatever their streams: follow()
  // puts the next act on `stream` there.
  void start(bool in_order = false);
  void follow(cudaStream_t stream);
  std::unique_ptr<Recording> stop();

 private:
  struct Joined {
    int gpu = 0;
    const void* device = nullptr;
    cudaStream_t tells = nullptr;  // reports that noted acts are over; made by the first recording
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
  std::shared_ptr<NotedActs> noted_;                          // while on
  bool in_order_ = false;
  std::unique_ptr<Event> last_;          // behind the last noted act; while on
  mutable std::mutex recordings_mutex_;  // no other mutex is taken under it
  std::vector<std::weak_ptr<const NotedActs>> recordings_;
};

}  // namespace boxcar::backends::cuda
