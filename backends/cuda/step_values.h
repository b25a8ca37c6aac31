// Values of the step that a recorded act reads, in place of those of its launch.
//
//   if (act.steps)
//     update.step_values = act.steps->vary(3, [](const Moment& moment, void* to) { ... });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backends/cuda/kernels/launch.h"
#include "backends/device.h"

namespace boxcar::backends::cuda {

class PinnedMemory;

// Values for one recording and one device: words of 8 bytes, written anew for every step.
class StepValues {
 public:
  using Write = std::function<void(const Moment& moment, void* to)>;

  explicit StepValues(int gpu);
  ~StepValues();
  StepValues(const StepValues&) = delete;
  StepValues& operator=(const StepValues&) = delete;
  // The address at which an act reads this many words, which `write` gives for a step. Throws Error (cannot
  // run) if there is no room for more.
  const void* vary(int64_t words, Write write);
  // At once: nobody reads them now.
  void write(const Moment& moment);

 private:
  struct Entry {
    int64_t at = 0;
    Write write;
  };
  const int gpu_;
  Stream stream_ = nullptr;
  void* memory_ = nullptr;
  std::unique_ptr<PinnedMemory> values_;  // which go there
  int64_t used_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace boxcar::backends::cuda
