#include "sim/campaign/step_error.h"

#include <fmt/format.h>

#include <algorithm>

namespace boxcar::campaign {
namespace {

// Printed by `experiments/step_errors`; the lines of boxcar by `experiments/step_errors --boxcar`, which
// simulates.
constexpr StepError table[] = {
    {"all", "a100-sxm-40g", 1, 34, 0.071},
    {"all", "a100-sxm-40g", 9, 16, 0.046},
    {"all", "a100-sxm-40g in fp32", 1, 3, 0.043},
    {"all", "a100-sxm-80g", 1, 957, 0.130},
    {"all", "a100-sxm-80g", 9, 344, 0.153},
    {"all", "a100-sxm-80g with experts", 1, 19, 0.263},
    {"all", "b200-sxm", 1, 13, 0.229},
    {"all", "b200-sxm in fp8", 1, 3, 0.047},
    {"all", "b200-sxm in fp8", 9, 1, 0.020},
    {"all", "b200-sxm in fp8 with experts", 1, 3, 0.195},
    {"all", "b200-sxm in fp8 with experts", 9, 2, 0.263},
    {"all", "b200-sxm with experts", 1, 7, 0.177},
    {"all", "b200-sxm with experts", 9, 3, 0.508},
    {"all", "b300-sxm in fp8 with experts", 1, 2, 0.042},
    {"all", "b300-sxm in fp8 with experts", 9, 3, 0.522},
    {"all", "b300-sxm with experts", 9, 2, 0.395},
    {"all", "gb200", 1, 36, 0.277},
    {"all", "gb200 in fp8", 1, 1, 0.159},
    {"all", "gb200 in fp8", 9, 6, 0.283},
    {"all", "gb200 in fp8 with experts", 1, 5, 0.520},
    {"all", "gb200 in fp8 with experts", 9, 7, 0.391},
    {"all", "gb200 with experts", 1, 5, 0.395},
    {"all", "gb200 with experts", 9, 5, 0.353},
    {"all", "gb300 in fp8", 1, 2, 0.074},
    {"all", "gb300 in fp8", 9, 10, 0.145},
    {"all", "gb300 in fp8 with experts", 1, 1, 0.374},
    {"all", "gb300 in fp8 with experts", 9, 4, 0.286},
    {"all", "gb300 with experts", 9, 1, 0.280},
    {"all", "gh200-96g in fp32", 1, 4, 0.331},
    {"all", "gh200-96g in fp32", 9, 10, 0.361},
    {"all", "h100-sxm", 1, 81, 0.210},
    {"all", "h100-sxm", 9, 15, 0.168},
    {"all", "h100-sxm in fp32", 1, 8, 0.109},
    {"all", "h100-sxm in fp8", 1, 25, 0.134},
    {"all", "h100-sxm in fp8", 9, 52, 0.103},
    {"all", "h100-sxm in fp8 with experts", 9, 5, 0.581},
    {"all", "h100-sxm with experts", 1, 7, 0.512},
    {"all", "h100-sxm with experts", 9, 2, 0.288},
    {"all", "h200-sxm in fp8", 9, 2, 0.077},
    {"all", "v100-sxm2-16g", 1, 68, 0.160},
    {"all", "v100-sxm2-16g", 9, 66, 0.272},
    {"all", "v100-sxm2-16g in fp32", 1, 52, 0.098},
    {"all", "v100-sxm2-16g in fp32", 9, 50, 0.074},
    {"all", "v100-sxm3-32g", 1, 4, 0.114},
    {"composer", "a100-sxm-40g", 1, 34, 0.071},
    {"composer", "a100-sxm-40g", 9, 16, 0.046},
    {"composer", "a100-sxm-80g", 1, 45, 0.091},
    {"composer", "h100-sxm", 1, 25, 0.158},
    {"composer", "h100-sxm", 9, 7, 0.127},
    {"composer", "h100-sxm in fp8", 1, 3, 0.134},
    {"deepspeed", "a100-sxm-80g", 1, 720, 0.123},
    {"deepspeed", "a100-sxm-80g", 9, 63, 0.215},
    {"deepspeed", "gh200-96g in fp32", 1, 4, 0.331},
    {"deepspeed", "gh200-96g in fp32", 9, 10, 0.361},
    {"deepspeed", "v100-sxm2-16g", 1, 2, 0.339},
    {"deepspeed", "v100-sxm2-16g", 9, 4, 0.386},
    {"fsdp", "a100-sxm-80g", 9, 8, 0.047},
    {"internevo", "a100-sxm-80g", 1, 4, 0.075},
    {"internevo", "a100-sxm-80g", 9, 28, 0.131},
    {"jax", "a100-sxm-80g", 9, 5, 0.408},
    {"jax", "h100-sxm", 1, 1, 0.036},
    {"jax", "h100-sxm", 9, 4, 0.482},
    {"jax", "h100-sxm in fp8", 9, 2, 0.095},
    {"megatron", "a100-sxm-80g", 1, 143, 0.186},
    {"megatron", "a100-sxm-80g", 9, 47, 0.054},
    {"megatron", "a100-sxm-80g with experts", 1, 19, 0.263},
    {"megatron", "gb200", 1, 23, 0.277},
    {"megatron", "gb200 in fp8 with experts", 1, 1, 0.520},
    {"megatron", "gb200 with experts", 1, 5, 0.395},
    {"megatron", "h100-sxm", 1, 37, 0.255},
    {"megatron", "h100-sxm with experts", 1, 7, 0.512},
    {"megatron", "v100-sxm2-16g", 1, 8, 0.039},
    {"megatron", "v100-sxm2-16g", 9, 10, 0.360},
    {"megatron", "v100-sxm3-32g", 1, 4, 0.114},
    {"megatron-fused-loss", "a100-sxm-80g", 1, 9, 0.225},
    {"megatron-fused-loss", "b200-sxm", 1, 13, 0.229},
    {"megatron-fused-loss", "b200-sxm with experts", 1, 7, 0.177},
    {"megatron-fused-loss", "gb200", 1, 3, 0.284},
    {"megatron-fused-loss", "h100-sxm", 1, 3, 0.240},
    {"megatron-nondeterministic", "a100-sxm-80g", 1, 32, 0.175},
    {"megatron-nondeterministic", "gb200", 1, 10, 0.145},
    {"megatron-nondeterministic", "h100-sxm", 1, 10, 0.195},
    {"nemo", "a100-sxm-80g", 1, 4, 0.036},
    {"nemo", "a100-sxm-80g", 9, 28, 0.201},
    {"nemo-24", "b200-sxm in fp8", 1, 3, 0.047},
    {"nemo-24", "b200-sxm in fp8", 9, 1, 0.020},
    {"nemo-24", "b200-sxm in fp8 with experts", 1, 3, 0.195},
    {"nemo-24", "b200-sxm in fp8 with experts", 9, 2, 0.263},
    {"nemo-24", "b200-sxm with experts", 9, 3, 0.508},
    {"nemo-24", "b300-sxm in fp8 with experts", 1, 2, 0.042},
    {"nemo-24", "b300-sxm in fp8 with experts", 9, 3, 0.522},
    {"nemo-24", "b300-sxm with experts", 9, 2, 0.395},
    {"nemo-24", "gb200 in fp8", 1, 1, 0.159},
    {"nemo-24", "gb200 in fp8", 9, 6, 0.283},
    {"nemo-24", "gb200 in fp8 with experts", 1, 4, 0.330},
    {"nemo-24", "gb200 in fp8 with experts", 9, 7, 0.391},
    {"nemo-24", "gb200 with experts", 9, 5, 0.353},
    {"nemo-24", "gb300 in fp8", 1, 2, 0.074},
    {"nemo-24", "gb300 in fp8", 9, 10, 0.145},
    {"nemo-24", "gb300 in fp8 with experts", 1, 1, 0.374},
    {"nemo-24", "gb300 in fp8 with experts", 9, 4, 0.286},
    {"nemo-24", "gb300 with experts", 9, 1, 0.280},
    {"nemo-24", "h100-sxm in fp8", 1, 22, 0.134},
    {"nemo-24", "h100-sxm in fp8", 9, 50, 0.110},
    {"nemo-24", "h100-sxm in fp8 with experts", 9, 5, 0.581},
    {"nemo-24", "h100-sxm with experts", 9, 2, 0.288},
    {"ngc", "v100-sxm2-16g", 1, 16, 0.163},
    {"ngc", "v100-sxm2-16g", 9, 8, 0.211},
    {"ngc", "v100-sxm2-16g in fp32", 1, 15, 0.051},
    {"ngc", "v100-sxm2-16g in fp32", 9, 12, 0.088},
    {"oneflow", "v100-sxm2-16g", 1, 14, 0.077},
    {"oneflow", "v100-sxm2-16g", 9, 16, 0.165},
    {"oneflow", "v100-sxm2-16g in fp32", 1, 9, 0.048},
    {"oneflow", "v100-sxm2-16g in fp32", 9, 10, 0.054},
    {"oneflow-ops", "v100-sxm2-16g", 1, 28, 0.151},
    {"oneflow-ops", "v100-sxm2-16g", 9, 28, 0.276},
    {"oneflow-ops", "v100-sxm2-16g in fp32", 1, 28, 0.102},
    {"oneflow-ops", "v100-sxm2-16g in fp32", 9, 28, 0.074},
    {"pytorch", "a100-sxm-40g in fp32", 1, 3, 0.043},
    {"pytorch", "h100-sxm", 1, 5, 0.148},
    {"pytorch", "h100-sxm in fp32", 1, 8, 0.109},
    {"pytorch-compiled", "a100-sxm-80g", 9, 4, 0.333},
    {"pytorch-compiled", "h100-sxm", 9, 4, 0.159},
    {"pytorch-compiled", "h200-sxm in fp8", 9, 2, 0.077},
    {"scaling", "a100-sxm-80g", 9, 113, 0.153},
    {"scaling-rms", "a100-sxm-80g", 9, 48, 0.095},
    {"boxcar", "a100-sxm-40g", 1, 18, 0.121},
    {"boxcar", "a100-sxm-40g", 9, 5, 0.076},
    {"boxcar", "a100-sxm-40g in fp32", 1, 3, 0.133},
    {"boxcar", "a100-sxm-80g", 1, 942, 0.537},
    {"boxcar", "a100-sxm-80g", 9, 330, 0.341},
    {"boxcar", "a100-sxm-80g with experts", 1, 19, 0.741},
    {"boxcar", "b200-sxm", 1, 13, 0.269},
    {"boxcar", "b200-sxm in fp8", 1, 3, 0.048},
    {"boxcar", "b200-sxm in fp8 with experts", 1, 3, 0.242},
    {"boxcar", "b200-sxm in fp8 with experts", 9, 1, 0.269},
    {"boxcar", "b200-sxm with experts", 1, 7, 0.267},
    {"boxcar", "b300-sxm in fp8 with experts", 9, 3, 0.526},
    {"boxcar", "b300-sxm with experts", 9, 2, 0.401},
    {"boxcar", "gb200", 1, 36, 0.629},
    {"boxcar", "gb200 in fp8", 1, 1, 0.160},
    {"boxcar", "gb200 in fp8", 9, 1, 0.059},
    {"boxcar", "gb200 in fp8 with experts", 1, 5, 0.794},
    {"boxcar", "gb200 in fp8 with experts", 9, 7, 0.405},
    {"boxcar", "gb200 with experts", 1, 5, 0.791},
    {"boxcar", "gb200 with experts", 9, 4, 0.365},
    {"boxcar", "gb300 in fp8", 1, 2, 0.075},
    {"boxcar", "gb300 in fp8 with experts", 9, 2, 0.022},
    {"boxcar", "gb300 with experts", 9, 1, 0.295},
    {"boxcar", "gh200-96g in fp32", 1, 4, 0.329},
    {"boxcar", "gh200-96g in fp32", 9, 10, 0.348},
    {"boxcar", "h100-sxm", 1, 74, 0.592},
    {"boxcar", "h100-sxm", 9, 9, 0.454},
    {"boxcar", "h100-sxm in fp32", 1, 8, 0.239},
    {"boxcar", "h100-sxm in fp8", 1, 25, 0.100},
    {"boxcar", "h100-sxm in fp8", 9, 41, 0.106},
    {"boxcar", "h100-sxm in fp8 with experts", 9, 2, 0.594},
    {"boxcar", "h100-sxm with experts", 1, 7, 0.819},
    {"boxcar", "h100-sxm with experts", 9, 2, 0.318},
    {"boxcar", "h200-sxm in fp8", 9, 2, 0.096},
    {"boxcar", "v100-sxm2-16g", 1, 58, 0.284},
    {"boxcar", "v100-sxm2-16g", 9, 56, 0.360},
    {"boxcar", "v100-sxm2-16g in fp32", 1, 45, 0.077},
    {"boxcar", "v100-sxm2-16g in fp32", 9, 42, 0.096},
    {"boxcar", "v100-sxm3-32g", 1, 4, 0.084},
};

const StepError* find(std::string_view framework, std::string_view device, int least_gpus) {
  for (const StepError& row : table)
    if (row.framework == framework && row.device == device && row.least_gpus == least_gpus) return &row;
  return nullptr;
}

// Mixtures have larger errors, which say nothing of a dense model.
const StepError& widest(std::string_view framework, bool mixture, int least_gpus) {
  const auto share = [&](const StepError& row) {
    const bool alike = mixture || !row.device.ends_with(with_experts);
    return alike && row.framework == framework && row.least_gpus == least_gpus ? row.share : 0;
  };
  return *std::max_element(std::begin(table), std::end(table),
                           [&](const StepError& a, const StepError& b) { return share(a) < share(b); });
}

// "more than 8 h100-sxm"
std::string place_text(const StepError& error, std::string_view device) {
  return fmt::format("{} 8 {}", error.least_gpus > 1 ? "more than" : "up to", device);
}

std::string steps_text(int steps) { return fmt::format("{} step{}", steps, steps == 1 ? "" : "s"); }

}  // namespace

std::span<const StepError> step_errors() { return table; }

ErrorBar error_bar(std::string_view framework, const std::string& device, int gpus) {
  const int least_gpus = gpus > 8 ? 9 : 1;
  const char* any = framework == "boxcar" ? "boxcar" : "all";
  const StepError* of_device = find(any, device, least_gpus);
  const bool enough = of_device && of_device->steps >= enough_steps;
  const StepError& of_all = enough ? *of_device : widest(any, device.ends_with(with_experts), least_gpus);
  const StepError* own = find(framework, device, least_gpus);
  if (own && (own->steps >= enough_steps || own->share > of_all.share))
    return {*own, device, own->steps, false};
  return {of_all, device, of_device ? of_device->steps : 0, !enough};
}

std::pair<double, double> step_range(double simulated_seconds, double share) {
  return {simulated_seconds / (1 + share), simulated_seconds / (1 - share)};
}

std::string to_text(const ErrorBar& bar) {
  const StepError& error = bar.error;
  const double percent = 100 * error.share;
  const std::string boxcar =
      error.framework == "boxcar" ? "; simulated as boxcar's, --stack names your framework" : "";
  if (bar.of_other && error.device == bar.device)
    return fmt::format("only {} on {} {} compared, and simulated within {:.1f} % of {} published time{}",
                       steps_text(bar.device_steps), place_text(error, bar.device),
                       bar.device_steps > 1 ? "were" : "was", percent, bar.device_steps > 1 ? "their" : "its",
                       boxcar);
  if (bar.of_other)
    return fmt::format(
        "{} published step{} on {} {} compared: as wide as for the worst device, {:.1f} % ({} "
        "on {}{})",
        bar.device_steps == 0 ? "no" : fmt::format("only {}", bar.device_steps),
        bar.device_steps > 1 ? "s" : "", place_text(error, bar.device), bar.device_steps > 1 ? "were" : "was",
        percent, steps_text(error.steps), place_text(error, error.device), boxcar);
  const bool any = error.framework == "all" || error.framework == "boxcar";
  return fmt::format(
      "9 of 10 steps of {} on {} were simulated within {:.1f} % of their published time ({}{})",
      any ? "any framework" : error.framework, place_text(error, error.device), percent,
      steps_text(error.steps), boxcar);
}

}  // namespace boxcar::campaign
