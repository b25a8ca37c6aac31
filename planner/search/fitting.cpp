#include "planner/search/fitting.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "backends/machines/device_profile.h"
#include "planner/resolve.h"
#include "planner/search/candidates.h"
#include "planner/search/changes.h"
#include "planner/search/dimensions.h"
#include "planner/verify.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::Job;

// What the job would be without what resolution filled in, so that other degrees can be filled in anew.
Job as_asked(Job job) {
  planner::Hints& h = job.parallel;
  if (h.stage_layers == planner::balanced_layers(job.model.layers(), h.pp * h.virtual_stages))
    h.stage_layers.clear();
  return job;
}

SearchOptions all_given(const Job& job) {
  SearchOptions options;
  for (const Dimension& d : dimensions())
    if (d.key != "dp") options.pinned.insert(d.key);
  if (job.parallel.stage_layers.empty()) options.pinned.erase("stage_layers");
  return options;
}

class Fitting {
 public:
  Fitting(Job job, const backends::Cluster& described, const ActSeconds& seconds)
      : job_(as_asked(std::move(job))),
        described_(described),
        options_(all_given(job_)),
        points_(options_, static_cast<double>(job_.cluster.device->memory_bytes), seconds) {}

  std::vector<Alternative> as_it_is() const { return fitting({Alternative{.candidate = {.job = job_}}}); }

  // Without what only this job asks for: a schedule, so many recomputed layers.
  std::vector<Alternative> at_defaults() const {
    std::vector<Alternative> ways;
    for (const char* key : {"schedule", "recompute_layers"}) {
      Alternative way{.without = {key}, .candidate = {.job = job_}};
      set_default(dimension(key), way.candidate.job);
      if (value_of(dimension(key), job_) != value_of(dimension(key), way.candidate.job))
        ways.push_back(std::move(way));
    }
    return fitting(std::move(ways));
  }

  std::vector<Alternative> changed() {
    return changes_that_do(job_, described_, {options_.pinned, {}},
                           [&](const Job& job, const Fixed& fixed) { return fastest(job, fixed); });
  }

 private:
  // The fastest by estimate, if its plan fits. Of what is not fixed it has its own choice; all else is as the
  // job has it.
  std::optional<Candidate> fastest(const Job& job, const Fixed& fixed) {
    const std::optional<Candidate> found = points_.of(job, fixed, {}).fastest;
    if (!found) return std::nullopt;
    Candidate candidate;
    candidate.job = job;
    for (const std::string& key : options_.pinned)
      if (!fixed.is_pinned(key)) copy_value(dimension(key), found->job, candidate.job);
    candidate.job.parallel.dp = found->job.parallel.dp;
    return fits(candidate) ? std::optional(std::move(candidate)) : std::nullopt;
  }

  static std::vector<Alternative> fitting(std::vector<Alternative> ways) {
    std::erase_if(ways, [](Alternative& way) { return !fits(way.candidate); });
    return ways;
  }

  // Resolves it and sets its peak; false where it has no plan.
  static bool fits(Candidate& candidate) {
    try {
      const planner::ResolvedJob job = planner::resolve(candidate.job);
      candidate.job = job;
      candidate.peak_bytes = 0;
      for (const planner::MemoryUse& use : planner::memory_use(planner::compile(job)))
        candidate.peak_bytes = std::max(candidate.peak_bytes, use.total);
    } catch (const Error&) {
      return false;
    }
    return candidate.peak_bytes <= candidate.job.cluster.device->memory_bytes;
  }

  const Job job_;
  const backends::Cluster& described_;
  const SearchOptions options_;
  Candidates points_;
};

}  // namespace

std::vector<Alternative> ways_to_fit(const planner::ResolvedJob& job, const backends::Cluster& described,
                                     const ActSeconds& seconds) {
  std::vector<Alternative> ways;
  std::optional<Fitting> fused;
  // Fused attention leaves nothing to recompute selectively.
  if (ir::models::has_attention_core(job->model) && job->train.recompute != ir::Recompute::selective &&
      job->train.recompute_others == ir::Recompute::none) {
    Job other = job;
    other.model->flash = other.train.flash = true;
    fused.emplace(std::move(other), described, seconds);
    ways = fused->as_it_is();
    for (Alternative& way : ways) way.fused_attention = true;
  }
  Fitting plain(job, described, seconds);
  std::ranges::move(plain.at_defaults(), std::back_inserter(ways));
  std::ranges::move(plain.changed(), std::back_inserter(ways));
  if (!ways.empty() || !fused) return ways;
  ways = fused->changed();
  for (Alternative& way : ways) way.fused_attention = true;
  return ways;
}

}  // namespace boxcar::search
