// Ways to make a job fit that needs too much memory: the changes that a search proposes if nothing fits
// (changes.h), with every key given, each checked by its plan.
//
//   for (const Alternative& way : ways_to_fit(job, described, sim::act_seconds))
//     way.without {"recompute"}, way.candidate.job.train.recompute full, way.candidate.peak_bytes 54.3e9
#pragma once

#include <optional>
#include <vector>

#include "planner/search/search.h"

namespace boxcar::search {

// Fused attention, which costs nothing, comes first; then the usual schedule and all layers recomputed, if
// the job has others; then up to three changes of one key, or else one of two, and the fewest GPUs of the
// described cluster, up to 64 times as many. If none of these fits, the same with fused attention. dp follows
// from the other degrees. `peak_bytes` of a way's candidate is of its plan. `seconds` is as for a search.
// Empty if nothing that is tried fits.
std::vector<Alternative> ways_to_fit(const planner::ResolvedJob& job, const backends::Cluster& described,
                                     const ActSeconds& seconds);

// The job with the fewest recomputed layers of each stage that fit by its plan, found as a search finds them
// (fewest_recomputed.h). Its kinds of recomputation and all else stay, and so does its cut of the layers
// unless `recut`. Its recompute_layers are ignored. Nothing if no layer recomputes, or if not even
// recomputing all of them is enough.
//
//   4 stages that recompute all of their 6 layers on devices with memory to spare:
//   with_fewest_recomputed(job, false, sim::act_seconds)->train.recompute_layers   // {3, 2, 0, 0}
std::optional<planner::ResolvedJob> with_fewest_recomputed(const planner::ResolvedJob& job, bool recut,
                                                           const ActSeconds& seconds);

}  // namespace boxcar::search
