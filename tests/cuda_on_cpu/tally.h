// Counts and times that the stand-ins' acts report to the tests: how often something ran, and how long an act
// says that it took.
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

// The machine that the stand-in pretends to be. Set it only while nothing uses the machine.
struct Machine {
  int gpus = 1, driver = 0;
  std::vector<std::string> names = {};  // of GPUs, by number; unnamed GPUs are all alike
  bool cudnn = true;                    // whether cuDNN starts
};
void pretend(const Machine& machine);
Machine pretended();

// The time that a kernel reports, and the additional time per thread.
constexpr double kernel_milliseconds = 2e-3, thread_milliseconds = 1e-6;

// Advances the time that events of the running act's stream see. Only in an act.
void spend(double milliseconds);
void tally(const std::string& what);
// Puts an act of a library on the stream. A captured act may run repeatedly.
cudaError_t put(cudaStream_t stream, std::function<void()> act);
// Puts an act that may wait for others without blocking anyone: it is polled until it returns true. `kept` is
// its own state between polls, and null whenever it begins.
using Kept = std::shared_ptr<void>;
using Act = std::function<bool(Kept& kept)>;
cudaError_t put_until(cudaStream_t stream, Act act);
// How often `what` was tallied. From any thread.
int tallied(const std::string& what);

}  // namespace cuda_on_cpu
