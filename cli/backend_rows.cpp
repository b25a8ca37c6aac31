#include "cli/backend_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "actors/profile/cpu_samples.h"
#include "actors/profile/gpu_samples.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "cli/output.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

std::unique_ptr<backends::Backend> make_cpu(const training::TrainRun&, int devices,
                                            std::unique_ptr<backends::Transport>&& transport) {
  return backends::cpu::make_cpu_backend(devices, std::move(transport));
}

measure::Samples measure_cpu(const Profiling&) {
  Progress progress;
  return profile::measure_cpu([&](const std::string& what) { progress.step(what); });
}

std::unique_ptr<backends::Backend> make_cuda(const training::TrainRun& run, int devices,
                                             std::unique_ptr<backends::Transport>&& transport) {
  return backends::cuda::make_cuda_backend(devices,
                                           {.share_gpus = run.share_gpus,
                                            .fast = run.fast,
                                            .algorithms = run.algorithms,
                                            .collective_seconds = run.collective_timeout,
                                            .library_bytes = static_cast<int64_t>(run.library_memory)},
                                           std::move(transport));
}

measure::Samples measure_cuda(const Profiling& profiling) {
  const int gpus = backends::cuda::count_gpus();
  const measure::MakeBackend make = [fast = profiling.fast](int devices) {
    return backends::cuda::make_cuda_backend(devices, {.fast = fast});
  };
  const int64_t free = make(1)->device(0).facts().free_bytes;
  Progress progress;
  return profile::measure_gpus(make, gpus, profile::gpu_sweep(free, static_cast<int64_t>(profiling.memory)),
                               [&](const std::string& what) { progress.step(what); });
}

}  // namespace

const std::vector<BackendRow>& backend_rows() {
  static const std::vector<BackendRow> rows{
      {.name = "cpu", .meant = {"host"}, .keys = {}, .make = make_cpu, .measure = measure_cpu},
      {.name = "cuda",
       .meant = {"gpu", "gpus", "nvidia"},
       .keys = {"cuda_graph", "fast", "require_fast", "algorithms", "share_gpus", "collective_timeout",
                "library_memory"},
       .gpus = true,
       .pad_vocab = 64,
       .prepare = backends::cuda::prepare_environment,
       .make = make_cuda,
       .measure = measure_cuda}};
  return rows;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendRow& row : backend_rows()) names.push_back(row.name);
  return names;
}

std::string gpu_backend_names() {
  std::vector<std::string> names;
  for (const BackendRow& row : backend_rows())
    if (row.gpus) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, " or "));
}

const BackendRow& backend_row(const std::string& name) {
  for (const BackendRow& row : backend_rows())
    if (row.name == name) return row;
  const std::vector<std::string> names = backend_names();
  throw Error::input("--backend", fmt::format("got \"{}\", expected one of {}{}", name,
                                              fmt::join(names, ", "), did_you_mean(name, names)));
}

}  // namespace boxcar::cli
