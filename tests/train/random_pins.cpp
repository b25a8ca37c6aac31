#include "random_pins.h"

#include <algorithm>

#include "ir/op.h"
#include "planner/op_layout.h"
#include "planner/reduced_gradients.h"
#include "sbp/at.h"

namespace boxcar::tests {
namespace {

using planner::Mesh;
using planner::Pins;
using sbp::NdSbp;
using sbp::Sbp;

int64_t below(std::mt19937& random, size_t limit) {
  return std::uniform_int_distribution<int64_t>(0, static_cast<int64_t>(limit) - 1)(random);
}

// A split of any axis or a copy.
Sbp any_of(size_t rank, std::mt19937& random) {
  const int64_t choice = below(random, rank + 1);
  return choice == 0 ? Sbp::B() : Sbp::S(static_cast<int>(choice) - 1);
}

class Drawer {
 public:
  Drawer(const ir::Graph& graph, const Mesh& mesh, std::mt19937& random)
      : graph_(graph), mesh_(mesh), random_(random) {
    pins_.stored.assign(graph.tensors.size(), planner::PartialSbp(mesh.dims()));
    pins_.used.resize(graph.tensors.size());
  }

  Pins run() {
    for (const ir::Update& update : graph_.updates) {
      const ir::Op& op = at(graph_.ops, graph_.tensor(update.next).producer);
      if (update.state == op.inputs[0])
        pin_state(op, planner::gradient_of(graph_, update));
      else if (op.type == "second_moment")
        pin_moment(update);
    }
    for (const ir::Op& op : graph_.ops)
      for (ir::TensorId t : op.outputs)
        if (op.phase != ir::Phase::update && op.type != "parameter" && op.type != "constant" &&
            graph_.tensor(t).role != ir::Role::gradient && !is_own(op, t) && below(random_, 3) > 0)
          pin(t, layout(t));
    return std::move(pins_);
  }

 private:
  // Whether it is a statistic that each device has of its own part (batch_norm, `local`): a copy there has
  // other values than elsewhere, so no other layout holds them.
  static bool is_own(const ir::Op& op, ir::TensorId t) {
    const auto local = op.attrs.find("local");
    return local != op.attrs.end() && local->second == ir::Attr(true) && t != op.outputs[0];
  }

  NdSbp layout(ir::TensorId t) {
    NdSbp result;
    for (size_t d = 0; d < mesh_.dims(); ++d)
      result.push_back(any_of(graph_.tensor(t).type.shape.size(), random_));
    return result;
  }

  void pin(ir::TensorId t, const NdSbp& layout) { at(pins_.stored, t).assign(layout.begin(), layout.end()); }

  // Whether every op of the forward and backward passes can read t in this layout on a dimension of the mesh.
  bool readable(ir::TensorId t, Sbp layout, size_t d) const {
    for (const ir::Op& op : graph_.ops) {
      if (op.phase == ir::Phase::update) continue;
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i] == t && !reads(op, i, layout, d)) return false;
    }
    return true;
  }

  bool reads(const ir::Op& op, size_t input, Sbp layout, size_t d) const {
    ir::Types types;
    for (ir::TensorId t : op.inputs) types.push_back(graph_.tensor(t).type);
    const auto all = planner::offered(ir::op(op.type), types, op.attrs, mesh_, d);
    return std::any_of(all.begin(), all.end(),
                       [&](const sbp::Signature& s) { return s.inputs[input] == layout; });
  }

  // adam(w, g, m, v, ...) -> w, m, v
  void pin_state(const ir::Op& op, ir::TensorId gradient) {
    const NdSbp kept = kept_ = layout(op.inputs[0]);
    NdSbp read = kept;
    for (size_t d = 0; d < read.size(); ++d)
      if (below(random_, 2) == 0 || !readable(op.inputs[0], read[d], d)) read[d] = Sbp::B();
    for (size_t i = 0; i < op.outputs.size() + 1; ++i)
      pin(i == 1 && gradient >= 0 ? gradient : op.inputs[i], kept);  // not a direction that is made of it
    for (ir::TensorId t : op.outputs) pin(t, kept);
    at(pins_.used, op.inputs[0]) = read;
  }

  // A moment with an op of its own, behind its weight: laid out like it, where it has several elements.
  void pin_moment(const ir::Update& update) {
    NdSbp kept = kept_;
    for (Sbp& s : kept)
      if (s.is_split() && at(graph_.tensor(update.state).type.shape, s.axis) == 1) s = Sbp::B();
    pin(update.state, kept), pin(update.next, kept);
    at(pins_.used, update.state) = kept;
  }

  NdSbp kept_;  // of the last weight
  const ir::Graph& graph_;
  const Mesh& mesh_;
  std::mt19937& random_;
  Pins pins_;
};

}  // namespace

Pins random_pins(const ir::Graph& training_graph, const Mesh& mesh, std::mt19937& random) {
  return Drawer(training_graph, mesh, random).run();
}

}  // namespace boxcar::tests
