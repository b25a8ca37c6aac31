#include "cli/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "cli/report.h"
#include "planner/verify.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

struct Change {
  std::string text;
  std::function<void(planner::Job&)> apply;
};

std::vector<Change> changes(const planner::Job& job) {
  std::vector<Change> list;
  auto add = [&](std::string text, std::function<void(planner::Job&)> apply) {
    list.push_back({std::move(text), std::move(apply)});
  };
  const planner::Hints& h = job.parallel;
  if (job.train.recompute != ir::Recompute::full)
    add("--recompute full",
        [](planner::Job& j) { j.train.recompute = ir::Recompute::full, j.train.recompute_layers = -1; });
  if (h.zero < 1 && h.dp > 1) add("--zero 1", [](planner::Job& j) { j.parallel.zero = 1; });
  if (h.zero < 3 && h.dp > 1 && h.pp == 1) add("--zero 3", [](planner::Job& j) { j.parallel.zero = 3; });
  if (h.micro_batch > 1) add("--micro-batch 1", [](planner::Job& j) { j.parallel.micro_batch = 1; });
  if (h.dp % 2 == 0 && h.tp * 2 <= job.cluster.node.gpus) {
    add(fmt::format("--tp {} --dp {}", h.tp * 2, h.dp / 2),
        [](planner::Job& j) { j.parallel.tp *= 2, j.parallel.dp /= 2; });
  }
  if (h.dp % 2 == 0 && job.model.layers >= 2 * h.pp) {
    add(fmt::format("--pp {} --dp {}", h.pp * 2, h.dp / 2),
        [](planner::Job& j) { j.parallel.pp *= 2, j.parallel.dp /= 2, j.parallel.stage_layers.clear(); });
  }
  return list;
}

// The most any class needs, or nothing where the changed job is not a legal one.
std::optional<int64_t> peak(planner::Job job) {
  try {
    ir::Plan plan = planner::compile(planner::resolve(std::move(job)));
    int64_t most = 0;
    for (const planner::MemoryUse& use : planner::memory_use(plan)) most = std::max(most, use.total);
    return most;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string advise(const planner::Job& job) {
  int64_t limit = job.cluster.device.memory_bytes;
  std::vector<std::string> found;
  std::vector<Change> all = changes(job);
  for (const Change& change : all) {
    planner::Job changed = job;
    change.apply(changed);
    std::optional<int64_t> bytes = peak(changed);
    if (bytes && *bytes <= limit)
      found.push_back(fmt::format("{} ({})", change.text, format_bytes(static_cast<double>(*bytes))));
    if (found.size() == 2) break;
  }
  if (!found.empty()) return fmt::format("; it would fit with {}", fmt::join(found, " or with "));
  planner::Job changed = job;
  std::vector<std::string> names;
  for (const Change& change : all) {
    planner::Job next = changed;
    change.apply(next);
    std::optional<int64_t> bytes = peak(next);
    if (!bytes) continue;
    changed = next;
    names.push_back(change.text);
    if (*bytes <= limit)
      return fmt::format("; it would fit with {} ({})", fmt::join(names, " "),
                         format_bytes(static_cast<double>(*bytes)));
  }
  return "; no other layout tried here fits: use more GPUs";
}

}  // namespace boxcar::cli
