// How far simulated step times are from published ones: the error bar of a simulated step.
//
//   const StepError& error = step_error("megatron", 1024);  // {"megatron", 9, 51, 0.095}: 51 steps, 9.5 %
//   step_range(6.0, error)                                  // {5.48, 6.63}: s
//
// An error is simulated / published - 1, as in docs/fidelity.md. `share` is the 90th percentile of its
// absolute value, over published training steps that were simulated as runs of this framework, on up to 8
// GPUs or on more. So nine of ten published steps t have s / (1 + share) <= t <= s / (1 - share) for the
// simulated step s. Frameworks without 8 such steps have the figure of all frameworks. `boxcar`, which adds
// nothing to a plan, is no framework of published runs: its figure is that of all these steps simulated as
// runs of boxcar, whatever framework they ran on.
//
// `experiments/step_errors` prints the table from experiments/predictions/ and experiments/data/, and
// tests/cli/campaign_test.cpp compares.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace boxcar::campaign {

struct StepError {
  std::string_view framework;  // "all": of every framework
  int least_gpus = 1;          // 1: steps on 1 to 8 GPUs; 9: on more
  int steps = 0;               // how many were compared
  double share = 0;            // above 0, below 1
};

std::span<const StepError> step_errors();

// Of a framework by name. Any other name, such as a file, has the figure of all.
const StepError& step_error(std::string_view framework, int gpus);

// The shortest and the longest step that the error leaves.
std::pair<double, double> step_range(double simulated_seconds, const StepError& error);

// "9 of 10 published steps of megatron on more than 8 GPUs are within 9.5 % of the simulated ones (51 steps)"
std::string to_text(const StepError& error);

}  // namespace boxcar::campaign
