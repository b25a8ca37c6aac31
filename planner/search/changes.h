// Changes by which a point would fit, by estimate, if none does: the smallest changes of the given keys, and
// the fewest GPUs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/search/rules.h"
#include "planner/search/search.h"

namespace boxcar::search {

// The fastest point of a job that fits and keeps the limit of time, among those that keep `fixed`; nothing if
// there is none.
using FastestOf = std::function<std::optional<Candidate>(const planner::Job& job, const Fixed& fixed)>;

// The job on `gpus` GPUs of the described cluster.
planner::Job on_gpus(planner::Job job, const backends::Cluster& described, int gpus);

// Up to three changes of one key, or else one of two keys; and the fewest GPUs of the described cluster.
// These are found by doubling, up to 64 times as many, then by trying all counts between, or every 64th part
// of them. If no change of keys suffices, also one key with more GPUs: the one that needs the fewest, if that
// is fewer than without it, to a 16th part.
std::vector<Alternative> changes_that_do(const planner::Job& job, const backends::Cluster& described,
                                         const Fixed& fixed, const FastestOf& fastest_of);

}  // namespace boxcar::search
