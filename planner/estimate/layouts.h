// The layout of every op of a training graph, chosen exactly for the least seconds of a step by the time
// models.
//
//   LayoutCosts costs(cluster, mesh);
//   const LayoutGraph layouts(graph, hints, mesh, micro_batches, {}, costs);
//   const FoundLayouts found = find_layouts(layouts, {});
//   planner::lay_out(job, [&](...) { return found.layouts; })
//
// Layers with equal problems, or up to four kinds that alternate, are solved once. The result is a table over
// the layouts of the tensors that go in and out (blocks.h). Its power for n layers is one edge of the
// remaining problem. Tensors from distant layers that all of them read give one table for each of their
// layouts. So the work grows with the number of different layers.
#pragma once

#include <optional>

#include "planner/estimate/layout_graph.h"

namespace boxcar::search {

// Weights of a second of states' collectives and of a byte: collectives of gradients and parameters may run
// beside the kernels of a pass.
struct LayoutWeights {
  double states = 1;
  double memory = 0;  // s per byte
  friend bool operator==(const LayoutWeights&, const LayoutWeights&) = default;
};

struct FoundLayouts {
  bool found = false;  // false: pins contradict each other
  planner::Layouts layouts;
  Cost cost{};         // by LayoutCoordinate
  double value = 0;    // of the objective
  double lower = 0;    // no layouts of the space have a lower value
  int solved = 0;      // the most nodes of the problems that were solved for one dimension
  bool alike = false;  // the space was restricted: layers with equal problems have equal layouts
  // On a mesh of several dimensions: the one that was open. `apart`: each was open, given the others.
  std::optional<size_t> dimension = {};
  bool apart = false;
  LayoutWeights weights = {};
  bool optimal() const { return found && value <= lower + 1e-9 * value; }
};

// If the layouts of the tensors into and out of a layer have more than `joint` combinations, the table would
// be too large. Then equal layers have equal layouts (`alike`), and the answer is the best of these.
inline constexpr double most_joint = 1 << 18;
FoundLayouts find_layouts(const LayoutGraph& graph, const LayoutWeights& weights, double joint = most_joint,
                          const Effort& effort = {});
// The price of a byte, in seconds, to try next if these layouts take too many bytes. The first makes all of
// them cost 5 % of a step, later ones are doubled.
double next_price(const FoundLayouts& found);
// The same with at most `bytes`, by a price per byte that is raised until the layouts keep the limit. Then no
// layouts with as few bytes take less time. If the highest price is not enough, its layouts are returned.
FoundLayouts find_layouts_within(const LayoutGraph& graph, LayoutWeights weights, double bytes,
                                 const Effort& effort = {});
// The same as one problem, even if layers are equal: for tests, and graphs without layers.
FoundLayouts find_layouts_at_once(const LayoutGraph& graph, const LayoutWeights& weights);

}  // namespace boxcar::search
