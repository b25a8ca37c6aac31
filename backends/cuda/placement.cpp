#include "backends/cuda/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

Error refuse(const std::string& why) { return Error::cannot_run("cuda", why); }

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::set<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
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
  if (wanted.processes > count)
    throw refuse(fmt::format("{} processes for {} {} that they all see; start one for each GPU",
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

Wanted sharers(std::span<const std::string> ids, int process) {
  Wanted wanted{.processes = 0};
  const auto at = static_cast<size_t>(process);
  const std::set<std::string> mine = words_of(ids[at]);
  for (size_t p = 0; p < ids.size(); ++p) {
    const std::set<std::string> theirs = words_of(ids[p]);
    if (theirs == mine) {
      if (p < at) ++wanted.process;
      ++wanted.processes;
      continue;
    }
    for (const std::string& id : theirs)
      if (mine.contains(id))
        throw refuse(
            fmt::format("processes {} and {} both see GPU {}, and others that the other one does not; set "
                        "CUDA_VISIBLE_DEVICES alike for all of a machine, or to GPUs of its own for each",
                        std::min(p, at), std::max(p, at), id));
  }
  return wanted;
}

namespace {

double gb(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

constexpr const char* mend = "use smaller micro-batches, recomputation, sharding or more devices";

}  // namespace

void check_memory(int gpu, int64_t needed, int64_t free, int64_t total, std::string_view who) {
  if (needed <= free) return;
  throw Error::cannot_run(fmt::format("cuda: GPU {}", gpu),
                          fmt::format("{} {:.2f} GB, {:.2f} of {:.2f} GB are free; {}", who, gb(needed),
                                      gb(free), gb(total), mend));
}

void check_memory(int gpu, const Needed& needed, int64_t free, int64_t total) {
  if (needed.plan + needed.libraries + needed.nccl <= free) return;
  std::string parts = fmt::format("the plan needs {:.2f} GB", gb(needed.plan));
  if (needed.libraries > 0)
    parts += fmt::format(", libraries {:.2f} GB (--library-memory)", gb(needed.libraries));
  if (needed.nccl > 0) parts += fmt::format(", NCCL's buffers {:.2f} GB", gb(needed.nccl));
  throw Error::cannot_run(
      fmt::format("cuda: GPU {}", gpu),
      fmt::format("{}, {:.2f} of {:.2f} GB are free; {}", parts, gb(free), gb(total), mend));
}

void no_piece(int gpu, int64_t needed, int64_t free) {
  throw Error::cannot_run(
      fmt::format("cuda: GPU {}", gpu),
      fmt::format("{:.2f} GB are wanted in one piece, {:.2f} GB are free in smaller ones; {}", gb(needed),
                  gb(free), mend));
}

}  // namespace boxcar::backends::cuda
