// The layouts of a training graph on a mesh as a problem of choices (assignment.h).
//
//   nodes: every forward and backward op with its signatures;
//          every state with the layouts in which those ops may read it;
//          every other tensor that several of them read, with the layout in which it is kept;
//          and, if several ops of a layer read it in one phase, with the copy that they share
//   edges: boxing from the made layout to the kept one, and from that to the one read; of gradients to states
//
//   y: P(sum) kept as B, three readers of B: one all-reduce, at the edge from the op that makes y
//
// A tensor with one reader is boxed on the edge to it. As in lowering, a layout that a reader needs and that
// is not kept is made again in each phase, so that no gathered tensor is kept. Costs are those of a step on
// the device with the largest parts: seconds of kernels, of collectives between kernels, of collectives of
// gradients and parameters (which may run beside other work), and bytes that stay: states, sums of gradients,
// and activations that the backward pass reads. Update ops are not nodes, because their cost follows from the
// layout in which their state is kept.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/deduce.h"
#include "planner/estimate/layout_costs.h"
#include "planner/planner.h"
#include "planner/sharding.h"
#include "planner/solve/assignment.h"
#include "sbp/at.h"

namespace boxcar::search {

// The coordinates of a cost.
enum LayoutCoordinate : size_t { kernels, collectives, states, memory, layout_coordinates };

// The layouts that may be chosen.
struct LayoutSpace {
  bool partial = true;                           // ops may read partial values
  std::map<ir::TensorId, sbp::NdSbp> pins = {};  // a state as it is read, any other tensor as it is kept
  std::map<ir::OpId, std::vector<sbp::Signature>> ops = {};  // fixed ops, by mesh dimension
  // By mesh dimension: whether every op keeps its signature there: the one in `as` or, without `as`, the one
  // from the hints. `as` itself is in the space.
  std::vector<bool> closed = {};
  std::optional<planner::Layouts> as = {};
};

// A set of ops of the graph as a problem. `items` lists what its nodes stand for.
struct LayoutPart {
  struct Item {
    enum class Kind : uint8_t { op, state, kept, copy } kind = Kind::op;
    int id = -1;     // of the op; of the tensor
    int phase = -1;  // of a copy
    int layer = 0;
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  std::vector<Item> items;
  std::map<Item, int> node;
  Assignment problem;
};

class LayoutGraph {
 public:
  // `graph` has its backward pass and update. All references must outlive this. Throws Error (bad input)
  // naming a tensor that cannot have its pinned layout.
  LayoutGraph(const ir::Graph& graph, const planner::Hints& hints, const planner::Mesh& mesh,
              int micro_batches, LayoutSpace space, LayoutCosts& costs);

  // Ops of the forward and backward pass, by layer (the first is -1).
  const std::vector<std::vector<ir::OpId>>& layers() const { return layers_; }
  std::vector<ir::OpId> all_ops() const;

  LayoutPart part(const std::vector<ir::OpId>& ops) const;
  // The same without the problem.
  LayoutPart items(const std::vector<ir::OpId>& ops) const;

  // Kept tensors between a layer and the next one, by id.
  const std::vector<ir::TensorId>& between(size_t layer) const { return between_[layer]; }
  // Other tensors with a node that a layer shares with a layer that is not its neighbour, such as an
  // encoder's output.
  const std::vector<ir::TensorId>& common(size_t layer) const { return common_[layer]; }
  // Equal for layers with equal problems, equal layouts of the tensors between them and their neighbours, and
  // the same common tensors. Empty if another tensor goes to a layer that is not a neighbour.
  std::string key(size_t layer) const;

  // Writes the choices of a part into `layouts`.
  void take(const LayoutPart& part, const std::vector<int>& choice, planner::Layouts& layouts) const;
  planner::Layouts none() const;

  const std::vector<sbp::NdSbp>& layouts(ir::TensorId t) const { return at(layouts_, t); }

 private:
  struct State {
    ir::TensorId master = -1;
    std::vector<ir::OpId> updates;         // ops that update it or follow from it
    std::vector<ir::TensorId> kept, read;  // tensors that are kept; tensors that passes read
    std::vector<ir::TensorId> gradients;   // summed over the micro-batches
    ir::TensorId rows = -1;                // of a sparse table: the gradients of the rows that were read
    std::vector<sbp::NdSbp> stored;        // by layout in which it is read: its stored layout
    int layer = 0;

    bool trained() const { return !gradients.empty() || rows >= 0; }
  };
  using Kind = LayoutPart::Item::Kind;
  using Item = LayoutPart::Item;
  struct Parts;

  const ir::Tensor& tensor(ir::TensorId t) const { return graph_.tensor(t); }
  const ir::Op& op(ir::OpId o) const { return at(graph_.ops, o); }
  bool is_pass(ir::OpId o) const;
  int layer_of(ir::OpId o) const { return op(o).layer + 1; }

  std::vector<ir::TensorId> summed_in_passes(ir::TensorId gradient) const;
  ir::TensorType reduced_type(ir::TensorId summed) const;  // the type in which such a gradient is reduced
  void find_layers();
  void find_states();
  void find_choices();
  void find_layouts();
  void find_crossings();
  std::vector<sbp::NdSbp> wanted(ir::TensorId t) const;
  void add_known(ir::TensorId t, std::vector<sbp::NdSbp>& all) const;
  std::vector<sbp::NdSbp> shared(ir::TensorId t, int phase, int layer) const;
  bool may_keep(const sbp::NdSbp& layout) const;
  const std::vector<int>& tables_of(ir::TensorId rows) const;  // the states of rows_of_
  bool is_kept(ir::TensorId t) const;
  bool has_copy(ir::TensorId t, ir::OpId reader) const;
  double bucket() const;

  std::vector<Cost> node_costs(const Item& item) const;
  Cost state_cost(const State& state, size_t choice) const;
  void add_op_edges(LayoutPart& part, ir::OpId o) const;
  void add_gradient_edges(LayoutPart& part, ir::OpId o) const;
  void add_row_edges(LayoutPart& part, ir::OpId o) const;

  const ir::Graph& graph_;
  const planner::Hints& hints_;
  const planner::Sharding sharding_;
  const planner::Mesh& mesh_;
  int micro_batches_;
  LayoutSpace space_;
  LayoutCosts& costs_;
  std::vector<std::vector<ir::OpId>> readers_;         // by tensor: readers in the passes, once per operand
  std::vector<std::vector<ir::OpId>> layers_;          // by layer + 1
  std::vector<std::vector<ir::TensorId>> between_;     // by layer + 1: those shared with the next one
  std::vector<std::vector<const OpChoice*>> choices_;  // by op
  std::vector<State> all_states_;
  std::vector<std::pair<ir::TensorId, ir::TensorId>> replicas_;  // states, and replicas on another stage
  std::vector<int> state_of_;                         // by tensor: the state that it is or derives from; -1
  std::vector<int> gradient_of_;                      // by tensor: the state whose summed gradient it is; -1
  std::map<ir::TensorId, std::vector<int>> rows_of_;  // by gradient of rows: the states of its tables
  std::map<ir::TensorId, ir::TensorId> cast_;         // by summed gradient: the tensor that is reduced for it
  std::vector<std::vector<sbp::NdSbp>> layouts_;      // by tensor with a node
  std::vector<std::vector<ir::TensorId>> common_;     // by layer + 1
  std::vector<bool> far_;                             // by layer + 1: has other shared tensors
};

}  // namespace boxcar::search
