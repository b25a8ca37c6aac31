// Gradients of look-up tables as the rows that a step read (TrainOptions::sparse_tables). The op
//
//   %table.grad = embedding_grad(%y.grad, %indices)
//
// goes, and the update reads its operands. A table that is read elsewhere too has a gradient of several
// terms, or replicas on other stages whose gradients are summed. It stays dense.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/ops/optimizers.h"
#include "ir/passes/pass.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

bool has_replicas(const Graph& graph, const Op& parameter) {
  return !parameter.replica_of.empty() || std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    return op.replica_of == parameter.name;
  });
}

}  // namespace

std::string why_not_sparse(const TrainOptions& options) {
  if (options.micro_batches > 1)
    return "rows of several micro-batches are not summed (use a larger micro_batch, so that a step has "
           "one, or switch it off)";
  if (options.clip_norm != 0 && !options.off.contains("clip"))
    return "the norm of all gradients is not known (use clip_norm 0, or switch it off)";
  if (scales_loss(options))
    return "gradients are not unscaled (use another precision than fp16, or switch it off)";
  if (row_of(options.optimizer).has_trust())
    return std::string(row_of(options.optimizer).name) +
           " needs the norms of whole tables (use another optimizer, or switch it off)";
  if (row_of(options.optimizer).factored)
    return std::string(row_of(options.optimizer).name) +
           " needs the means of whole tables (use another optimizer, or switch it off)";
  return "";
}

bool has_sparse_table(const Graph& forward) {
  const std::vector<std::vector<OpId>> readers = consumers(forward);
  return std::any_of(forward.ops.begin(), forward.ops.end(), [&](const Op& op) {
    const bool trained = op.is(OpKind::parameter) && forward.tensor(op.outputs[0]).role != Role::constant;
    if (!trained) return false;
    const std::vector<OpId>& all = at(readers, op.outputs[0]);
    return all.size() == 1 && at(forward.ops, all[0]).type == "embedding";
  });
}

void sparse_tables(Step& step) {
  if (!step.options.sparse_tables) return;
  if (const std::string why = why_not_sparse(step.options); !why.empty())
    throw Error::input("train.sparse_tables", why);
  std::vector<bool> read(step.graph.tensors.size());
  for (const Op& op : step.graph.ops)
    for (const TensorId t : op.inputs) at(read, t) = true;
  std::unordered_set<TensorId> dropped;
  for (Gradient& gradient : step.gradients) {
    const TensorId dense = gradient.gradient;
    const Op& made = at(step.graph.ops, step.graph.tensor(dense).producer);
    if (made.type != "embedding_grad" || at(read, dense) ||
        has_replicas(step.graph, state_op(step.graph, gradient.parameter)))
      continue;
    gradient.gradient = made.inputs[0], gradient.indices = made.inputs[1];
    dropped.insert(dense);
  }
  if (dropped.empty())
    throw Error::input("train.sparse_tables",
                       "no table is read by one embedding alone, on one stage (switch it off)");
  Rewriter rewrite(step.graph);
  for (Op& op : rewrite.old_ops())
    if (!dropped.contains(op.outputs[0])) rewrite.keep(std::move(op));
  step.finish(rewrite);
}

}  // namespace boxcar::ir
