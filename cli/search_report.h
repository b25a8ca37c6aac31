// Results of a search, as a table for people and a document for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/report_text.h"
#include "planner/search/search.h"
#include "sim/explain/stays_best.h"

namespace boxcar::cli {

struct SearchReport {
  search::Outcome outcome;
  explain::Report best;  // of the outcome's best plan
  int64_t memory_limit_bytes = 0;
  search::Goal goal = search::Goal::time;
  double max_step_seconds = search::infinity;
  double wall_seconds = 0;
  bool precisions = false;  // several were searched
  bool recompute_given = false;
  bool explain_moves = false;
  // If several objectives were asked for: the plans of which none beats another in all of them.
  std::vector<search::Goal> front_goals = {};
  std::vector<search::Candidate> front = {};
  bool front_ended = true;                           // false: searches for it ended early or were left out
  std::vector<explain::StaysBest> sensitivity = {};  // if it was asked for
  bool sensitivity_ended = true;                     // false: some constants were left out
  double partial_seconds = 0;  // of the best plan's job with partial values, if they are switched off
};

// For an outcome with a best plan.
std::string to_table(const SearchReport& report);
std::string to_json(const SearchReport& report);
// For an outcome without one: the reason, the nearest points, the changes that would help.
std::string to_json(const SearchReport& report, const std::string& why);

// Work that had to be left out, a line for each reason: " 12 of the points without an estimate: h0.mlp.fc1:
// no signature of matmul fits on mesh dimension tp\n"; empty if nothing was.
std::string left_out_text(const search::Outcome& outcome);

// The keys that it changes, as flags: "--recompute full".
std::vector<std::string> change_flags(const search::Alternative& change);
// "with --recompute full", "on 16 GPUs", "with --recompute full on 16 GPUs".
std::string change_text(const search::Alternative& change);

// Paths of the keys that a search decides if they are not given.
std::vector<std::string> searched_keys();

// The keys that a search decides, as flags, if they differ from their defaults or, beside --stack, from the
// framework's; and the keys that it takes otherwise for the framework (searched_as): "--dp 16 --tp 8 --pp 8
// --zero 1 --recompute full"; and with `precision` "--precision bf16".
std::string flags_of(const planner::Job& job, bool precision = false);

// "  on slow devices: stage 2 with 5 layers (1.3 times as long); elsewhere 6 to 7 a stage\n"; empty if there
// is none.
std::string slow_stages_text(const planner::Hints& hints, const backends::Cluster& cluster);

// The loss of another candidate: "1.23 s, 4.0 % slower", "42 GB, 3.1 % more memory", "0.31 a step, 2.0 %
// dearer".
std::string against(search::Goal goal, const search::Candidate& other, const search::Candidate& best);

}  // namespace boxcar::cli
