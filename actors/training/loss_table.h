// Assembles the losses of a step from the devices' reports of acts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace boxcar::training {

// A step's loss is the sum over devices and the mean over micro-batches, added in that order for any order of
// arrival. Not thread-safe.
class LossTable {
 public:
  LossTable(int devices, int64_t micro_batches) : devices_(devices), micro_batches_(micro_batches) {}

  // The step's loss, when all its parts have arrived.
  std::optional<double> add(int64_t step, int64_t micro_batch, int device, double value) {
    Step& row = steps_[step];
    row.values[{micro_batch, device}] = value;
    if (static_cast<int64_t>(row.values.size()) < devices_ * micro_batches_) return std::nullopt;
    double sum = 0;
    for (const auto& [key, part] : row.values) sum += part;
    steps_.erase(step);
    return sum / static_cast<double>(micro_batches_);
  }

 private:
  struct Step {
    std::map<std::pair<int64_t, int>, double> values;
  };
  int64_t devices_, micro_batches_;
  std::map<int64_t, Step> steps_;
};

}  // namespace boxcar::training
