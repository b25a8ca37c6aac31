// The points of the search: every legal combination of the dimensions that are not pinned.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/rules.h"

namespace boxcar::search {

// Calls `visit` with each point; only hints, not resolved. `visit` returns whether the point fits in memory,
// or nothing if that is unknown. If all points of a micro-batch size fit, more recomputation is left out. If
// none fits, larger micro-batches are left out.
using Visit = std::function<std::optional<bool>(const planner::Job&)>;
void each_point(const planner::Job& job, const Fixed& fixed, const Visit& visit);

// The same in parts, by tp, cp, ep and sequence parallelism: whether a point of one part fits is independent
// of other parts.
std::vector<planner::Hints> branches(const planner::Job& job, const Fixed& fixed);
void each_point(const planner::Job& job, const Fixed& fixed, const planner::Hints& branch,
                const Visit& visit);

// Whether there is a point that keeps some of rules_of(job, fixed).
bool any_point(const planner::Job& job, const Fixed& fixed, const std::vector<const Rule*>& rules);

// Orders of the job's mesh on its cluster, except the usual one. Each differs from the earlier ones in the
// groups that cross nodes, or in the stages on slow devices.
std::vector<planner::MeshOrder> other_orders(const planner::Job& job);

}  // namespace boxcar::search
