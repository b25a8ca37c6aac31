// Layouts found for a job, in the form for planner::lay_out. A user's pins are looked up in the job's graph.
//
//   LayoutRequest request;
//   request.pins = {parse_pin("h*.mlp.fc1.weight=(B,S(1))")};
//   FoundLayouts found;
//   const ir::Plan plan = planner::compile(planner::lay_out(job, chooser(job, request, &found)), job);
//
// On a mesh of one dimension every op is free. On a mesh of several, ops are free on one dimension at a time.
// Their signatures on the other dimensions are those from the hints or, when going from dimension to
// dimension, those found before.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/estimate/layouts.h"
#include "planner/laid_out.h"

namespace boxcar::search {

// Tensors by name (`*` stands for any text), and their layout on the mesh of a stage, outermost dimension
// first.
struct LayoutPin {
  std::string pattern;
  sbp::NdSbp layout;
};
LayoutPin parse_pin(const std::string& text);  // throws Error (bad input) with the expected form
std::string to_text(const LayoutPin& pin);     // "h*.mlp.fc1.weight=(B, S(1))"

// Dimensions that are open on a mesh of several dimensions.
enum class Open : uint8_t {
  one,   // the tensor dimension; if there is none or pins forbid it, the innermost one possible
  each,  // that one, then the others in turn, until no single one gains
  both   // both of two at once; with more dimensions, each
};

struct LayoutRequest {
  bool partial = true;
  Open open = Open::one;
  std::vector<LayoutPin> pins = {};
  LayoutWeights weights = {};
  double memory = infinity;  // bytes that stay, see layout_graph.h, over all stages
  double enough = 0;         // share of the objective by which layouts may exceed the minimum
  std::map<std::string, std::vector<sbp::Signature>> ops = {};  // fixed ops, by name, by mesh dimension
  // On a mesh of several dimensions, only this one is open. The others are as in `as`.
  std::optional<size_t> dimension = {};
  std::optional<planner::Layouts> as = {};
};

// Whether no hint splits this model's weights for tensor parallelism, so that layouts must be found:
// convolutional networks and graphs.
bool needs_layouts(const planner::Job& job);

// Whether `laid` keeps the pins: a parameter as every op of the passes reads it, other tensors as they are
// made and kept. Throws, like the function from `chooser`, if a pin fits no tensor.
bool keeps(const planner::LaidOut& laid, const std::vector<LayoutPin>& pins);

// REQUIRES: `job` is resolved. The result is written to `found`, which may be null. The returned function
// throws Error (bad input) naming a pin that fits no tensor or does not fit the mesh, or two pins that
// contradict each other. `look`: see Effort.
planner::Choose chooser(const planner::Job& job, const LayoutRequest& request, FoundLayouts* found,
                        const std::function<void()>& look = {});

}  // namespace boxcar::search
