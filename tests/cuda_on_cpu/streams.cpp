// CUDA's runtime over the host's memory: acts on streams, and events.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime.h"
#include "threads.h"

namespace cuda_on_cpu {
namespace {

Work* running = nullptr;

// A kernel, where it is named, else an act of another kind.
cudaError_t add_put(cudaStream_t stream, Put put, const std::string& kernel = "") {
  Called called;
  if (!stream || !state().streams.contains(stream) || stream->gpu != current)
    return failed(cudaErrorInvalidResourceHandle);
  if (state().machine.watch) return cudaSuccess;
  called.load(kernel);
  put.gpu = current;
  if (stream->capture) {
    stream->capture->nodes.push_back({std::move(put), stream->after});
    stream->after = {stream->capture->nodes.size() - 1};
    return cudaSuccess;
  }
  stream->work->acts.push_back(std::move(put));
  ++stream->work->launched;
  return cudaSuccess;
}
cudaError_t add_until(cudaStream_t stream, Act act, int blocks = 0) {
  return add_put(stream, {.act = std::move(act), .blocks = blocks});
}
cudaError_t add(cudaStream_t stream, std::function<void()> act, const std::string& kernel = "") {
  const auto once = [act = std::move(act)](Kept&) {
    act();
    return true;
  };
  return add_put(stream, {.act = once, .kernel = !kernel.empty()}, kernel);
}

}  // namespace

// Acts run one at a time, under the lock.
void spend(double milliseconds) { running->milliseconds += milliseconds; }

bool poll(const Put& put, Running& on_its_way) {
  int& taken = state().held[put.gpu];
  if (put.kernel && taken >= state().machine.multiprocessors) return false;
  if (on_its_way.got < put.blocks) {
    const int more = std::min(put.blocks - on_its_way.got, state().machine.multiprocessors - taken);
    on_its_way.got += more, taken += more;
    if (on_its_way.got < put.blocks) return false;
  }
  if (!put.act(on_its_way.kept)) return false;
  taken -= std::exchange(on_its_way, {}).got;
  return true;
}

// Acts that wait for another stream run it that far. This never recurses back here, since the awaited acts
// were launched before. False where one of them waits for something that has not come.
bool run(Work& work, int64_t until) {
  while (work.done < until) {
    Work* const before = std::exchange(running, &work);
    const bool over = poll(work.acts.front(), work.first);
    running = before;
    if (!over) return false;
    work.acts.pop_front();
    ++work.done;
  }
  return true;
}
void run_to_end(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Work>& work, int64_t until) {
  while (!run(*work, until)) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
}

void run_all(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& [stream, gpu] : state().streams) {
    run(*stream->work, stream->work->launched);
    if (gpu == current) works.push_back(stream->work);
  }
  for (const auto& work : works) run_to_end(lock, work, work->launched);
}

void run_some() {
  std::vector<Work*> works;
  for (const auto& [stream, gpu] : state().streams)
    if (gpu == current) works.push_back(stream->work.get());
  std::shuffle(works.begin(), works.end(), state().drawn);
  for (Work* const work : works)
    if (work->launched > work->done)
      run(*work,
          work->done + 1 +
              static_cast<int64_t>(state().drawn() % static_cast<uint64_t>(work->launched - work->done)));
}

cudaError_t put(cudaStream_t stream, std::function<void()> act, const std::string& kernel) {
  return add(stream, std::move(act), kernel);
}
cudaError_t put_until(cudaStream_t stream, Act act, int blocks) {
  return add_until(stream, std::move(act), blocks);
}
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread,
                   const std::function<std::vector<std::string>()>& arguments) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const bool fits = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y < 65536 && grid.z < 65536 &&
                    block.x > 0 && block.x * block.y * block.z <= 1024;
  if (!fits) return failed(cudaErrorInvalidConfiguration);
  if (const auto& watch = state().machine.watch) {
    watch({kernel, grid, block, arguments()});
    return cudaSuccess;
  }
  const double threads = 1.0 * grid.x * grid.y * grid.z * block.x * block.y * block.z;
  const auto act = [grid, block, threads, thread = std::move(thread)] {
    run_grid(grid, block, thread);
    spend(kernel_milliseconds + threads * thread_milliseconds);
  };
  return add(config.stream, act, "kernel " + std::to_string(reinterpret_cast<uintptr_t>(kernel)));
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Called called;
  ++state().tallies["streams"];
  *stream = new CUstream_st{.gpu = current};
  state().streams[*stream] = current;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  const Called called;
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
// The order in which acts run does not depend on it.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (priority < 0) {
    const Called called;
    ++state().tallies["streams of high priority"];
  }
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (state().streams.erase(stream) == 0) return failed(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    stream->capture->valid = false;
    std::erase(stream->capture->streams, stream);
  }
  run_to_end(lock, stream->work, stream->work->launched);
  delete stream;
  return cudaSuccess;
}
// The first query finds it not done, the second done.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Called called;
  if (stream->capture) return refused_by(stream->capture, cudaErrorStreamCaptureUnsupported);
  Work& work = *stream->work;
  if (work.done == work.launched) {
    ++state().tallies["waits for streams"];
    return cudaSuccess;
  }
  run(work, work.launched);
  return failed(cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (stream->capture) return refused_by(stream->capture, cudaErrorStreamCaptureUnsupported);
  ++state().tallies["waits for streams"];
  run_to_end(lock, stream->work, stream->work->launched);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Record record;
  {
    const Called called;
    if (event->capture) {
      const std::shared_ptr<Capture> capture = event->capture;
      if (capture->over) return failed(cudaErrorCapturedEvent);
      if (stream->capture && stream->capture != capture)
        return refused_by(capture, cudaErrorStreamCaptureMerge);
      if (!stream->capture) {  // joins
        stream->capture = capture;
        capture->streams.push_back(stream);
      }
      stream->after.insert(event->after.begin(), event->after.end());
      return cudaSuccess;
    }
    record = event->record;
    if (stream->capture && record.work) return refused_by(stream->capture, cudaErrorStreamCaptureIsolation);
  }
  if (!record.work) return cudaSuccess;
  return add_until(stream, [record](Kept&) { return run(*record.work, record.at); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Called called;
  ++state().tallies["events"];
  *event = new CUevent_st{
      .gpu = current, .timed = (flags & cudaEventDisableTiming) == 0, .record = {}, .milliseconds = {}};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Called called;
  if (!state().streams.contains(stream) || event->gpu != stream->gpu)
    return failed(cudaErrorInvalidResourceHandle);
  event->capture = stream->capture;
  event->after = stream->after;
  if (stream->capture) return cudaSuccess;
  Work& work = *stream->work;
  if (event->timed) {
    event->milliseconds = std::make_shared<double>();
    const auto act = [&work, time = event->milliseconds](Kept&) {
      *time = work.milliseconds;
      return true;
    };
    work.acts.push_back({.act = act, .gpu = stream->gpu});
    ++work.launched;
  }
  event->record = {stream->work, work.launched};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Called called;
  if (event->capture) return failed(cudaErrorCapturedEvent);
  const Record& record = event->record;
  if (!record.work || record.work->done >= record.at) return cudaSuccess;
  run(*record.work, record.at);
  return failed(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (event->capture) return failed(cudaErrorCapturedEvent);
  if (const Record record = event->record; record.work) run_to_end(lock, record.work, record.at);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const std::lock_guard lock(state().mutex);
  for (const cudaEvent_t event : {from, to}) {
    if (event->capture) return failed(cudaErrorCapturedEvent);
    if (!event->timed || !event->record.work) return failed(cudaErrorInvalidResourceHandle);
    if (event->record.work->done < event->record.at) return failed(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>(*to->milliseconds - *from->milliseconds);
  return cudaSuccess;
}
}
