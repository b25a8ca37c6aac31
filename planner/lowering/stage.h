// The constant input of every pass of lowering: the laid-out graph, and the stage and ranks of the program.
//
//   Stage stage(input, 1, {0, 1}, "stage1")   of pp 2, tp 2: both ranks of stage 1 share a program
//   stage.here(o)                             whether it runs op o
//   stage.stored(t), stage.sent(t)            the layouts in which it keeps tensor t and others pull it
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/comms.h"
#include "planner/deduce.h"
#include "planner/program_builder.h"
#include "planner/routes.h"
#include "planner/sharding.h"
#include "planner/stages.h"
#include "planner/tied.h"
#include "sbp/at.h"

namespace boxcar::planner {

struct LoweringInput {
  const ir::Graph& graph;
  const Hints& hints;
  Sharding sharding;
  const Mesh& mesh;
  const Pipeline& pipeline;
  const std::vector<OpSite>& sites;
  const Pins& pins;
  const Deduction& layouts;
  const std::vector<std::vector<ir::OpId>>& readers;  // by tensor
  std::vector<TiedGradient> tied;
  std::vector<char> from_states;  // by tensor (states.h)
  CommTable& comms;
  RouteTable& routes;
};

class Stage {
 public:
  // `places`: the row-major mesh indices of the ranks that share the program; the first stands for all.
  Stage(const LoweringInput& input, int index, std::vector<int> places, std::string name);

  const ir::Tensor& tensor(ir::TensorId t) const { return in.graph.tensor(t); }
  const ir::Op& op(ir::OpId o) const { return at(in.graph.ops, o); }
  const OpSite& site(ir::OpId o) const { return at(in.sites, o); }
  const OpLayout& layout(ir::OpId o) const { return at(in.layouts.ops, o); }
  const sbp::NdSbp& stored(ir::TensorId t) const { return at(in.layouts.stored, t); }
  // For state: the layout that forward and backward passes read.
  const std::optional<sbp::NdSbp>& used(ir::TensorId t) const { return at(in.pins.used, t); }
  const std::vector<ir::OpId>& readers(ir::TensorId t) const { return at(in.readers, t); }

  bool here(ir::OpId o) const { return site(o).is_on(index); }
  int phase(ir::OpId o) const;
  int layer(ir::OpId o) const { return in.graph.in_layer(op(o)) ? op(o).layer : -1; }
  int layer_of(ir::TensorId t) const { return layer(tensor(t).producer); }
  // Whether this phase is a backward pass that reads a value made by the forward pass of this stage.
  bool kept_from_forward(ir::TensorId t, int in_phase) const;
  // The layout in which a tensor goes to other stages. With scatter_gather, a tensor that all ranks of tp
  // hold is sent in equal parts, along the first axis that divides.
  sbp::NdSbp sent(ir::TensorId t) const;
  bool read_elsewhere(ir::TensorId t) const;
  ir::TensorType local_type(ir::TensorId t, const sbp::NdSbp& layout) const;

  const LoweringInput& in;
  const int index;
  const std::vector<int> places;
  const std::string name;  // of its program
  const Phases phases;
  const std::vector<ir::OpId> ops;  // that are here, in the graph's order
};

// Inputs, parameters and constants, which no kernel makes.
inline bool is_source(const ir::Op& op) { return !ir::has_op(op.type); }

template <typename Range, typename Test>
bool any_of(const Range& range, Test test) {
  return std::any_of(range.begin(), range.end(), test);
}

}  // namespace boxcar::planner
