// Forward ops run again before the backward ops that need them, so that their results need not wait.
//
// Full: all ops of a layer, from its input. Selective: attention's core (Op::in_core); attention as one op
// keeps nothing large and is left alone. As in a checkpointing framework, all ops of the group run again,
// also those whose results nothing reads: published runs pay for them. With `recompute_stop` a layer's second
// run ends where the backward pass has all it reads, as PyTorch's does from 2.1 on: without the last product
// of a layer that has no dropout behind it. Ops: all of a layer but what a policy by op keeps, results of
// every other product, the first on, and of attention as one op:
// torchtitan/models/llama3/infra/parallelize.py, selective_ac_option "op".
//
// Each stage may have a number of layers that do so, its first; the others have a kind of their own.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

struct Policy {
  // Whether an op of the layer runs again. `products`: the layer's products before it.
  bool (*runs_again)(const Op& op, int products);
  bool opens = false;  // it opens the layer's backward pass; else it waits for its first reader
};
constexpr Policy policies[] = {
    // By Recompute, in its order.
    {[](const Op&, int) { return false; }},
    {[](const Op& op, int) { return op.in_core && !op.is(OpKind::attention); }},
    {[](const Op&, int) { return true; }, true},
    {[](const Op& op, int products) {
      return !op.is(OpKind::attention) && (!op.is(OpKind::product) || products % 2 == 1);
    }},
};

class Recomputer {
 public:
  explicit Recomputer(Step& step)
      : options_(step.options),
        layers_(step.graph.layers),
        kinds_(static_cast<size_t>(layers_), options_.recompute_others),
        groups_(static_cast<size_t>(layers_)),
        rewrite_(step.graph) {
    std::vector<int> ends = options_.stage_starts;
    if (ends.empty()) ends.push_back(0);
    ends.push_back(layers_);
    for (size_t stage = 0; stage + 1 < ends.size(); ++stage)
      std::fill_n(kinds_.begin() + ends[stage],
                  recomputed_layers(options_, stage, ends[stage + 1] - ends[stage]), options_.recompute);
  }

  Rewriter& run() {
    if (options_.recompute_stop) find_reads();
    for (Op& op : rewrite_.old_ops()) {
      if (op.phase == Phase::forward && in_layer(op) && !op.inputs.empty()) forward(op);
      if (op.phase == Phase::backward && in_layer(op)) backward(op);
      rewrite_.keep(std::move(op));
    }
    return rewrite_;
  }

 private:
  struct Group {
    std::vector<size_t> ops;  // that run again, in the new list
    int products = 0;         // of its forward pass
    bool done = false;
  };

  // Collects the tensors that backward ops of layers read.
  void find_reads() {
    for (const Op& op : rewrite_.old_ops())
      if (op.phase == Phase::backward && in_layer(op))
        for (TensorId input : op.inputs) read_.insert({op.layer, input});
  }

  void drop_unread_tail(Group& group) const {
    const auto unread = [&](const Op& op) {
      return std::none_of(op.outputs.begin(), op.outputs.end(), [&](TensorId output) {
        return read_.contains({op.layer, output});
      });
    };
    while (!group.ops.empty() && unread(first_run(group.ops.back()))) group.ops.pop_back();
  }

  const Op& first_run(size_t position) const { return rewrite_.new_ops()[position]; }
  bool in_layer(const Op& op) const { return op.layer >= 0 && op.layer < layers_; }
  Group& group(const Op& op) { return at(groups_, op.layer); }
  const Policy& policy(const Op& op) const { return at(policies, at(kinds_, op.layer)); }

  void forward(const Op& op) {
    Group& group = this->group(op);
    if (policy(op).runs_again(op, group.products)) group.ops.push_back(rewrite_.new_ops().size());
    if (op.is(OpKind::product)) ++group.products;
  }

  // Reads results of this layer's group from its second run, which stands before the first op that needs it.
  void backward(Op& op) {
    Group& group = this->group(op);
    if (!group.done && needs(op, group)) run_again(group);
    if (!group.done) return;
    for (TensorId& input : op.inputs) input = again(input, op.layer);
  }

  bool needs(const Op& op, const Group& group) const {
    if (group.ops.empty()) return false;
    if (policy(op).opens) return true;
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
      return std::any_of(group.ops.begin(), group.ops.end(), [&](size_t position) {
        const std::vector<TensorId>& made = first_run(position).outputs;
        return std::find(made.begin(), made.end(), input) != made.end();
      });
    });
  }

  void run_again(Group& group) {
    group.done = true;
    if (options_.recompute_stop) drop_unread_tail(group);
    for (const size_t position : group.ops) {
      Op op = first_run(position);
      rewrite_.new_ops()[position].runs_again = true;
      op.name += ".recomputed";
      op.phase = Phase::backward;
      op.recomputed = true;
      for (TensorId& input : op.inputs) input = again(input, op.layer);
      for (TensorId& output : op.outputs) {
        Tensor copy = rewrite_.graph().tensor(output);
        copy.name += ".recomputed";
        const auto id = static_cast<TensorId>(rewrite_.graph().tensors.size());
        remember(output, {op.layer, id});
        output = id;
        rewrite_.graph().tensors.push_back(std::move(copy));
      }
      rewrite_.keep(std::move(op));
    }
  }

  struct Copy {
    int layer = -1;
    TensorId tensor = -1;
  };

  void remember(TensorId tensor, Copy copy) {
    if (copies_.size() <= static_cast<size_t>(tensor)) copies_.resize(rewrite_.graph().tensors.size());
    at(copies_, tensor) = copy;
  }

  TensorId again(TensorId tensor, int layer) const {
    if (static_cast<size_t>(tensor) >= copies_.size()) return tensor;
    const Copy& copy = at(copies_, tensor);
    return copy.layer == layer && copy.tensor >= 0 ? copy.tensor : tensor;
  }

  const TrainOptions& options_;
  int layers_;
  std::vector<Recompute> kinds_;  // by layer
  std::vector<Group> groups_;
  Rewriter rewrite_;
  std::vector<Copy> copies_;                 // by tensor
  std::set<std::pair<int, TensorId>> read_;  // layer, tensor
};

}  // namespace

int recomputed_layers(const TrainOptions& options, size_t stage, int layers) {
  const std::vector<int>& counts = options.recompute_layers;
  if (counts.empty()) return layers;
  return std::min(layers, counts[counts.size() == 1 ? 0 : stage]);
}

void recompute(Step& step) {
  if (step.options.recompute == Recompute::none) return;
  Recomputer recomputer(step);
  step.finish(recomputer.run());
}

}  // namespace boxcar::ir
