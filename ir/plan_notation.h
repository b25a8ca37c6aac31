// Short, exact notations inside a plan's text: devices, groups, peers and schedules.
//
//   device_list({0, 1, 2, 3, 8})                       "0-3,8"
//   groups_text({{0, 1}, {2, 3}, {4, 5}, {6, 7}})      "groups 4 by 2, ranks 2 by 1"
//   groups_text({{0, 4}, {1, 5}, {8, 12}, {9, 13}})    "groups 2 by 8, 2 by 1, ranks 2 by 4"
//   groups_text({{0, 1}, {2, 4, 3}})                   "{0-1} {2,4,3}"
//   peers_text({-1, -1, 0, 1, 1})                      "2-3 from 0-1, 4 from 1"
//   schedule_text, 1F1B on the first of 2 stages       "F[0-1] 6*(B[0+1] F[2+1]) B[6-7] U"
//
// A group's first rank is the sum of one multiple of each group stride. Its other ranks lie at the rank
// strides. In a schedule, F[2-5] is a run of micro-batches. In n*( ), repetition i, counted from 0, adds i
// times the number after +. A phase that runs once, on micro-batch 0, has no brackets. The parsers take a
// cursor and leave it after the notation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/plan.h"
#include "ir/plan_line.h"

namespace boxcar::ir {

std::string device_list(const std::vector<int>& devices);
std::string groups_text(const std::vector<std::vector<int>>& groups);
std::string peers_text(const std::vector<int>& source);
std::string schedule_text(const std::vector<PhaseRun>& schedule, const std::vector<PlanPhase>& phases);

// `devices` bounds the ids, so that a wrong number cannot ask for unlimited memory. A schedule has at most
// `most_runs`.
std::vector<int> parse_device_list(PlanLine& in, int devices);
std::vector<std::vector<int>> parse_groups(PlanLine& in, int devices);
std::vector<int> parse_peers(PlanLine& in, int devices);
inline constexpr int most_runs = 1 << 22;
std::vector<PhaseRun> parse_schedule(PlanLine& in, const std::vector<PlanPhase>& phases,
                                     int64_t most = most_runs);

}  // namespace boxcar::ir
