#include "sim/campaign/step_error.h"

#include <fmt/format.h>

namespace boxcar::campaign {
namespace {

// Printed by `experiments/step_errors`; the lines of boxcar by `experiments/step_errors --boxcar`, which
// simulates.
constexpr StepError table[] = {
    {"all", 1, 1269, 0.143},
    {"all", 9, 491, 0.184},
    {"boxcar", 1, 1214, 0.571},
    {"boxcar", 9, 450, 0.336},
    {"composer", 1, 107, 0.146},
    {"composer", 9, 23, 0.118},
    {"deepspeed", 1, 726, 0.124},
    {"deepspeed", 9, 77, 0.339},
    {"fsdp", 9, 8, 0.047},
    {"internevo", 9, 28, 0.131},
    {"jax", 9, 11, 0.408},
    {"megatron", 1, 239, 0.255},
    {"megatron", 9, 51, 0.095},
    {"megatron-fused-loss", 1, 15, 0.230},
    {"megatron-nondeterministic", 1, 52, 0.167},
    {"nemo", 9, 28, 0.201},
    {"ngc", 1, 31, 0.156},
    {"ngc", 9, 20, 0.211},
    {"oneflow", 1, 23, 0.075},
    {"oneflow", 9, 26, 0.145},
    {"oneflow-ops", 1, 56, 0.121},
    {"oneflow-ops", 9, 56, 0.184},
    {"pytorch", 1, 11, 0.095},
    {"pytorch-compiled", 9, 9, 0.333},
    {"scaling", 9, 108, 0.154},
    {"scaling-rms", 9, 46, 0.095},
};

const StepError* find(std::string_view framework, int gpus) {
  for (const StepError& row : table)
    if (row.framework == framework && (row.least_gpus > 1) == (gpus > 8)) return &row;
  return nullptr;
}

}  // namespace

std::span<const StepError> step_errors() { return table; }

const StepError& step_error(std::string_view framework, int gpus) {
  const StepError* own = find(framework, gpus);
  return own ? *own : *find("all", gpus);
}

std::pair<double, double> step_range(double simulated_seconds, const StepError& error) {
  return {simulated_seconds / (1 + error.share), simulated_seconds / (1 - error.share)};
}

std::string to_text(const StepError& error) {
  const char* where = error.least_gpus > 1 ? "more than 8 GPUs" : "up to 8 GPUs";
  const double percent = 100 * error.share;
  if (error.framework == "boxcar")
    return fmt::format(
        "9 of 10 published steps on {}, of any framework, are within {:.1f} % of steps simulated "
        "as boxcar's ({} steps; --stack names your framework)",
        where, percent, error.steps);
  const std::string of = error.framework == "all" ? "" : fmt::format(" of {}", error.framework);
  return fmt::format("9 of 10 published steps{} on {} are within {:.1f} % of the simulated ones ({} steps)",
                     of, where, percent, error.steps);
}

}  // namespace boxcar::campaign
