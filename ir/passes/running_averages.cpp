// Running averages of batch norm: two states of each op, and how a step moves them.
//
//   %dx, ..., %m.grad, %v.grad = batch_norm_grad(...) {share=0.25}       with four micro-batches
//   %m.grad.sum = accumulate_statistics(%m.grad)                         of more than one
//   %m.next = running_average(%m, %m.grad.sum, %grads_finite)            m: norm1.running_mean
//
// The sum over micro-batches, and over devices that each have statistics of their own, is the mean of all
// their statistics. So a step moves an average once, by the same amount under every plan that normalises the
// same parts of the data. PyTorch moves it once a micro-batch, and on every device by itself.
//
// The sums are laid out, reduced and sharded as sums of gradients are, but they are neither clipped nor
// scaled: this pass comes after those that do so.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/derived_name.h"
#include "ir/ops/batch_statistics.h"
#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

// The op whose gradient this is, possibly as it was run again; null for other ops.
const Op* norm_of(const Graph& graph, const Op& op) {
  if (op.phase != Phase::backward || op.type != "batch_norm_grad") return nullptr;
  return &at(graph.ops, graph.tensor(op.inputs[3]).producer);
}

struct Average {
  std::string name;
  Op like;  // in the layer and placement of the norm, of the update phase
  TensorId of_step = -1;
};

// A norm, by the index of its gradient.
struct Norm {
  std::string name;
  double eps = 0;
};

std::map<size_t, Norm> norms_of(const Graph& graph) {
  std::map<size_t, Norm> norms;
  for (size_t o = 0; o < graph.ops.size(); ++o)
    if (const Op* norm = norm_of(graph, graph.ops[o]))
      norms[o] = {std::string(base_name(norm->name)), attr_float(norm->attrs, "eps")};
  return norms;
}

// Adds the gradient anew with shares of statistics, which it returns.
std::vector<TensorId> with_shares(Rewriter& rewrite, const Op& gradient, const Norm& norm, double share) {
  Graph& graph = rewrite.graph();
  Attrs attrs = gradient.attrs;
  attrs["eps"] = norm.eps, attrs["share"] = share;
  std::vector<std::string> names;
  for (const TensorId t : gradient.outputs) names.push_back(graph.tensor(t).name);
  for (const std::string_view ending : {running_mean, running_variance})
    names.push_back(derived_name(norm.name + std::string(ending), Derived::gradient));
  const std::vector<TensorId> made =
      rewrite.add({gradient.type, gradient.inputs, attrs, gradient.name, names}, gradient);
  for (size_t i = 0; i < gradient.outputs.size(); ++i) {
    graph.tensor(made[i]).role = graph.tensor(gradient.outputs[i]).role;
    rewrite.replace(gradient.outputs[i], made[i]);
  }
  return made;
}

}  // namespace

void running_averages(Step& step) {
  const int micro_batches = step.options.micro_batches;
  const std::map<size_t, Norm> norms = norms_of(step.graph);
  if (norms.empty()) return;
  Rewriter rewrite(step.graph);
  Graph& graph = rewrite.graph();
  std::vector<Average> averages;
  for (size_t o = 0; o < rewrite.old_ops().size(); ++o) {
    Op& op = rewrite.old_ops()[o];
    const auto norm = norms.find(o);
    if (norm == norms.end()) {
      rewrite.keep(std::move(op));
      continue;
    }
    const std::vector<TensorId> made = with_shares(rewrite, op, norm->second, 1.0 / micro_batches);
    for (const auto& [ending, result] :
         {std::pair{running_mean, share_of_mean}, std::pair{running_variance, share_of_variance}}) {
      Average average{norm->second.name + std::string(ending), op, made[result]};
      graph.tensor(average.of_step).role = Role::gradient;
      if (micro_batches > 1) {
        const std::string sum = derived_name(graph.tensor(average.of_step).name, Derived::sum);
        average.of_step = rewrite.add({accumulate_statistics_op, {average.of_step}, {}, sum, {}}, op)[0];
        graph.tensor(average.of_step).role = Role::gradient;
      }
      average.like.phase = Phase::update;
      averages.push_back(std::move(average));
    }
  }
  for (const Average& average : averages) {
    const TensorId state = rewrite.add_source("parameter", average.name, graph.tensor(average.of_step).type,
                                              Role::optimizer, {}, average.like);
    std::vector<TensorId> operands{state, average.of_step};
    if (step.finite >= 0) operands.push_back(step.finite);
    const TensorId next = rewrite.add({running_average_op,
                                       operands,
                                       {},
                                       average.name + ".update",
                                       {derived_name(average.name, Derived::next)}},
                                      average.like)[0];
    graph.tensor(next).role = Role::optimizer;
    graph.updates.push_back({state, next});
  }
  step.finish(rewrite);
}

}  // namespace boxcar::ir
