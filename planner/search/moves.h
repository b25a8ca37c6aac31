// Moves that the search tries around the best, one row each. A row has the condition of the move, its
// proposals and their cost. Every plan that is made counts for the move that proposed it, with its time and
// its gain (`search --explain-moves`). Each move can be left out (`--without-move`).
//
//   {.name = "shard-states", .group = MoveGroup::change, .when = "dp x context_parallel above 1",
//    .proposes = "the other levels of ZeRO", .costs = "3 plans a start",
//    .applies = may_shard, .jobs = shard_states}
//
// A move that changes a job needs only such a row: change_degrees.cpp and lay_out_best.cpp run the rows of a
// group. The others have their own code there or in attempts.cpp and search.cpp, which checks whether the row
// is on. docs/search.md lists the rows and how much worse plans are without each, as far as
// experiments/search/ablate has measured it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/search/candidate.h"
#include "planner/search/options.h"
#include "planner/search/rules.h"

namespace boxcar::search {

// The start that a move changes.
struct Around {
  const planner::Job& job;
  const std::vector<Candidate>& candidates;  // all that fit by estimate, the best first
  const Fixed& fixed;
};

enum class MoveGroup : uint8_t {
  own,      // has its own code
  change,   // the best degrees with one thing changed
  lay_out,  // the same, before layouts are found
  found     // the same, from a job with layouts found: each gets its own layouts
};

struct Move {
  const char* name;
  MoveGroup group = MoveGroup::own;
  const char *when, *proposes, *costs;
  bool (*applies)(const Around&) = nullptr;
  std::vector<planner::Job> (*jobs)(const Around&) = nullptr;
};

const std::vector<Move>& moves();
// The jobs of a move that keep the rules: those of the dimensions too, unless layouts are found for them.
std::vector<planner::Job> proposals(const Move& move, const Around& around);
// Throws Error (bad input) if no move has the name.
const Move& move_named(std::string_view name);
// Null if the move is left out.
const Move* move_of(const SearchOptions& options, std::string_view name);
// Moves of a group that apply and are not left out.
std::vector<const Move*> moves_of(const SearchOptions& options, MoveGroup group, const Around& around);

// Use of a move in a search.
struct MoveUse {
  int plans = 0;       // made
  double seconds = 0;  // of wall time, waiting for its plans and simulating them
  double left = 1;     // the best's value, as a share of its value before the move's plans
};
// By move, in the order of rows, after one for points, which no move proposed.
using MoveUses = std::vector<MoveUse>;
MoveUses no_uses();
MoveUse& use_of(MoveUses& uses, const Move* move);  // null: points
void add(MoveUses& all, const MoveUses& more);

// A pipeline with its backward passes in two parts, in the order of the memory that they take: zb-h1; zb-v,
// whose two stages on each device are cut anew, and leave stage_layers empty, if the search may do so; zb-h2.
// With up to two micro-batches zb-h2 is zb-h1. A pipeline with two virtual stages may be zb-v alone, as it is
// cut.
std::vector<planner::Job> with_split_backward(const planner::Job& job, const Fixed& fixed);

}  // namespace boxcar::search
