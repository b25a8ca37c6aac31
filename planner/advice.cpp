#include "planner/advice.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "backends/machines/device_profile.h"
#include "planner/sharding.h"
#include "planner/sizes.h"
#include "planner/verify.h"
#include "sbp/error.h"

namespace boxcar::planner {
namespace {

using Change = std::function<void(Job&)>;

std::vector<Change> changes(const Job& job) {
  std::vector<Change> list;
  const Hints& h = job.parallel;
  if (ir::models::has_attention_core(job.model))
    list.push_back([](Job& j) { j.model->flash = j.train.flash = true; });
  if (h.tp > 1 && !h.sequence_parallel) list.push_back([](Job& j) { j.parallel.sequence_parallel = true; });
  if (job.train.recompute != ir::Recompute::full)
    list.push_back([](Job& j) { j.train.recompute = ir::Recompute::full, j.train.recompute_layers.clear(); });
  if (!sharding_of(h).states && h.dp > 1) list.push_back([](Job& j) { j.parallel.zero = 1; });
  if (!sharding_of(h).parameters && h.dp > 1 && h.pp == 1)
    list.push_back([](Job& j) { j.parallel.zero = 3; });
  if (h.micro_batch > 1) list.push_back([](Job& j) { j.parallel.micro_batch = 1; });
  if (h.dp % 2 == 0) list.push_back([](Job& j) { j.parallel.cp *= 2, j.parallel.dp /= 2; });
  if (h.dp % 2 == 0 && h.tp * 2 <= job.cluster.node.gpus)
    list.push_back([](Job& j) { j.parallel.tp *= 2, j.parallel.dp /= 2; });
  if (h.dp % 2 == 0 && job.model.layers() >= 2 * h.pp)
    list.push_back([](Job& j) { j.parallel.pp *= 2, j.parallel.dp /= 2, j.parallel.stage_layers.clear(); });
  return list;
}

// By class: the bytes that a device needs.
std::vector<int64_t> totals(const ResolvedJob& job) {
  std::vector<int64_t> bytes;
  for (const MemoryUse& use : memory_use(compile(job))) bytes.push_back(use.total);
  return bytes;
}

// The job with fewer micro-batches, where the pipeline has no more in flight with further ones.
ResolvedJob with_bounded_micro_batches(const ResolvedJob& resolved) {
  Job job = resolved;
  const Hints& h = job.parallel;
  const int most = 4 * h.pp * h.virtual_stages;
  if (h.schedule != Schedule::one_f_one_b || job.train.micro_batches <= most) return resolved;
  job.global_batch = int64_t{most} * h.dp * h.micro_batch;
  return resolve(std::move(job));
}

ResolvedJob with_layers(Job job, int layers) {
  std::vector<int>& stages = job.parallel.stage_layers;
  std::fill(stages.begin(), stages.end(), layers);
  job.model.layers() = layers * static_cast<int>(stages.size());
  return resolve(std::move(job));
}

// Every layer of a stage needs as much as the one before, so the needs of 4 and 6 layers give those of all.
// Not for a model with a decoder, whose share of the layers would change.
int64_t extrapolated_peak(const Job& job) {
  const Hints& h = job.parallel;
  const std::vector<int64_t> four = totals(with_layers(job, 4)), six = totals(with_layers(job, 6));
  int64_t most = 0;
  for (size_t c = 0; c < four.size(); ++c) {
    const size_t stage = c * static_cast<size_t>(h.pp) / four.size();
    int64_t layers = 0;
    for (size_t v = stage; v < h.stage_layers.size(); v += static_cast<size_t>(h.pp))
      layers += h.stage_layers[v];
    const double chunks = static_cast<double>(layers) / h.virtual_stages;
    const double bytes =
        static_cast<double>(four[c]) + (chunks - 4) * static_cast<double>(six[c] - four[c]) / 2;
    most = std::max(most, static_cast<int64_t>(bytes));
  }
  return most;
}

// The most bytes that a device needs, extrapolated where they are well above `limit`; nothing where the
// changed job is not legal.
std::optional<int64_t> peak(const Job& changed, int64_t limit) {
  try {
    const ResolvedJob job = with_bounded_micro_batches(resolve(changed));
    const std::vector<int>& stages = job->parallel.stage_layers;
    const bool alike = job->train.recompute_layers.empty() && ir::models::decoder_layers(job->model) == 0 &&
                       *std::max_element(stages.begin(), stages.end()) > 8;
    if (alike) {
      if (const int64_t guess = extrapolated_peak(job); guess > limit + limit / 50) return guess;
    }
    const std::vector<int64_t> bytes = totals(job);
    return *std::max_element(bytes.begin(), bytes.end());
  } catch (const TooLarge&) {
    return std::numeric_limits<int64_t>::max();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<FittingJob> fitting_jobs(const Job& job) {
  const int64_t limit = job.cluster.device->memory_bytes;
  std::vector<FittingJob> found;
  const std::vector<Change> all = changes(job);
  for (const Change& change : all) {
    Job changed = job;
    change(changed);
    const std::optional<int64_t> bytes = peak(changed, limit);
    if (bytes && *bytes <= limit) found.push_back({changed, *bytes});
    if (found.size() == 2) break;
  }
  if (!found.empty()) return found;
  Job together = job;
  for (const Change& change : all) {
    Job next = together;
    change(next);
    const std::optional<int64_t> bytes = peak(next, limit);
    if (!bytes) continue;
    together = next;
    if (*bytes <= limit) return {{together, *bytes}};
  }
  return {};
}

}  // namespace boxcar::planner
