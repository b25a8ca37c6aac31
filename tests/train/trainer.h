// Really trains laid-out graphs, all devices in this process, to compare the runs of two plans. Data and
// weights depend only on names and positions.
//
//   const Outcome alone = train(lay_out(single), start, 20);
//   const Outcome split = train(lay_out(planner::resolve(job)), start, 20);
//   expect_same(split, alone, 1e-9);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/reference.h"
#include "backends/host/initial.h"
#include "planner/laid_out.h"

namespace boxcar::tests {

using backends::cpu::HostTensor;

struct Start {
  int64_t seed = 1;
  std::function<backends::host::InitialRule(const std::string& tensor)> rule;
  // An element of an input's tensor for the whole batch of a step, by its row-major position.
  std::function<double(const std::string& input, int64_t step, int64_t element)> data;
};

struct Outcome {
  std::vector<double> losses;               // by step: the mean over its micro-batches
  std::map<std::string, HostTensor> state;  // weights and moments, whole, by name
};

using MakeBackend = std::function<std::unique_ptr<backends::Backend>(int devices)>;
std::unique_ptr<backends::Backend> cpu_devices(int devices);

// How the runtime runs the graphs.
struct Running {
  bool graphs = false;
  std::function<double(int64_t step)> learning_rate = nullptr;
  int64_t chunk = 0;  // steps per call of the runtime; 0: all
  std::function<void()> after_chunk = nullptr;
};

// Makes `steps` optimizer steps on the threaded runtime. Expects that the plan provably ends and that all
// devices with the same part of a state hold the same bits.
Outcome train(const planner::LaidOut& laid, const Start& start, int steps,
              const MakeBackend& make_backend = cpu_devices, const Running& running = {});

// Equal within `tolerance` of the largest number of each tensor, and of each loss.
void expect_same(const Outcome& got, const Outcome& wanted, double tolerance);

// The largest difference between losses, or between elements of a tensor.
double loss_distance(const Outcome& a, const Outcome& b);
double distance(const HostTensor& a, const HostTensor& b);

}  // namespace boxcar::tests
