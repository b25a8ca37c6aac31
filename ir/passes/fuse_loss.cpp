// Puts the pieces of a cross entropy into as few kernels as the layout of its classes allows, if
// options.fused_loss is set:
//
//   m = reduce_max(x), z = sum_exp(x, m), c = pick(x, labels), nll(m, z, c)
//
//   loss, m, z = cross_entropy_parts(x, labels)     if a device has all classes (options.whole_classes)
//   z, c = sum_exp_pick(x, m, labels)               in place of sum_exp and pick, if it has a part
//
// Results keep their names.
#include <unordered_map>
#include <utility>

#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

struct Pieces {
  OpId max = -1, sum = -1, pick = -1, nll = -1;
};

// The pieces before an nll op, which nothing else reads.
Pieces pieces_of(const Graph& graph, const std::vector<std::vector<OpId>>& readers, OpId nll) {
  const auto op = [&](OpId id) -> const Op& { return at(graph.ops, id); };
  const auto alone = [&](TensorId t, size_t count) { return at(readers, t).size() == count; };
  if (op(nll).type != "nll") return {};
  const std::vector<TensorId>& in = op(nll).inputs;
  const Pieces found{graph.tensor(in[0]).producer, graph.tensor(in[1]).producer, graph.tensor(in[2]).producer,
                     nll};
  const Op &max = op(found.max), &sum = op(found.sum), &pick = op(found.pick);
  if (max.type != "reduce_max" || sum.type != "sum_exp" || pick.type != "pick") return {};
  const Shape& shape = graph.tensor(max.inputs[0]).type.shape;
  const Shape axes = attr_ints(max.attrs, "axes"), last = {static_cast<int64_t>(shape.size()) - 1};
  const bool fits = (axes == last || axes == Shape{-1}) && !attr_bool(max.attrs, "keepdims") &&
                    sum.inputs[0] == max.inputs[0] && sum.inputs[1] == in[0] &&
                    pick.inputs[0] == max.inputs[0] &&
                    attr_int(max.attrs, "classes") == attr_int(sum.attrs, "classes");
  return fits && alone(in[0], 2) && alone(in[1], 1) && alone(in[2], 1) ? found : Pieces{};
}

}  // namespace

void fuse_loss(Step& step) {
  if (!step.options.fused_loss) return;
  const auto readers = consumers(step.graph);
  const bool whole = step.options.whole_classes;
  std::unordered_map<OpId, Pieces> losses;  // by the op that the fused one replaces
  std::vector<bool> gone(step.graph.ops.size(), false);
  for (size_t i = 0; i < step.graph.ops.size(); ++i) {
    const Pieces pieces = pieces_of(step.graph, readers, static_cast<OpId>(i));
    if (pieces.nll < 0) continue;
    // All operands exist at the later of sum_exp and pick.
    const OpId last = whole ? pieces.nll : std::max(pieces.sum, pieces.pick);
    losses[last] = pieces;
    for (const OpId id : {pieces.sum, pieces.pick}) at(gone, id) = true;
    if (whole) at(gone, pieces.max) = true;
  }
  if (losses.empty()) return;
  Rewriter rewrite(step.graph);
  std::vector<Op>& old = rewrite.old_ops();
  for (size_t i = 0; i < old.size(); ++i) {
    const auto found = losses.find(static_cast<OpId>(i));
    if (found == losses.end()) {
      if (!gone[i]) rewrite.keep(std::move(old[i]));
      continue;
    }
    const auto of = [&](OpId id) -> const Op& { return at(old, id); };
    const Pieces& p = found->second;
    const TensorId m = of(p.sum).inputs[1], z = of(p.sum).outputs[0], c = of(p.pick).outputs[0],
                   logits = of(p.sum).inputs[0], labels = of(p.pick).inputs[1];
    const std::vector<TensorId> results = whole ? std::vector{of(p.nll).outputs[0], m, z} : std::vector{z, c};
    const Attrs limits = {{"below", attr_int(of(p.pick).attrs, "below")},
                          {"classes", attr_int(of(p.sum).attrs, "classes")}};
    NewOp fused = whole ? NewOp{"cross_entropy_parts", {logits, labels}, limits, of(p.nll).name}
                        : NewOp{"sum_exp_pick", {logits, m, labels}, limits, of(p.sum).name};
    for (const TensorId result : results) fused.outputs.push_back(rewrite.graph().tensor(result).name);
    const std::vector<TensorId> made = rewrite.add(std::move(fused), old[i]);
    for (size_t r = 0; r < made.size(); ++r) {
      rewrite.graph().tensor(made[r]).sbp = rewrite.graph().tensor(results[r]).sbp;
      rewrite.replace(results[r], made[r]);
    }
  }
  step.finish(rewrite);
}

}  // namespace boxcar::ir
