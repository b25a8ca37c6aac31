// The points of the search: every legal combination of what is not pinned.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/rules.h"

namespace boxcar::search {

// Calls `visit` with each point; hints only, not resolved. It says whether the point fits in memory, nothing
// where that is not known: where all of a micro-batch do, more recomputation is left out, and where none
// does, so are larger micro-batches.
using Visit = std::function<std::optional<bool>(const planner::Job&)>;
void each_point(const planner::Job& job, const Fixed& fixed, const Visit& visit);

// The same in parts, by tp, cp, ep and sequence parallelism: whether a point of one fits says nothing of the
// points of another.
std::vector<planner::Hints> branches(const planner::Job& job, const Fixed& fixed);
void each_point(const planner::Job& job, const Fixed& fixed, const planner::Hints& branch,
                const Visit& visit);

// Whether there is a point that keeps some of rules_of(job, fixed).
bool any_point(const planner::Job& job, const Fixed& fixed, const std::vector<const Rule*>& rules);

// The orders of the job's mesh on its cluster, but the usual one, in which others of its groups cross nodes,
// or others of its stages stand on slow devices, than in the ones before.
std::vector<planner::MeshOrder> other_orders(const planner::Job& job);

}  // namespace boxcar::search
