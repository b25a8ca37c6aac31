// CUDA's runtime over the host's memory. Streams are as late as possible: a launched act runs only when
// somebody waits for it, by stream or by event, after everything that it waits for itself. So an act that
// does not wait for its input finds it unwritten. The first MiB of new memory is bytes 0xff, which are NaNs
// as floats.
//
// Captured acts are a graph. A launch runs them in an order as far from that of the capture as dependencies
// allow. Calls that CUDA refuses while streams are captured are refused; so, as in its strictest mode, are
// allocating and freeing memory.
//
// An act of a library may wait for other streams' acts, by put_until: it is polled, also as part of a graph,
// whenever somebody waits for its stream. It has multiprocessors from its begin to its end, and a kernel
// needs one that is free. Of a graph, Machine::branches acts are under way at once, at most.
//
// Kernels are loaded lazily: the first launch of each on a GPU takes the GPU's context and waits until all
// that was launched there is done; other calls on this GPU wait meanwhile.
//
// With Machine::seed, each call lets streams of its GPU run, in an order drawn at random, and graphs draw
// which of the acts that could run is next.
//
// One GPU, or as many as the environment variable CUDA_ON_CPU_GPUS says. Launches, copies and marks on the
// stream of a GPU other than the thread's are refused.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "tally.h"
#include "threads.h"

namespace {

constexpr size_t pinned_of_host = size_t{1} << 30, poisoned = size_t{1} << 20;

int number(const char* name, int otherwise) {
  const char* const wanted = std::getenv(name);
  return wanted ? std::atoi(wanted) : otherwise;
}
bool loads_lazily() {
  const char* const wanted = std::getenv("CUDA_MODULE_LOADING");
  return !wanted || std::strcmp(wanted, "EAGER") != 0;
}
cuda_on_cpu::Machine machine{.gpus = number("CUDA_ON_CPU_GPUS", 1),
                             .driver = CUDART_VERSION,
                             .lazy = loads_lazily(),
                             .branches = number("CUDA_ON_CPU_BRANCHES", 1 << 30),
                             .seed = number("CUDA_ON_CPU_SEED", -1)};

using cuda_on_cpu::Act;
using cuda_on_cpu::Kept;

struct Put {
  Act act;
  int gpu = 0;
  int blocks = 0;       // multiprocessors that it has while it is under way
  bool kernel = false;  // needs one
};
// An act on its way.
struct Running {
  Kept kept;
  int got = 0;  // multiprocessors
};
struct Work {
  std::deque<Put> acts;
  Running first;  // the first act, which waits
  int64_t launched = 0, done = 0;
  double milliseconds = 0;  // that its acts report
};
struct Record {
  std::shared_ptr<Work> work;  // null: nothing was recorded
  int64_t at = 0;
};
struct Memory {
  int gpu;
  size_t bytes;
};
// Acts under capture, each with its predecessors. `streams`: those that joined, the first one first.
struct Capture {
  struct Node {
    Put put;
    std::set<size_t> after;
  };
  std::vector<Node> nodes;
  std::vector<CUstream_st*> streams;
  bool valid = true, over = false;
};

// Serialises all calls.
std::mutex mutex;
std::map<void*, Memory> memory;
std::map<CUstream_st*, int> streams;
std::map<void*, size_t> pinned;
std::map<std::string, int> tallies;
Work* running = nullptr;
struct Context {
  std::set<std::string> loaded;
  bool loading = false;
};
std::map<int, Context> contexts;  // by GPU
std::map<int, int> held;          // multiprocessors, by GPU
std::mt19937_64 drawn;
thread_local int current = 0;
thread_local bool chosen = false;  // whether the thread has chosen its GPU
thread_local cudaError_t last = cudaSuccess;

cudaError_t failed(cudaError_t error) { return last = error; }

// Whether the act is over. It has multiprocessors from when it has got all that it needs.
bool poll(const Put& put, Running& state) {
  int& taken = held[put.gpu];
  if (put.kernel && taken >= machine.multiprocessors) return false;
  if (state.got < put.blocks) {
    const int more = std::min(put.blocks - state.got, machine.multiprocessors - taken);
    state.got += more, taken += more;
    if (state.got < put.blocks) return false;
  }
  if (!put.act(state.kept)) return false;
  taken -= std::exchange(state, {}).got;
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
// Runs until all are done; others may launch in between.
void run_to_end(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Work>& work, int64_t until) {
  while (!run(*work, until)) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
}

}  // namespace

struct CUstream_st {
  int gpu;
  std::shared_ptr<Work> work = std::make_shared<Work>();
  std::shared_ptr<Capture> capture = nullptr;
  std::set<size_t> after = {};  // in the capture: predecessors of its next act
};
struct CUgraph_st {
  std::vector<Capture::Node> nodes;
};
struct CUgraphExec_st {
  std::vector<Capture::Node> nodes;
  int runs = 0;
};
struct GraphRun {
  bool newest = false;
  std::vector<bool> done, begun;  // by node
  std::vector<Running> states;
  size_t left = 0;
  int under_way = 0;
};
struct CUevent_st {
  int gpu;
  bool timed;
  Record record;
  std::shared_ptr<double> milliseconds;        // of its stream, when recorded
  std::shared_ptr<Capture> capture = nullptr;  // the capture it was recorded in
  std::set<size_t> after = {};
};

namespace {

// A call that needs a context: under the lock, while nobody loads on the thread's GPU.
class Called {
 public:
  Called() : lock_(mutex) {
    if (!chosen) ++tallies["calls without a GPU"];
    while (contexts[current].loading) pause();
    if (machine.seed >= 0) run_some();
  }
  std::unique_lock<std::mutex>& lock() { return lock_; }
  // Of a kernel's first launch.
  void load(const std::string& kernel) {
    Context& context = contexts[current];
    if (!machine.lazy || kernel.empty() || !context.loaded.insert(kernel).second) return;
    context.loading = true;
    ++tallies["loads"];
    for (bool all = false; !all;) {
      all = true;
      for (const auto& [stream, gpu] : streams) all &= gpu != current || is_done(stream);
      if (!all) pause();
    }
    context.loading = false;
  }

 private:
  static bool is_done(CUstream_st* stream);
  static void run_some();
  void pause() {
    lock_.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock_.lock();
  }

  std::unique_lock<std::mutex> lock_;
};
bool Called::is_done(CUstream_st* stream) { return run(*stream->work, stream->work->launched); }
void Called::run_some() {
  std::vector<Work*> works;
  for (const auto& [stream, gpu] : streams)
    if (gpu == current) works.push_back(stream->work.get());
  std::shuffle(works.begin(), works.end(), drawn);
  for (Work* const work : works)
    if (work->launched > work->done)
      run(*work, work->done + 1 +
                     static_cast<int64_t>(drawn() % static_cast<uint64_t>(work->launched - work->done)));
}

// A kernel, where it is named, else an act of another kind.
cudaError_t add_put(cudaStream_t stream, Put put, const std::string& kernel = "") {
  Called called;
  if (!stream || !streams.contains(stream) || stream->gpu != current)
    return failed(cudaErrorInvalidResourceHandle);
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

// On the thread's GPU: threads of a test may be processes with GPUs of their own.
bool captures() {
  return std::any_of(streams.begin(), streams.end(), [](const auto& entry) {
    return entry.second == current && entry.first->capture != nullptr;
  });
}

// Invalidates the capture.
cudaError_t refused_by(const std::shared_ptr<Capture>& capture, cudaError_t error) {
  capture->valid = false;
  return failed(error);
}

// Whether a node may be polled: all before it is done, and it has begun, or one more may.
bool may_run(const CUgraphExec_st& exec, const GraphRun& run, size_t n) {
  const std::set<size_t>& after = exec.nodes[n].after;
  return !run.done[n] && (run.begun[n] || run.under_way < machine.branches) &&
         std::all_of(after.begin(), after.end(), [&](size_t a) { return run.done[a]; });
}

// Dependencies alone decide: every second run takes the newest runnable act, otherwise the oldest; with a
// seed any. An act that still waits lets others go first, as many as may be under way.
bool run_graph(CUgraphExec_st& exec, Kept& kept) {
  const size_t nodes = exec.nodes.size();
  if (!kept) {
    const bool newest = exec.runs++ % 2 == 0;
    const std::vector<bool> none(nodes);
    kept = std::make_shared<GraphRun>(GraphRun{newest, none, none, std::vector<Running>(nodes), nodes, 0});
  }
  GraphRun& run = *static_cast<GraphRun*>(kept.get());
  std::vector<bool> waits(nodes);
  while (run.left > 0) {
    std::vector<size_t> next;
    const bool first = machine.seed < 0 && !run.newest;
    for (size_t n = 0; n < nodes && !(first && !next.empty()); ++n)
      if (!waits[n] && may_run(exec, run, n)) next.push_back(n);
    if (next.empty()) return false;
    const size_t n = machine.seed >= 0 ? next[drawn() % next.size()] : next.back();
    if (!run.begun[n]) run.begun[n] = true, ++run.under_way;
    const bool over = poll(exec.nodes[n].put, run.states[n]);
    (over ? run.done : waits)[n] = true;
    if (over) --run.left, --run.under_way;
  }
  return true;
}

// Copies from or to pageable memory of the host wait for the host, or make it wait.
void tally_copy(const void* to, const void* from) {
  const std::lock_guard lock(mutex);
  for (const void* end : {to, from}) {
    const auto within = [end](const void* begin, size_t bytes) {
      return begin <= end && end < static_cast<const char*>(begin) + bytes;
    };
    const bool known =
        std::any_of(memory.begin(), memory.end(),
                    [&](const auto& m) { return within(m.first, m.second.bytes); }) ||
        std::any_of(pinned.begin(), pinned.end(), [&](const auto& p) { return within(p.first, p.second); });
    if (!known) ++tallies["copies of pageable memory"];
  }
}

// Runs the thread's GPU to its end; other GPUs, which may be another process's, as far as they get.
void run_all(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& [stream, gpu] : streams) {
    run(*stream->work, stream->work->launched);
    if (gpu == current) works.push_back(stream->work);
  }
  for (const auto& work : works) run_to_end(lock, work, work->launched);
}

}  // namespace

// Acts run one at a time, under the mutex.
void cuda_on_cpu::spend(double milliseconds) { running->milliseconds += milliseconds; }
void cuda_on_cpu::tally(const std::string& what) { ++tallies[what]; }
int cuda_on_cpu::tallied(const std::string& what) {
  const std::lock_guard lock(mutex);
  return tallies[what];
}

// A process that begins has loaded nothing.
void cuda_on_cpu::pretend(const Machine& other) {
  machine = other;
  contexts.clear();
  if (machine.seed >= 0) drawn.seed(static_cast<uint64_t>(machine.seed));
}
cuda_on_cpu::Machine cuda_on_cpu::pretended() { return machine; }
void cuda_on_cpu::touch() { const Called called; }

cudaError_t cuda_on_cpu::put(cudaStream_t stream, std::function<void()> act, const std::string& kernel) {
  return add(stream, std::move(act), kernel);
}
cudaError_t cuda_on_cpu::put_until(cudaStream_t stream, Act act, int blocks) {
  return add_until(stream, std::move(act), blocks);
}
cudaError_t cuda_on_cpu::launch(const cudaLaunchConfig_t& config, const void* kernel,
                                std::function<void()> thread) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const bool fits = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y < 65536 && grid.z < 65536 &&
                    block.x > 0 && block.x * block.y * block.z <= 1024;
  if (!fits) return failed(cudaErrorInvalidConfiguration);
  const double threads = 1.0 * grid.x * grid.y * grid.z * block.x * block.y * block.z;
  const auto act = [grid, block, threads, thread = std::move(thread)] {
    run_grid(grid, block, thread);
    spend(kernel_milliseconds + threads * thread_milliseconds);
  };
  return add(config.stream, act, "kernel " + std::to_string(reinterpret_cast<uintptr_t>(kernel)));
}

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge:
      return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
  }
  return "unknown";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine.driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine.gpus;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  if (gpu < 0 || gpu >= machine.gpus) return failed(cudaErrorInvalidDevice);
  const auto i = static_cast<size_t>(gpu);
  std::strcpy(properties->name,
              i < machine.names.size() ? machine.names[i].c_str() : "the host in a GPU's place");
  properties->uuid.bytes[15] = static_cast<char>(gpu);
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= machine.gpus) return failed(cudaErrorInvalidDevice);
  current = gpu;
  chosen = true;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* gpu) {
  *gpu = current;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int gpu, int other) {
  *can = gpu != other;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned) {
  const std::lock_guard lock(mutex);
  static std::set<std::pair<int, int>> enabled;
  if (other < 0 || other >= machine.gpus || other == current) return failed(cudaErrorInvalidDevice);
  return enabled.emplace(current, other).second ? cudaSuccess : failed(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaMalloc(void** result, size_t bytes) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  *result = nullptr;
  {
    const Called called;
    if (captures()) return failed(cudaErrorStreamCaptureUnsupported);
  }
  if (bytes > free) return failed(cudaErrorMemoryAllocation);
  void* const got = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!got) return failed(cudaErrorMemoryAllocation);
  std::memset(got, 0xff, std::min(bytes, poisoned));
  const std::lock_guard lock(mutex);
  memory[got] = {current, bytes};
  ++tallies["memory"];
  *result = got;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** result, size_t bytes, unsigned) {
  const Called called;
  *result = nullptr;
  if (captures()) return failed(cudaErrorStreamCaptureUnsupported);
  if (bytes > pinned_of_host) return failed(cudaErrorMemoryAllocation);
  *result = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(*result, 0xff, std::min(bytes, poisoned));
  pinned[*result] = bytes;
  ++tallies["pinned memory"];
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* address) {
  if (!address) return cudaSuccess;
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (pinned.erase(address) == 0) return failed(cudaErrorInvalidValue);
  run_all(lock);
  std::free(address);
  return cudaSuccess;
}
// Waits for the GPU, as CUDA does.
cudaError_t cudaFree(void* address) {
  if (!address) return cudaSuccess;
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (captures()) return failed(cudaErrorStreamCaptureUnsupported);
  if (memory.erase(address) == 0) return failed(cudaErrorInvalidValue);
  run_all(lock);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Called called;
  *total = *free = machine.memory;
  for (const auto& [address, m] : memory)
    if (m.gpu == current) *free -= std::min(*free, m.bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return add(stream, [=] { std::memset(to, value, bytes); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  tally_copy(to, from);
  return add(stream, [=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return failed(cudaErrorInvalidValue);
  tally_copy(to, from);
  return add(stream, [=] {
    for (size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                  width);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Called called;
  ++tallies["streams"];
  *stream = new CUstream_st{.gpu = current};
  streams[*stream] = current;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (streams.erase(stream) == 0) return failed(cudaErrorInvalidResourceHandle);
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
    ++tallies["waits for streams"];
    return cudaSuccess;
  }
  run(work, work.launched);
  return failed(cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  if (stream->capture) return refused_by(stream->capture, cudaErrorStreamCaptureUnsupported);
  ++tallies["waits for streams"];
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
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Called called;
  *status = stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Called called;
  if (stream->capture) return refused_by(stream->capture, cudaErrorStreamCaptureUnsupported);
  stream->capture = std::make_shared<Capture>();
  stream->capture->streams = {stream};
  return cudaSuccess;
}
// Every stream that joined must have been waited for, also indirectly.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Called called;
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return failed(cudaErrorInvalidValue);
  if (capture->streams.empty() || capture->streams[0] != stream)
    return refused_by(capture, cudaErrorStreamCaptureUnmatched);
  std::set<size_t> before = stream->after;  // including their own predecessors
  for (size_t n = capture->nodes.size(); n-- > 0;)
    if (before.contains(n)) before.insert(capture->nodes[n].after.begin(), capture->nodes[n].after.end());
  bool joined = true;
  for (CUstream_st* other : capture->streams) {
    for (const size_t last : std::exchange(other->after, {})) joined = joined && before.contains(last);
    other->capture = nullptr;
  }
  capture->over = true;
  if (!capture->valid) return failed(cudaErrorStreamCaptureInvalidated);
  if (!joined) return failed(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(capture->nodes)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const Called called;
  ++tallies["graphs"];
  *exec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  return stream->capture ? failed(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (stream->capture) return failed(cudaErrorStreamCaptureUnsupported);
  return add_until(stream, [exec](Kept& kept) { return run_graph(*exec, kept); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  run_all(lock);
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Called called;
  ++tallies["events"];
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
  if (!streams.contains(stream) || event->gpu != stream->gpu) return failed(cudaErrorInvalidResourceHandle);
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
  const std::lock_guard lock(mutex);
  for (const cudaEvent_t event : {from, to}) {
    if (event->capture) return failed(cudaErrorCapturedEvent);
    if (!event->timed || !event->record.work) return failed(cudaErrorInvalidResourceHandle);
    if (event->record.work->done < event->record.at) return failed(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>(*to->milliseconds - *from->milliseconds);
  return cudaSuccess;
}
}
