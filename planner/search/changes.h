// What would do, by estimate, where nothing does: the smallest changes of what is given, and the fewest GPUs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/search/rules.h"
#include "planner/search/search.h"

namespace boxcar::search {

// The fastest point of a job that does, of those that keep what is fixed; nothing where none does.
using FastestOf = std::function<std::optional<Candidate>(const planner::Job& job, const Fixed& fixed)>;

// The job on so many GPUs of a cluster that is described so.
planner::Job on_gpus(planner::Job job, const backends::Cluster& described, int gpus);

// One key otherwise, at most three times, or else two together; and the fewest GPUs of the cluster as it is
// described, found by doubling, up to 64 times as many: then all counts between, or every 64th part of them.
std::vector<Alternative> changes_that_do(const planner::Job& job, const backends::Cluster& described,
                                         const Fixed& fixed, const FastestOf& fastest_of);

}  // namespace boxcar::search
