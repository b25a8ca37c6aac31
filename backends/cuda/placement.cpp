#include "backends/cuda/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

Error refuse(const std::string& why) { return Error::cannot_run("cuda", why); }

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// A whole number that the environment has under the first of these names; `otherwise` where it has none.
int environment(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names)
    if (const char* text = std::getenv(name); text && *text) return std::atoi(text);
  return otherwise;
}

}  // namespace

std::vector<int> place(const Gpus& gpus, const Wanted& wanted) {
  if (gpus.driver == 0)
    throw refuse(
        fmt::format("no NVIDIA driver answers on this machine; install one for CUDA {} or later, or use "
                    "--backend cpu",
                    version(gpus.runtime)));
  if (gpus.driver / 1000 < gpus.runtime / 1000)
    throw refuse(fmt::format(
        "the driver is for CUDA {}, this program for CUDA {}; update the driver, or build with an "
        "older CUDA",
        version(gpus.driver), version(gpus.runtime)));
  const auto count = static_cast<int>(gpus.names.size());
  if (count == 0)
    throw refuse("no GPU is visible to this process (look at CUDA_VISIBLE_DEVICES, or use --backend cpu)");
  for (const std::string& name : gpus.names)
    if (name != gpus.names[0])
      throw refuse(fmt::format("GPUs of two types, {} and {}; name those of one in CUDA_VISIBLE_DEVICES",
                               gpus.names[0], name));
  const int begin = wanted.process * count / wanted.processes,
            end = (wanted.process + 1) * count / wanted.processes;
  if (begin == end)
    throw refuse(fmt::format("{} processes on this machine for {} {}; start one for each GPU",
                             wanted.processes, count, count == 1 ? "GPU" : "GPUs"));
  if (wanted.devices > end - begin && !wanted.share)
    throw refuse(
        fmt::format("{} devices for {} {}; use more GPUs or fewer devices, or --share-gpus to put several "
                    "devices on one",
                    wanted.devices, end - begin, end - begin == 1 ? "GPU" : "GPUs"));
  std::vector<int> result;
  for (int d = 0; d < wanted.devices; ++d)
    result.push_back(wanted.devices <= end - begin ? begin + d : begin + d * (end - begin) / wanted.devices);
  return result;
}

Wanted processes_here(int devices) {
  Wanted wanted;
  wanted.devices = devices;
  wanted.processes =
      std::max(1, environment({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}, 1));
  wanted.process =
      std::clamp(environment({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, 0), 0,
                 wanted.processes - 1);
  return wanted;
}

void check_memory(int gpu, int64_t needed, int64_t free, int64_t total) {
  if (needed <= free) return;
  const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  throw Error::cannot_run(fmt::format("cuda: GPU {}", gpu),
                          fmt::format("the plan needs {:.2f} GiB, {:.2f} of {:.2f} GiB are free; use smaller "
                                      "micro-batches, recomputation, "
                                      "sharding or more devices",
                                      gib(needed), gib(free), gib(total)));
}

}  // namespace boxcar::backends::cuda
