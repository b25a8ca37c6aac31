// Rules for legal combinations of degrees. Points keep all of them. If there is no point, a message quotes
// the rules that cannot be kept together.
//
//   "tp has to divide heads", with keys {tp} and the fact "heads 25": tp 8 breaks it
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/planner.h"

namespace boxcar::search {

struct Rule {
  std::vector<std::string> keys;                   // as in SearchOptions::pinned
  std::vector<std::string> facts;                  // of the model, the batch and the cluster: "heads 25"
  std::string law;                                 // "tp has to divide heads"
  std::function<bool(const planner::Job&)> holds;  // for the hints of a job that is otherwise like the rule's
};

// Keys that keep their values, or stay between two values.
struct Fixed {
  std::set<std::string> pinned = {};
  std::map<std::string, std::pair<int, int>> ranges = {};
  // Also try changes that only save memory: more recomputation if less of it fits, context parallelism of
  // short sequences.
  bool least_memory = false;
  // Fixed layouts in a user's words, and their number of dimensions of a stage's mesh.
  std::vector<std::pair<std::string, size_t>> layouts = {};
  std::vector<Rule> rules = {};  // besides those of the dimensions

  bool keeps_own_rules(const planner::Job& job) const {
    return std::all_of(rules.begin(), rules.end(), [&](const Rule& rule) { return rule.holds(job); });
  }
  bool is_pinned(const std::string& key) const { return pinned.count(key) > 0; }
  bool is_given(const std::string& key) const { return is_pinned(key) || ranges.count(key) > 0; }
  bool in_range(const std::string& key, int value) const {
    const auto range = ranges.find(key);
    return range == ranges.end() || (range->second.first <= value && value <= range->second.second);
  }
  bool is_free(const std::string& key, int value) const { return !is_pinned(key) && in_range(key, value); }
};

// Rules of all dimensions, of pinned layouts, and those of `fixed`; more specific ones come first. REQUIRES:
// `job` has a complete model, gpus and a global batch.
std::vector<Rule> rules_of(const planner::Job& job, const Fixed& fixed);
// Whether all of them hold.
bool keeps_rules(const planner::Job& job, const Fixed& fixed);

// Rules for rows of the dimensions (dimensions.h).
std::vector<Rule> tensor_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> sequence_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> expert_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> expert_tensor_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> stage_layers_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> stage_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> stage_order_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> recompute_layers_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> schedule_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> replica_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> sharding_rules(const planner::Job& job, const Fixed& fixed);
std::vector<Rule> virtual_stages_rules(const planner::Job& job, const Fixed& fixed);

}  // namespace boxcar::search
