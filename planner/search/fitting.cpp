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

  std::vector<Alternative> as_it_is() const { return checked({Alternative{}}); }

  std::vector<Alternative> changed() {
    return checked(changes_that_do(job_, described_, {options_.pinned, {}},
                                   [&](const Job& job, const Fixed& fixed) { return fastest(job, fixed); }));
  }

 private:
  std::optional<Candidate> fastest(const Job& job, const Fixed& fixed) {
    return points_.of(job, fixed, {}).fastest;
  }

  // The job with what an alternative changes, and nothing else that its candidate chose.
  Job with(const Alternative& way) const {
    const Job& to = way.candidate.job;
    Job job = way.gpus > 0 ? on_gpus(job_, described_, way.gpus) : job_;
    for (const std::string& key : way.without) copy_value(dimension(key), to, job);
    if (way.gpus > 0 || !way.without.empty()) job.parallel.dp = to.parallel.dp;
    return job;
  }

  // Those whose plan fits.
  std::vector<Alternative> checked(std::vector<Alternative> ways) const {
    std::vector<Alternative> fitting;
    for (Alternative& way : ways) try {
        const planner::ResolvedJob job = planner::resolve(with(way));
        way.candidate.job = job;
        way.candidate.peak_bytes = 0;
        for (const planner::MemoryUse& use : planner::memory_use(planner::compile(job)))
          way.candidate.peak_bytes = std::max(way.candidate.peak_bytes, use.total);
        if (way.candidate.peak_bytes <= job->cluster.device->memory_bytes) fitting.push_back(std::move(way));
      } catch (const Error&) {  // no plan: no way
      }
    return fitting;
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
  if (ir::models::has_attention_core(job->model)) {
    Job other = job;
    other.model->flash = other.train.flash = true;
    fused.emplace(std::move(other), described, seconds);
    ways = fused->as_it_is();
    for (Alternative& way : ways) way.fused_attention = true;
  }
  std::ranges::move(Fitting(job, described, seconds).changed(), std::back_inserter(ways));
  if (!ways.empty() || !fused) return ways;
  ways = fused->changed();
  for (Alternative& way : ways) way.fused_attention = true;
  return ways;
}

}  // namespace boxcar::search
