// Layouts found for a job, as planner::lay_out takes them: what a user pins is looked up in the job's graph.
//
//   LayoutRequest request;
//   request.pins = {parse_pin("h*.mlp.fc1.weight=(B,S(1))")};
//   FoundLayouts found;
//   const ir::Plan plan = planner::compile(planner::lay_out(job, chooser(job, request, &found)), job);
//
// On a mesh of one dimension every op is free. On a mesh of several, ops are free on the tensor dimension; on
// the others (samples, tokens, experts) they take the signatures that the hints lead to, unless both of two
// are to be open: two-dimensional tensor parallelism.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "planner/laid_out.h"
#include "planner/search/layouts.h"

namespace boxcar::search {

// Tensors by name, `*` standing for any text, in a layout on the mesh of a stage, outermost dimension first.
struct LayoutPin {
  std::string pattern;
  sbp::NdSbp layout;
};
LayoutPin parse_pin(const std::string& text);  // throws Error (bad input) saying what is expected
std::string to_text(const LayoutPin& pin);     // "h*.mlp.fc1.weight=(B, S(1))"

struct LayoutRequest {
  bool partial = true;
  bool both = false;  // on a mesh of two dimensions both are open
  std::vector<LayoutPin> pins = {};
  LayoutWeights weights = {};
  double memory = infinity;  // bytes that stay, see layout_graph.h, over all stages
  double enough = 0;         // share of the objective that layouts may be over the least
  std::map<std::string, std::vector<sbp::Signature>> ops = {};  // ops that stay, by name, by mesh dimension
};

// Whether hints say nothing of tensor parallelism for this model, and layouts are to be found: convolutional
// networks.
bool needs_layouts(const planner::Job& job);

// By dimension of the mesh: whether ops have a choice there. Elsewhere they are as degrees have them.
std::vector<bool> open_dimensions(const planner::Mesh& mesh, bool both);
bool has_open_dimension(const planner::Mesh& mesh);

// Whether what is laid out keeps them: a parameter as every op of the passes reads it, other tensors as they
// are made and kept. Throws as what `chooser` gives does where a pin fits no tensor.
bool keeps(const planner::LaidOut& laid, const std::vector<LayoutPin>& pins);

// `job` is resolved; what was found is written to `found`, which may be null. What it gives throws Error (bad
// input) naming a pin that fits no tensor or not the mesh, and two pins that contradict each other. `look`:
// see Effort.
planner::Choose chooser(const planner::Job& job, const LayoutRequest& request, FoundLayouts* found,
                        const std::function<void()>& look = {});

}  // namespace boxcar::search
