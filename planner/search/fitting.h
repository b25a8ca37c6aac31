// What would make a job fit in memory that does not: the changes that a search proposes where nothing fits
// (changes.h), with every key given, each checked by its plan.
//
//   for (const Alternative& way : ways_to_fit(job, described, sim::act_seconds))
//     way.without {"recompute"}, way.candidate.job.train.recompute full, way.candidate.peak_bytes 54.3e9
#pragma once

#include <vector>

#include "planner/search/search.h"

namespace boxcar::search {

// Fused attention, which costs nothing, comes first; then the usual schedule and all layers recomputed, where
// the job has others; then up to three changes of one key, or else one of two, and the fewest GPUs of the
// described cluster, up to 64 times as many. Where none of these fits, the same with fused attention. dp
// follows from the other degrees. `peak_bytes` of a way's candidate is of its plan. `seconds`: as of a
// search. Empty where nothing that is tried fits.
std::vector<Alternative> ways_to_fit(const planner::ResolvedJob& job, const backends::Cluster& described,
                                     const ActSeconds& seconds);

}  // namespace boxcar::search
