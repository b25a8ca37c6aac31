#include "backends/cuda/cuda_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/cuda/cuda_device.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr int64_t most_words = 1 << 19;  // of a recording on a device: 4 MiB

void choose(int gpu) { check(cudaSetDevice(gpu), "a device is chosen"); }

using Values = std::map<const void*, std::unique_ptr<StepValues>>;

class Graph : public Recording {
 public:
  Graph(cudaGraph_t graph, int gpu, cudaStream_t stream, Values values, std::shared_ptr<NotedActs> noted,
        cpu::Waits& waits, std::function<void()> after_waiting, double seconds)
      : gpu_(gpu),
        stream_(stream),
        values_(std::move(values)),
        noted_(std::move(noted)),
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
    static std::atomic<int64_t> turns = 0;
    noted_->launched(++turns);
    check(cudaGraphLaunch(graph_, stream_), "a step is launched");
    done_.record(stream_);
    launched_ = true;
  }
  void finish() override {
    if (!launched_) return;
    choose(gpu_);
    using Clock = std::chrono::steady_clock;
    Clock::time_point begin = Clock::now();
    size_t over = 0;
    const auto ask = [&] {
      const cudaError_t error = cudaEventQuery(done_.get());
      if (error != cudaErrorNotReady || seconds_ == std::numeric_limits<double>::infinity()) return error;
      if (const size_t now = noted_->over(); std::exchange(over, now) != now) begin = Clock::now();
      if (std::chrono::duration<double>(Clock::now() - begin).count() < seconds_) return error;
      cudaGetLastError();  // clears "not ready"
      const std::string act = noted_->act_in_flight();
      throw Error::fault(
          act.empty() ? "graphs of steps" : act,
          fmt::format("{} not done after {:g} s: {}, or was given another order of collectives "
                      "(--collective-timeout allows more)",
                      act.empty() ? "a step is" : "is", seconds_,
                      act.empty() ? "a process has stopped" : "another member has stopped"));
    };
    wait_for(ask, waits_);
    launched_ = false;
    noted_->finished();
    if (after_waiting_) after_waiting_();
  }

 private:
  const int gpu_;
  const cudaStream_t stream_;
  const Values values_;
  const std::shared_ptr<NotedActs> noted_;
  cpu::Waits& waits_;
  const std::function<void()> after_waiting_;
  const double seconds_;
  const Event done_;
  bool launched_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

Event::Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "an event is made"); }
void Event::record(cudaStream_t stream) const { check(cudaEventRecord(event_, stream), "a mark is set"); }
void Event::hold_back(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "a mark is waited for");
}

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

NotedActs::NotedActs(int gpu, cudaStream_t stream) : gpu_(gpu) {
  choose(gpu_);
  over_ = std::make_unique<PinnedMemory>(most);
  check(cudaMalloc(&one_, 1), "memory for what acts say");
  check(cudaMemsetAsync(one_, 1, 1, stream), "memory for what acts say");
  check(cudaStreamSynchronize(stream), "memory for what acts say");
}
NotedActs::~NotedActs() {
  cudaSetDevice(gpu_);
  cudaFree(one_);
}

void NotedActs::add(cudaStream_t tells, std::string act) {
  if (acts_.size() == most) return;
  check(cudaMemcpyAsync(over_->data() + acts_.size(), one_, 1, cudaMemcpyDefault, tells),
        "an act says that it is over");
  acts_.push_back(std::move(act));
}

void NotedActs::launched(int64_t turn) {
  std::fill_n(over_->data(), acts_.size(), std::byte{0});
  turn_ = turn;
}

bool NotedActs::is_over(size_t act) const {
  const volatile std::byte* const over = over_->data();  // the GPU writes it
  return over[act] != std::byte{0};
}

size_t NotedActs::over() const {
  size_t acts = 0;
  for (size_t act = 0; act < acts_.size(); ++act) acts += is_over(act) ? 1 : 0;
  return acts;
}

std::string NotedActs::act_in_flight(const std::string& end) const {
  for (size_t act = 0; act < acts_.size(); ++act)
    if (acts_[act].ends_with(end) && !is_over(act)) return acts_[act];
  return "";
}

Recorder::~Recorder() {
  if (!stream_) return;
  cudaSetDevice(gpu_);
  cudaStreamDestroy(stream_);
}

void Recorder::add(cudaStream_t stream, int gpu, const void* device) {
  const std::lock_guard lock(mutex_);
  streams_[stream] = {gpu, device, nullptr};
}
void Recorder::remove(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const Joined joined = streams_.at(stream);
  streams_.erase(stream);
  if (!joined.tells) return;
  cudaSetDevice(joined.gpu);
  cudaStreamDestroy(joined.tells);
}

std::unique_lock<std::mutex> Recorder::turn() {
  return on_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
}
StepValues* Recorder::steps(const void* device) { return on_ ? steps_.at(device).get() : nullptr; }

void Recorder::start(bool in_order) {
  in_order_ = in_order;
  last_ = nullptr;
  if (streams_.empty()) throw Error::fault("cuda", "there is no queue to record");
  for (const auto& [stream, joined] : streams_)
    if (!steps_[joined.device]) steps_[joined.device] = std::make_unique<StepValues>(joined.gpu);
  if (!stream_) {
    gpu_ = streams_.begin()->second.gpu;
    choose(gpu_);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream is made");
  }
  for (auto& [stream, joined] : streams_) {
    choose(joined.gpu);
    if (!joined.tells)
      check(cudaStreamCreateWithFlags(&joined.tells, cudaStreamNonBlocking), "a stream is made");
  }
  noted_ = std::make_shared<NotedActs>(gpu_, stream_);
  const Event begin;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "a step is recorded");
  begin.record(stream_);
  for (const auto& [stream, joined] : streams_) {
    choose(joined.gpu);
    begin.hold_back(stream);
    begin.hold_back(joined.tells);
  }
  on_ = true;
}

void Recorder::note(cudaStream_t stream, std::string act) {
  const Joined& joined = streams_.at(stream);
  choose(joined.gpu);
  auto end = std::make_unique<Event>();
  end->record(stream);
  end->hold_back(joined.tells);
  noted_->add(joined.tells, std::move(act));
  last_ = std::move(end);
}

void Recorder::follow(cudaStream_t stream) {
  if (in_order_ && last_) last_->hold_back(stream);
}

std::string Recorder::act_in_flight(const std::string& end) const {
  const std::lock_guard lock(recordings_mutex_);
  std::shared_ptr<const NotedActs> oldest;
  for (const auto& entry : recordings_)
    if (const auto acts = entry.lock();
        acts && acts->turn() > 0 && (!oldest || acts->turn() < oldest->turn()))
      oldest = acts;
  return oldest ? oldest->act_in_flight(end) : "";
}

std::unique_ptr<Recording> Recorder::stop() {
  on_ = false;
  last_ = nullptr;
  const auto join = [this](cudaStream_t stream, int gpu) {
    choose(gpu);
    const Event end;
    end.record(stream);
    choose(gpu_);
    end.hold_back(stream_);
  };
  for (const auto& [stream, joined] : streams_) {
    join(stream, joined.gpu);
    join(joined.tells, joined.gpu);
  }
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_, &graph), "a step is recorded");
  {
    const std::lock_guard lock(recordings_mutex_);
    std::erase_if(recordings_, [](const auto& entry) { return entry.expired(); });
    recordings_.push_back(noted_);
  }
  return std::make_unique<Graph>(graph, gpu_, stream_, std::exchange(steps_, {}),
                                 std::exchange(noted_, nullptr), waits_, after_waiting_, seconds_);
}

}  // namespace boxcar::backends::cuda
