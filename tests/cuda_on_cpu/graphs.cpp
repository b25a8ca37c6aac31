// CUDA's runtime over the host's memory: captures, and graphs made of them.
#include <algorithm>
#include <utility>

#include "runtime.h"

struct CUgraph_st {
  std::vector<cuda_on_cpu::Capture::Node> nodes;
};
struct CUgraphExec_st {
  std::vector<cuda_on_cpu::Capture::Node> nodes;
  int runs = 0;
};

namespace cuda_on_cpu {
namespace {

struct GraphRun {
  bool newest = false;
  std::vector<bool> done, begun;  // by node
  std::vector<Running> states;
  size_t left = 0;
  int in_flight = 0;
};

// Whether a node may be polled: all before it is done, and it has begun, or one more may.
bool may_run(const CUgraphExec_st& exec, const GraphRun& run, size_t n) {
  const std::set<size_t>& after = exec.nodes[n].after;
  return !run.done[n] && (run.begun[n] || run.in_flight < state().machine.branches) &&
         std::all_of(after.begin(), after.end(), [&](size_t a) { return run.done[a]; });
}

}  // namespace

bool captures() {
  return std::any_of(state().streams.begin(), state().streams.end(), [](const auto& entry) {
    return entry.second == current && entry.first->capture != nullptr;
  });
}

cudaError_t refused_by(const std::shared_ptr<Capture>& capture, cudaError_t error) {
  capture->valid = false;
  return failed(error);
}

// Dependencies alone decide: every second run takes the newest runnable act, otherwise the oldest; with a
// seed any. An act that still waits lets others go first, as many as may be in flight.
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
    const bool first = state().machine.seed < 0 && !run.newest;
    for (size_t n = 0; n < nodes && !(first && !next.empty()); ++n)
      if (!waits[n] && may_run(exec, run, n)) next.push_back(n);
    if (next.empty()) return false;
    const size_t n = state().machine.seed >= 0 ? next[state().drawn() % next.size()] : next.back();
    if (!run.begun[n]) run.begun[n] = true, ++run.in_flight;
    const bool over = poll(exec.nodes[n].put, run.states[n]);
    (over ? run.done : waits)[n] = true;
    if (over) --run.left, --run.in_flight;
  }
  return true;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

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
  ++state().tallies["graphs"];
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
  return put_until(stream, [exec](Kept& kept) { return run_graph(*exec, kept); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Called called;
  std::unique_lock<std::mutex>& lock = called.lock();
  run_all(lock);
  delete exec;
  return cudaSuccess;
}
}
