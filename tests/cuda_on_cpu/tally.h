// What the stand-ins' acts tell the tests: how often something ran, and how long an act took, by its own
// word.
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

// What the machine says of itself. While nobody uses it.
struct Machine {
  int gpus = 1, driver = 0;
  std::vector<std::string> names = {};  // of GPUs, by number; those that have none here are all alike
  bool cudnn = true;                    // whether it starts
};
void pretend(const Machine& machine);
Machine pretended();

// What a kernel says it takes, and each of its threads more.
constexpr double kernel_milliseconds = 2e-3, thread_milliseconds = 1e-6;

// Of the stream whose act is running: what events there see of time. Only in an act.
void spend(double milliseconds);
void tally(const std::string& what);
// An act of a library; it may run again and again, where it is captured.
cudaError_t put(cudaStream_t stream, std::function<void()> act);
// One that waits for others, without holding anybody up: it is asked until it says that it is over. `kept` is
// its own meanwhile, and null whenever it begins.
using Kept = std::shared_ptr<void>;
using Act = std::function<bool(Kept& kept)>;
cudaError_t put_until(cudaStream_t stream, Act act);
// From any thread.
int tallied(const std::string& what);

}  // namespace cuda_on_cpu
