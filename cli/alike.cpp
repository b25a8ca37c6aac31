#include "cli/alike.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/search_report.h"
#include "ir/units.h"
#include "planner/laid_out.h"
#include "sim/explain/tensor_explanation.h"

namespace boxcar::cli {
namespace {

using search::Candidate;
struct Weight {
  int64_t bytes = 0;
  std::set<std::string> layouts;
};
using Weights = std::map<std::string, Weight>;            // by name, layers together
using Names = std::set<std::pair<int64_t, std::string>>;  // the largest first

constexpr size_t most_named = 2;

Weights weights_of(const Candidate& candidate) {
  const planner::LaidOut laid = planner::lay_out(planner::resolve(candidate.job), candidate.choose());
  Weights weights;
  for (size_t t = 0; t < laid.graph.tensors.size(); ++t) {
    const ir::Tensor& tensor = laid.graph.tensors[t];
    if (tensor.role != ir::Role::parameter) continue;
    Weight& weight = weights[explain::without_layer(tensor.name)];
    weight.bytes += tensor.type.bytes();
    weight.layouts.insert(to_text(laid.layouts.stored[t]));
  }
  return weights;
}

// "h*.mlp.fc1.weight S(0), h*.mlp.fc1.bias B, ..."
std::string layouts_text(const Weights& weights, const Names& names) {
  std::vector<std::string> parts;
  for (const auto& [bytes, name] : names)
    parts.push_back(fmt::format("{} {}", name, fmt::join(weights.at(name).layouts, " or ")));
  if (parts.size() > most_named) {
    parts.resize(most_named);
    parts.emplace_back("...");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string costs_text(const search::FoundLayouts& found) {
  return fmt::format("collectives {}, of states {}", ir::format_seconds(found.cost[search::collectives]),
                     ir::format_seconds(found.cost[search::states]));
}

}  // namespace

std::vector<std::string> differences(const std::vector<Candidate>& candidates) {
  std::map<std::string, std::vector<size_t>> found;  // rows with found layouts, by flags
  for (size_t c = 0; c < candidates.size(); ++c)
    if (candidates[c].layouts) found[flags_of(candidates[c].job, true)].push_back(c);
  std::vector<std::string> texts(candidates.size());
  for (const auto& [flags, rows] : found) {
    if (rows.size() == 1) continue;
    std::vector<Weights> weights;
    Names names;  // of those that differ
    for (const size_t row : rows) {
      weights.push_back(weights_of(candidates[row]));
      for (const auto& [name, weight] : weights.front())
        if (weights.back().at(name).layouts != weight.layouts) names.emplace(-weight.bytes, name);
    }
    for (size_t i = 0; i < rows.size(); ++i)
      texts[rows[i]] =
          names.empty() ? costs_text(candidates[rows[i]].found) : layouts_text(weights[i], names);
  }
  for (size_t c = 0; c < candidates.size(); ++c)
    if (const size_t fewer = candidates[c].slots.changes.size(); fewer > 0)
      texts[c] += fmt::format("{}{} registers with fewer slots", texts[c].empty() ? "" : ", ", fewer);
  return texts;
}

}  // namespace boxcar::cli
