// Counts and times that the stand-ins' acts report to the tests: how often something ran, and the reported
// time of an act.
//
//   tally("product by algorithm 2"), spend(1.5);        // in an act
//   tallied("product by algorithm 2") == 1              // in a test, after a wait
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"

namespace cuda_on_cpu {

// A kernel's launch: its address, and the bytes of each of its parameters. Without a kernel: this many bytes
// of memory are set.
struct Launched {
  const void* kernel = nullptr;
  dim3 grid = {}, block = {};
  std::vector<std::string> arguments = {};
  size_t bytes = 0;
};

// The machine that the stand-in pretends to be. Set it only while nothing uses the machine. It begins with
// lazy loading unless CUDA_MODULE_LOADING is EAGER.
struct Machine {
  int gpus = 1, driver = 0;
  std::vector<std::string> names = {};              // of GPUs, by number; unnamed GPUs are all alike
  bool cudnn = true;                                // whether cuDNN starts
  bool lazy = true;                                 // a kernel is loaded by its first launch
  int multiprocessors = 132;                        // of a GPU
  size_t memory = size_t{8} << 30;                  // of a GPU, in bytes
  int branches = 1 << 30;                           // the most of a graph that run at once
  int64_t seed = -1;                                // 0 and up: acts run early, in an order drawn by this
  std::function<void(const Launched&)> watch = {};  // told of each launch; no act runs then
};
void pretend(const Machine& machine);
Machine pretended();

// Puts the machine back at its end.
class Pretending {
 public:
  Pretending() = default;
  ~Pretending() { pretend(before_); }
  Pretending(const Pretending&) = delete;
  Pretending& operator=(const Pretending&) = delete;

 private:
  const Machine before_ = pretended();
};

// The time that a kernel reports, and the additional time per thread.
constexpr double kernel_milliseconds = 2e-3, thread_milliseconds = 8e-6;

// Advances the time that events of the running act's stream see. Only in an act.
void spend(double milliseconds);
void tally(const std::string& what);
// Puts an act of a library, with a kernel of this name, on the stream. A captured act may run repeatedly.
cudaError_t put(cudaStream_t stream, std::function<void()> act, const std::string& kernel = "");
// Puts an act that may wait for others without blocking anyone: it is polled until it returns true. `kept` is
// its own state between polls, and null whenever it begins. It begins when it has `blocks` multiprocessors,
// which may come one by one, and keeps them until it is over.
using Kept = std::shared_ptr<void>;
using Act = std::function<bool(Kept& kept)>;
cudaError_t put_until(cudaStream_t stream, Act act, int blocks = 0);
// Counts a call that needs a context. A call of a thread that has chosen no GPU makes one on GPU 0 and is
// tallied as "calls without a GPU".
void touch();
// How often `what` was tallied. From any thread.
int tallied(const std::string& what);

}  // namespace cuda_on_cpu
