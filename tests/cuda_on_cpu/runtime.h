// State that the parts of the stand-in for CUDA share, and the rules by which it acts.
//
// Streams are as late as possible: a launched act runs only when somebody waits for it, by stream or by
// event, after everything that it waits for itself. So an act that does not wait for its input finds it
// unwritten. With Machine::seed, each call also lets streams of its GPU run, in an order drawn at random, and
// graphs draw which of the runnable acts is next.
//
// An act of a library may wait for other streams' acts, by put_until: it is polled, also as part of a graph,
// whenever somebody waits for its stream. It has multiprocessors from its begin to its end, and a kernel
// needs a free one. At most Machine::branches acts of a graph run at once.
//
// Kernels are loaded lazily: the first launch of each on a GPU takes the GPU's context and waits until all
// earlier launches there are done; other calls on this GPU wait meanwhile.
//
// Captured acts are a graph. A launch runs them in an order as far from that of the capture as dependencies
// allow. Calls that CUDA refuses while streams are captured are refused; so, as in its strictest mode, are
// allocating and freeing memory. Launches, copies and marks on the stream of a GPU other than the thread's
// are refused.
//
//   devices.cpp   errors, GPUs, contexts and the loading of kernels
//   streams.cpp   acts on streams, events
//   graphs.cpp    captures and graphs
//   memory.cpp    memory of GPUs and pinned memory, copies
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "tally.h"

namespace cuda_on_cpu {

struct Put {
  Act act;
  int gpu = 0;
  int blocks = 0;       // multiprocessors that it has while it runs
  bool kernel = false;  // needs one
};
// An act that is running.
struct Running {
  Kept kept;
  int got = 0;  // multiprocessors
};
struct Work {
  std::deque<Put> acts;
  Running first;  // the first act, which waits
  int64_t launched = 0, done = 0;
  double milliseconds = 0;  // reported by its acts
};
struct Record {
  std::shared_ptr<Work> work;  // null: nothing was recorded
  int64_t at = 0;
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

// One lock serialises all calls; it guards all of this.
struct State {
  State();
  Machine machine;
  std::mutex mutex;
  std::map<CUstream_st*, int> streams;  // with their GPUs
  std::map<std::string, int> tallies;
  std::map<int, int> held;  // multiprocessors, by GPU
  std::mt19937_64 drawn;
};
State& state();
// The thread's GPU, and whether it has chosen one.
extern thread_local int current;
extern thread_local bool chosen;

// Keeps the error for cudaGetLastError.
cudaError_t failed(cudaError_t error);

// A call that needs a context: under the lock, while nobody loads on the thread's GPU.
class Called {
 public:
  Called();
  std::unique_lock<std::mutex>& lock() { return lock_; }
  // Loads a kernel at its first launch.
  void load(const std::string& kernel);

 private:
  void pause();

  std::unique_lock<std::mutex> lock_;
};

// --- acts, under the lock

// Whether the act is over. It has multiprocessors from the moment when it has all that it needs.
bool poll(const Put& put, Running& running);
// Runs the stream's acts up to this one. False if one of them waits for something that has not come.
bool run(Work& work, int64_t until);
// Runs until all are done; others may launch in between.
void run_to_end(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Work>& work, int64_t until);
// Runs the thread's GPU to its end; other GPUs, which may be another process's, as far as they get.
void run_all(std::unique_lock<std::mutex>& lock);
// Lets streams of the thread's GPU run as far as drawn.
void run_some();

// --- captures, under the lock

// Whether a stream of the thread's GPU is captured: threads of a test may be processes with GPUs of their
// own.
bool captures();
// Invalidates the capture.
cudaError_t refused_by(const std::shared_ptr<Capture>& capture, cudaError_t error);
// Runs the graph. False if all runnable acts wait. `kept`: of one launch.
bool run_graph(CUgraphExec_st& exec, Kept& kept);

}  // namespace cuda_on_cpu

struct CUstream_st {
  int gpu;
  std::shared_ptr<cuda_on_cpu::Work> work = std::make_shared<cuda_on_cpu::Work>();
  std::shared_ptr<cuda_on_cpu::Capture> capture = nullptr;
  std::set<size_t> after = {};  // in the capture: predecessors of its next act
};
struct CUevent_st {
  int gpu;
  bool timed;
  cuda_on_cpu::Record record;
  std::shared_ptr<double> milliseconds;                     // of its stream, when recorded
  std::shared_ptr<cuda_on_cpu::Capture> capture = nullptr;  // the capture it was recorded in
  std::set<size_t> after = {};
};
