#include "planner/verify.h"

#include <fmt/format.h>

#include "planner/dry_run.h"
#include "planner/memory_check.h"
#include "planner/overwrite_check.h"
#include "sbp/error.h"

namespace boxcar::planner {
namespace {

std::string bytes_text(int64_t bytes) {
  constexpr const char* units[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

std::string kinds_text(const MemoryUse& use) {
  std::string text;
  for (size_t k = 0; k < use.by_kind.size(); ++k) {
    if (use.by_kind[k] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", to_text(static_cast<ir::MemoryKind>(k)),
                        bytes_text(use.by_kind[k]));
  }
  return text;
}

// Finds the class furthest above the limit, if there is one.
void check_limit(const ir::Plan& plan, const StepView& classes, int64_t limit) {
  std::vector<MemoryUse> uses = memory_use(plan);
  const MemoryUse* worst = nullptr;
  for (const MemoryUse& use : uses) {
    if (use.total > limit && (!worst || use.total > worst->total)) worst = &use;
  }
  if (!worst) return;
  throw Error::cannot_run(
      classes.instance_text(worst->cls),
      fmt::format("needs {} of {} memory, {} too much ({})", bytes_text(worst->total), bytes_text(limit),
                  bytes_text(worst->total - limit), kinds_text(*worst)));
}

[[noreturn]] void refuse(const StepView& view, const DryRun& run) {
  throw Error::cannot_run(view.plan->name,
                          "would deadlock, these acts wait for one another:\n" + to_text(view, run.cycle));
}

}  // namespace

void verify(const ir::Plan& plan, int64_t memory_bytes) {
  StepView classes = view_of_classes(plan);
  if (memory_bytes > 0) check_limit(plan, classes, memory_bytes);
  check_memory(plan);
  check_overwrites(plan);
  DryRun run = dry_run(classes);
  if (run.ended) return;
  if (classes.exact) refuse(classes, run);
  StepView devices = view_of_devices(plan);
  run = dry_run(devices);
  if (!run.ended) refuse(devices, run);
}

}  // namespace boxcar::planner
