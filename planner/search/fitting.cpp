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

// The job without the cut of its layers that resolve() filled in, because other degrees have another.
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

// Resolves it and notes its plan's memory; false if it does not fit or has no plan.
bool fits(Candidate& candidate) {
  try {
    const planner::ResolvedJob job = planner::resolve(candidate.job);
    candidate.job = job;
    note_memory(planner::compile(job), candidate);
  } catch (const Error&) {
    return false;
  }
  return candidate.peak_bytes <= candidate.job.cluster.device->memory_bytes;
}

class Fitting {
 public:
  Fitting(Job job, bool fused, const backends::Cluster& described, const ActSeconds& seconds)
      : job_(as_asked(with_attention(std::move(job), fused))),
        fused_(fused),
        described_(described),
        options_(all_given(job_)),
        points_(options_, static_cast<double>(job_.cluster.device->memory_bytes), seconds) {}

  std::vector<Alternative> as_it_is() const { return fitting({way_to(job_)}); }

  // Without the special values of this job: its schedule, its number of recomputed layers.
  std::vector<Alternative> at_defaults() const {
    std::vector<Alternative> ways;
    for (const char* key : {"schedule", "recompute_layers"}) {
      Alternative way = way_to(job_);
      way.without = {key};
      set_default(dimension(key), way.candidate.job);
      if (value_of(dimension(key), job_) != value_of(dimension(key), way.candidate.job))
        ways.push_back(std::move(way));
    }
    return fitting(std::move(ways));
  }

  std::vector<Alternative> changed() {
    std::vector<Alternative> ways =
        changes_that_do(job_, described_, {options_.pinned, {}},
                        [&](const Job& job, const Fixed& fixed) { return fastest(job, fixed); });
    for (Alternative& way : ways) way.fused_attention = fused_;
    return ways;
  }

 private:
  static Job with_attention(Job job, bool fused) {
    if (fused) job.model->flash = job.train.flash = true;
    return job;
  }

  Alternative way_to(const Job& job) const { return {.candidate = {.job = job}, .fused_attention = fused_}; }

  // The fastest by estimate, if its plan fits. It chooses keys that are not fixed; all else is as in the job.
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

  const Job job_;
  const bool fused_;  // used if the given job is not
  const backends::Cluster& described_;
  const SearchOptions options_;
  Candidates points_;
};

}  // namespace

std::vector<Alternative> ways_to_fit(const planner::ResolvedJob& job, const backends::Cluster& described,
                                     const ActSeconds& seconds) {
  std::vector<Alternative> ways;
  const auto add = [&](std::vector<Alternative> more) { std::ranges::move(more, std::back_inserter(ways)); };
  std::optional<Fitting> fused;
  // Fused attention has no core to recompute.
  if (ir::models::has_any(job->model, {ir::Module::core_attn}) &&
      job->train.recompute != ir::Recompute::selective && job->train.recompute_others == ir::Recompute::none)
    add(fused.emplace(job, true, described, seconds).as_it_is());
  Fitting plain(job, false, described, seconds);
  add(plain.at_defaults());
  add(plain.changed());
  if (ways.empty() && fused) add(fused->changed());
  return ways;
}

std::optional<planner::ResolvedJob> with_fewest_recomputed(const planner::ResolvedJob& job, bool recut,
                                                           const ActSeconds& seconds) {
  constexpr int most_tries = 3;
  if (job->train.recompute == ir::Recompute::none) return std::nullopt;
  SearchOptions options = all_given(job);
  options.pinned.erase("recompute_layers");
  if (recut) options.pinned.erase("stage_layers");
  Candidates points(options, static_cast<double>(job->cluster.device->memory_bytes), seconds);
  Candidate tried;
  tried.job = job;
  tried.job.train.recompute_layers.clear();
  std::optional<Candidate> fewest;
  if (fits(tried)) fewest = tried;
  for (int tries = 0; tries < most_tries && !tried.stage_bytes.empty(); ++tries) {
    std::optional<Candidate> fewer = points.with_fewest_recomputed(tried);
    if (!fewer || key_of(fewer->job) == key_of(tried.job)) break;
    tried = std::move(*fewer);
    const bool first = !fewest || fewest->estimated_seconds == 0;
    if (fits(tried) && (first || tried.estimated_seconds < fewest->estimated_seconds)) fewest = tried;
  }
  if (!fewest) return std::nullopt;
  return planner::resolve(fewest->job);
}

}  // namespace boxcar::search
