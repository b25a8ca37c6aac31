// The points of the search: every legal combination of what is not pinned.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/search/search.h"

namespace boxcar::search {

// What stays: keys as they are, or between two values.
struct Fixed {
  std::set<std::string> pinned = {};
  std::map<std::string, std::pair<int, int>> ranges = {};
  bool more_recompute = false;  // also where less of it fits

  bool is_pinned(const std::string& key) const { return pinned.count(key) > 0; }
  bool in_range(const std::string& key, int value) const {
    const auto range = ranges.find(key);
    return range == ranges.end() || (range->second.first <= value && value <= range->second.second);
  }
};

// Calls `visit` with each point; hints only, not resolved. It says whether the point fits in memory: where
// all of a micro-batch do, more recomputation is left out, and where none does, so are larger micro-batches.
void each_point(const planner::Job& job, const Fixed& fixed,
                const std::function<bool(const planner::Job&)>& visit);

// Of what is fixed the first key, or else the first two or three, with which there is no point although all
// others are free: {"tp 8", "pp 2"}. Empty where that takes more of them.
std::vector<std::string> in_the_way(const planner::Job& job, const Fixed& fixed);

// The orders of the job's mesh on its cluster, but the usual one, in which others of its groups cross nodes
// than in the ones before.
std::vector<std::string> other_orders(const planner::Job& job);

}  // namespace boxcar::search
