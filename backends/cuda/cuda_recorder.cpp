#include "backends/cuda/cuda_recorder.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "backends/cuda/cuda_device.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr int64_t most_words = 1 << 19;  // of a recording on a device: 4 MiB

void choose(int gpu) { check(cudaSetDevice(gpu), "a device is chosen"); }

// An event that orders two streams of a capture, or tells that a recording is done.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "an event is made"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // On the GPU that the event was made on.
  void record(cudaStream_t stream) const { check(cudaEventRecord(event_, stream), "a mark is set"); }
  void hold_back(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "a mark is waited for");
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

using Values = std::map<const void*, std::unique_ptr<StepValues>>;

class Graph : public Recording {
 public:
  Graph(cudaGraph_t graph, int gpu, cudaStream_t stream, Values values, cpu::Waits& waits,
        std::function<void()> after_waiting, double seconds)
      : gpu_(gpu),
        stream_(stream),
        values_(std::move(values)),
        waits_(waits),
        after_waiting_(std::move(after_waiting)),
        seconds_(seconds) {
    const cudaError_t error = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "a graph is made ready");
    check(cudaGraphUpload(graph_, stream_), "a graph is made ready");
  }
  ~Graph() override {
    cudaSetDevice(gpu_);
    if (launched_) cudaEventSynchronize(done_.get());
    cudaGraphExecDestroy(graph_);
  }

  void prepare(const Moment& moment) override {
    finish();
    for (const auto& [device, values] : values_) values->write(moment);
  }
  void launch() override {
    choose(gpu_);
    check(cudaGraphLaunch(graph_, stream_), "a step is launched");
    done_.record(stream_);
    launched_ = true;
  }
  void finish() override {
    if (!launched_) return;
    choose(gpu_);
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    const auto ask = [&] {
      const cudaError_t error = cudaEventQuery(done_.get());
      if (error == cudaErrorNotReady &&
          std::chrono::duration<double>(Clock::now() - begin).count() >= seconds_)
        throw Error::fault(
            "graphs of steps",
            fmt::format(
                "a step is not done after {:g} s: a process has stopped, or its collectives wait for each "
                "other (--collective-timeout allows more, --cuda-graph false names the act)",
                seconds_));
      return error;
    };
    wait_for(ask, waits_);
    launched_ = false;
    if (after_waiting_) after_waiting_();
  }

 private:
  const int gpu_;
  const cudaStream_t stream_;
  const Values values_;
  cpu::Waits& waits_;
  const std::function<void()> after_waiting_;
  const double seconds_;
  const Event done_;
  bool launched_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

StepValues::StepValues(int gpu) : gpu_(gpu) {
  choose(gpu_);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream is made");
  stream_ = stream;
  check(cudaMalloc(&memory_, static_cast<size_t>(8 * most_words)), "memory for a step's values");
  values_ = std::make_unique<PinnedMemory>(8 * most_words);
}
StepValues::~StepValues() {
  cudaSetDevice(gpu_);
  cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
  cudaFree(memory_);
}

const void* StepValues::vary(int64_t words, Write write) {
  if (used_ + words > most_words)
    throw Error::cannot_run(
        "cuda", fmt::format("a step has more than {} values that differ from step to step, which a graph has "
                            "no room for; train with --cuda-graph false",
                            most_words));
  const int64_t at = std::exchange(used_, used_ + words);
  entries_.push_back({at, std::move(write)});
  return static_cast<std::byte*>(memory_) + 8 * at;
}

void StepValues::write(const Moment& moment) {
  if (entries_.empty()) return;
  for (const Entry& entry : entries_) entry.write(moment, values_->data() + 8 * entry.at);
  choose(gpu_);
  auto* const stream = static_cast<cudaStream_t>(stream_);
  check(cudaMemcpyAsync(memory_, values_->data(), static_cast<size_t>(8 * used_), cudaMemcpyDefault, stream),
        "a step's values are written");
  check(cudaStreamSynchronize(stream), "a step's values are written");
}

Recorder::~Recorder() {
  if (stream_) cudaStreamDestroy(stream_);
}

void Recorder::add(cudaStream_t stream, int gpu, const void* device) {
  const std::lock_guard lock(mutex_);
  streams_[stream] = {gpu, device};
}
void Recorder::remove(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

std::unique_lock<std::mutex> Recorder::turn() {
  return on_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
}
StepValues* Recorder::steps(const void* device) { return on_ ? steps_.at(device).get() : nullptr; }

void Recorder::start() {
  if (streams_.empty()) throw Error::fault("cuda", "there is no queue to record");
  for (const auto& [stream, joined] : streams_)
    if (!steps_[joined.device]) steps_[joined.device] = std::make_unique<StepValues>(joined.gpu);
  if (!stream_) {
    gpu_ = streams_.begin()->second.gpu;
    choose(gpu_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream is made");
  }
  choose(gpu_);
  const Event begin;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "a step is recorded");
  begin.record(stream_);
  for (const auto& [stream, joined] : streams_) {
    choose(joined.gpu);
    begin.hold_back(stream);
  }
  on_ = true;
}

std::unique_ptr<Recording> Recorder::stop() {
  on_ = false;
  for (const auto& [stream, joined] : streams_) {
    choose(joined.gpu);
    const Event end;
    end.record(stream);
    choose(gpu_);
    end.hold_back(stream_);
  }
  choose(gpu_);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_, &graph), "a step is recorded");
  return std::make_unique<Graph>(graph, gpu_, stream_, std::exchange(steps_, {}), waits_, after_waiting_,
                                 seconds_);
}

}  // namespace boxcar::backends::cuda
