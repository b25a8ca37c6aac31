// Rewriting a graph's list of ops. Autodiff and every pass walk through the old list once. They keep, drop or
// replace ops and add new ones between them.
//
//   Rewriter rewrite(graph);                       // takes the list of ops out of the graph
//   for (Op& op : rewrite.old_ops()) {
//     if (op.type == "gelu")
//       rewrite.replace(op.outputs[0], rewrite.add({"relu", op.inputs, {}, op.name}, op)[0]);
//     else
//       rewrite.keep(std::move(op));
//   }
//   rewrite.finish();                              // new list, producers, no unused tensors
//
// Tensor ids stay valid until finish(), which drops tensors that no op defines and renumbers the rest. The
// new list must define each tensor before reading it. Not thread-safe; one Rewriter per graph at a time.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace boxcar::ir {

struct NewOp {
  std::string type;
  std::vector<TensorId> inputs = {};
  Attrs attrs = {};
  std::string name = {};
  std::vector<std::string> outputs = {};  // tensor names; by default output_name()
};

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  std::vector<Op>& old_ops() { return old_; }

  // Appends a registry op in the layer, phase and placement of `like`; returns its results. Throws the errors
  // of infer.
  std::vector<TensorId> add(NewOp op, const Op& like);
  // Appends a "parameter" or "constant" op.
  TensorId add_source(const char* type, std::string name, TensorType tensor_type, Role role, Attrs attrs,
                      const Op& like);
  // Appends an existing op, with operands replaced as replace() asked.
  void keep(Op op);
  // Appends an op with its result types inferred anew from its operands' current types; its results replace
  // the old ones under the same names.
  void renew(Op op);
  // From here on, kept and added ops read `by` in place of `tensor`.
  void replace(TensorId tensor, TensorId by);
  TensorId current(TensorId tensor) const;  // follows replace()
  std::vector<Op>& new_ops() { return ops_; }
  const std::vector<Op>& new_ops() const { return ops_; }

  // Throws Error (fault) naming an op that reads a tensor not defined before it.
  void finish();
  // After finish(): the new id of a tensor known before, -1 if it is gone.
  TensorId renumbered(TensorId old) const { return renumbered_.at(static_cast<size_t>(old)); }

 private:
  Graph& graph_;
  std::vector<Op> old_, ops_;
  std::vector<TensorId> replaced_;  // by tensor id; itself if not replaced
  std::vector<TensorId> renumbered_;
  bool finished_ = false;
};

}  // namespace boxcar::ir
