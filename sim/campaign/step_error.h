// The error of simulated step times against published ones: the error bar of a simulated step.
//
//   const ErrorBar bar = error_bar("megatron", "a100-sxm-80g", 1024);  // 41 steps, 5.0 %
//   step_range(6.0, bar.error.share)                                   // {5.71, 6.32}: s
//
// An error is simulated / published - 1, as in docs/fidelity.md. `share` is the 90th percentile of its
// absolute value. So nine of ten published steps t have s / (1 + share) <= t <= s / (1 - share) for the
// simulated step s.
//
// A bar is that of the framework on the device if enough of its steps were compared; otherwise of all
// frameworks on the device; otherwise the widest that any device has. Mixtures are left out unless the model
// is one. Too few steps of the framework count if their error is larger. `boxcar`, which adds nothing to a
// plan, is no framework of published runs: its rows are all these steps simulated as runs of boxcar.
//
// `experiments/step_errors` prints the table from experiments/predictions/ and experiments/data/, and
// tests/cli/step_errors_test.cpp compares.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace boxcar::campaign {

// With fewer steps, the 90th percentile is the largest error: one step decides it.
constexpr int enough_steps = 11;

// Ends the device's text for mixtures of experts: "h100-sxm in fp8 with experts".
constexpr std::string_view with_experts = " with experts";

struct StepError {
  std::string_view framework;  // "all": of every framework
  std::string_view device;     // see error_bar
  int least_gpus = 1;          // 1: steps on 1 to 8 GPUs; 9: on more
  int steps = 0;               // steps compared
  double share = 0;            // above 0, below 1
};

std::span<const StepError> step_errors();

struct ErrorBar {
  StepError error;        // the row of the table
  std::string device;     // the device asked for
  int device_steps = 0;   // compared on that device
  bool of_other = false;  // too few steps: the widest of all devices
};

// `framework`: by name; any other name, such as a file, has no rows of its own. `device`: by name, followed
// by its type of products unless that has 16 bits, and "with experts" if the model has some: "h100-sxm",
// "h100-sxm in fp8", "h100-sxm in fp8 with experts".
ErrorBar error_bar(std::string_view framework, const std::string& device, int gpus);

// The shortest and the longest step that the error allows.
std::pair<double, double> step_range(double simulated_seconds, double share);

// "9 of 10 steps of megatron on more than 8 a100-sxm-80g were simulated within 5.0 % of their published time
// (41 steps)"
std::string to_text(const ErrorBar& bar);

}  // namespace boxcar::campaign
