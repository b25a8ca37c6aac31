#include "cli/advice_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "ir/units.h"
#include "planner/advice.h"

namespace boxcar::cli {
namespace {

// As flags: "--recompute full --zero 1".
std::string difference(const planner::Job& from, const planner::Job& to) {
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, int was, int is) {
    if (was != is) flags.push_back(fmt::format("--{} {}", flag, is));
  };
  const planner::Hints &a = from.parallel, &b = to.parallel;
  if (ir::models::is_fused(from.model) != ir::models::is_fused(to.model))
    flags.push_back("--attention flash");
  if (a.sequence_parallel != b.sequence_parallel) flags.push_back("--sequence-parallel");
  if (from.train.recompute != to.train.recompute) flags.push_back("--recompute full");
  add("zero", a.zero, b.zero);
  add("micro-batch", a.micro_batch, b.micro_batch);
  add("context-parallel", a.cp, b.cp);
  add("tp", a.tp, b.tp);
  add("pp", a.pp, b.pp);
  add("dp", a.dp, b.dp);
  return fmt::format("{}", fmt::join(flags, " "));
}

}  // namespace

std::string advice_text(const planner::Job& job) {
  std::vector<std::string> found;
  for (const planner::FittingJob& fits : planner::fitting_jobs(job))
    found.push_back(
        fmt::format("{} ({})", difference(job, fits.job), ir::format_bytes(static_cast<double>(fits.bytes))));
  return found.empty() ? "; no other layout tried here fits: use more GPUs"
                       : fmt::format("; it would fit with {}", fmt::join(found, " or with "));
}

}  // namespace boxcar::cli
