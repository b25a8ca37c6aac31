// The dimensions that the search decides, one row each. Points, pins, ranges, the identity of a job,
// contradictions, proposed changes, flags and reports use these rows. A new dimension is a field of
// planner::Hints that lowering reads, and a row. Costs are measured for each of its values, unless of_a_layer
// (planner/estimate/estimate.cpp) leaves it out. The rows are in dimension_rows.cpp in the order of a job
// file, which is also their order in reports.
//
//   {.key = "stage_order",                     // --stage-order, and stage_order of a job file
//    .field = &Hints::stage_order,
//    .flag = {.help = "which stage's devices each stage has: 2,0,1,3", .fallback = "in order", .rare = true},
//    .least = 0, .most = 10000,                // limits of a number of the list
//    .rules = stage_order_rules,               // "stage_order has to have each of the pp stages once"
//    .chosen = 11,                             // after pp: rules on both belong to this row
//    .named = 9,                               // in messages: "stage_order 1,0 contradicts pp 4: ..."
//    .degree = true}                           // plans of other orders count as other degrees
//
// With only this row, the search keeps stage_order, refuses it, distinguishes jobs by it and reports it. A
// dimension whose values are tried by all points lists them too:
//
//   {.key = "scatter_gather", .field = &Hints::scatter_gather, .flag = {.help = "..."},
//    .values = [](const Choice&) { return std::vector<int>{0, 1}; },
//    .idle = [](const Job& point) { return point.parallel.tp == 1 || point.parallel.pp == 1; },
//    .chosen = 19}                             // no rules, so no place in messages
//
// Without `values` a dimension has the job's value until candidates.cpp or a move proposes another.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/search/rules.h"

namespace boxcar::search {

using Member = std::variant<int planner::Hints::*, bool planner::Hints::*, std::vector<int> planner::Hints::*,
                            planner::PipelineSchedule planner::Hints::*, planner::MeshOrder planner::Hints::*,
                            std::vector<int> ir::TrainOptions::*, ir::Recompute ir::TrainOptions::*>;
using Value =
    std::variant<int, bool, std::vector<int>, planner::PipelineSchedule, planner::MeshOrder, ir::Recompute>;

// Inputs to a dimension's values: earlier choices, and the given keys.
struct Choice {
  const planner::Job& point;
  const Fixed& fixed;
  bool loose = false;  // also values ruled out only by a rule that may be left out
};

struct Flag {
  std::string help;
  std::string fallback = {};            // the default in words, if it follows from other keys
  std::string alias = {};               // another flag
  std::vector<std::string> words = {};  // for an enum: the allowed ones; empty: all
  bool rare = false;                    // a plan's labels omit the default
};

struct Dimension {
  std::string key;        // as in SearchOptions::pinned
  std::string name = {};  // in a job file, if it differs
  Member field;
  Flag flag;
  // Limits of a number, or of each in a list. With `least` 0 numbers are levels, and a range ends with the
  // last level; else `most` only catches typing errors.
  int least = 1, most = 0;
  // Values that points try, in order: numbers, 0 and 1 for a switch, an enum's values. A pinned dimension
  // keeps the job's value. Null: points have the job's value.
  std::vector<int> (*values)(const Choice&) = nullptr;
  // True for points whose plan does not depend on the dimension. They get the default, even if another value
  // is pinned. Null: false for all points.
  bool (*idle)(const planner::Job& point) = nullptr;
  // Rules that make its values legal, alone and with dimensions chosen before it. May be null.
  std::vector<Rule> (*rules)(const planner::Job&, const Fixed&) = nullptr;
  int chosen;               // points choose lower ones first, and their rules are more specific
  bool branch = false;      // each choice of such values is a branch of the points (points.h)
  int named = 0;            // messages about contradictions try lower ones first; 0: contradicts nothing
  int change = 0;           // if nothing fits, changing lower ones costs less; 0: not proposed
  bool degree = false;      // plans that differ in it have different degrees: each may be tried
  bool recomputes = false;  // JobKey holds the recomputation of each layer in place of these rows' values
  bool shards = false;      // with stages, points have a higher level only if none with a lower one fits
  bool until_fits = false;  // later values are slower: points end with the first with which all of them fit
  bool always = false;      // a plan's flags have it even if it is the default

  const std::string& name_in_file() const { return name.empty() ? key : name; }
  bool is_number() const { return std::holds_alternative<int planner::Hints::*>(field); }
  bool is_switch() const { return std::holds_alternative<bool planner::Hints::*>(field); }
  bool has_levels() const { return least == 0; }
};

const std::vector<Dimension>& dimensions();
const Dimension& dimension(std::string_view key);
// Dimensions with a positive `chosen`, `named` or `change`, in its order.
std::vector<const Dimension*> ordered_by(int Dimension::*column);

// The field in a job, const or not.
template <typename T>
T& field(planner::Job& job, T planner::Hints::*member) {
  return job.parallel.*member;
}
template <typename T>
T& field(planner::Job& job, T ir::TrainOptions::*member) {
  return job.train.*member;
}
template <typename T>
const T& field(const planner::Job& job, T planner::Hints::*member) {
  return job.parallel.*member;
}
template <typename T>
const T& field(const planner::Job& job, T ir::TrainOptions::*member) {
  return job.train.*member;
}

Value value_of(const Dimension& d, const planner::Job& job);
std::string text_of(const Dimension& d, const planner::Job& job);  // "8", "7,5,3,1", "true"
// The value of a number, switch or enum as a number; others throw std::logic_error.
int number_of(const Dimension& d, const planner::Job& job);
void set_number(const Dimension& d, planner::Job& job, int value);
void set_default(const Dimension& d, planner::Job& job);
void copy_value(const Dimension& d, const planner::Job& from, planner::Job& to);

// The part that all jobs of a search have in common; all dimensions are undecided.
planner::Job undecided(planner::Job job);

}  // namespace boxcar::search
