// Runs forward ops again before the backward ops that need their results, so that these need not be kept.
//
// Full: all ops of a layer, from its input. Selective: the chosen modules (Op::module), by default
// attention's core. Attention as one op keeps nothing large and is not recomputed. As in a checkpointing
// framework, all ops of a group are recomputed, also those whose results nothing reads, because published
// runs pay for them. With `recompute_stop` the recomputation of a layer stops when the backward pass has all
// that it reads, as in PyTorch from 2.1 on: a layer's last product is not recomputed if no dropout follows
// it. Ops: all of a layer except the results that a policy by op keeps: those of every other product, from
// the first on, and of attention as one op. Source: torchtitan/models/llama3/infra/parallelize.py,
// selective_ac_option "op".
//
// A group is a layer or a module of it. It is recomputed as a whole before the first op that reads one of its
// results. A module that reads results of another is recomputed after it.
//
// Each stage may limit this to a number of its first layers; the others have their own kind of recomputation.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ir/derived_name.h"
#include "ir/passes/pass.h"
#include "sbp/at.h"
#include "sbp/words.h"

namespace boxcar::ir {
namespace {

struct Policy {
  Recompute kind;
  // Whether an op of the layer is recomputed. `products`: number of the layer's products before it.
  bool (*recomputes)(const Op& op, int products);
  bool opens = false;      // at the start of the layer's backward pass; else before the first reader
  bool by_module = false;  // only the chosen modules, each a group
};

bool is_product(const Op& op) { return op.is(OpKind::product) || op.is(OpKind::product_with_epilogue); }

constexpr Policy policies[] = {
    {.kind = Recompute::none, .recomputes = [](const Op&, int) { return false; }},
    {.kind = Recompute::selective,
     .recomputes = [](const Op& op, int) { return !op.is(OpKind::attention); },
     .by_module = true},
    {.kind = Recompute::full, .recomputes = [](const Op&, int) { return true; }, .opens = true},
    {.kind = Recompute::ops,
     .recomputes =
         [](const Op& op, int products) {
           return !op.is(OpKind::attention) && (!is_product(op) || products % 2 == 1);
         }},
};

class Recomputer {
 public:
  explicit Recomputer(Step& step)
      : options_(step.options),
        kinds_(static_cast<size_t>(step.graph.layers), options_.recompute_others),
        layers_(kinds_.size()),
        rewrite_(step.graph) {
    std::vector<int> ends = options_.stage_starts;
    if (ends.empty()) ends.push_back(0);
    ends.push_back(step.graph.layers);
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
    std::vector<size_t> ops;  // ops to recompute, as indices into the new list
    bool done = false;
  };
  struct Layer {
    std::vector<Group> groups;
    Module module = Module::none;  // the chosen module of its last op
    int products = 0;              // so far in its forward pass
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
  bool in_layer(const Op& op) const { return op.layer >= 0 && op.layer < static_cast<int>(layers_.size()); }
  Layer& layer(const Op& op) { return at(layers_, op.layer); }
  const Policy& policy(const Op& op) const { return find_row(policies, at(kinds_, op.layer)); }

  // The outermost chosen module that the op is part of.
  Module chosen(const Op& op) const {
    const std::set<Module>& modules = options_.recompute_modules;
    const bool in_moe = op.module == Module::moe_act || op.module == Module::shared_experts;
    if (in_moe && modules.contains(Module::moe)) return Module::moe;
    return modules.contains(op.module) ? op.module : Module::none;
  }

  void forward(const Op& op) {
    Layer& layer = this->layer(op);
    const Policy& policy = this->policy(op);
    const Module module = policy.by_module ? chosen(op) : Module::none;
    const bool changes = module != std::exchange(layer.module, module);
    const bool begins = layer.groups.empty() || changes;
    if ((!policy.by_module || module != Module::none) && policy.recomputes(op, layer.products)) {
      if (begins) layer.groups.emplace_back();
      layer.groups.back().ops.push_back(rewrite_.new_ops().size());
    }
    if (is_product(op)) ++layer.products;
  }

  // Makes the op read recomputed results of this layer's groups. They are recomputed before the first op that
  // needs them.
  void backward(Op& op) {
    for (Group& group : layer(op).groups)
      if (!group.done && (policy(op).opens || reads(op, group))) recompute(group);
    for (TensorId& input : op.inputs) input = recomputed(input, op.layer);
  }

  bool reads(const Op& op, const Group& group) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
      return std::any_of(group.ops.begin(), group.ops.end(), [&](size_t position) {
        const std::vector<TensorId>& made = first_run(position).outputs;
        return std::find(made.begin(), made.end(), input) != made.end();
      });
    });
  }

  void recompute(Group& group) {
    if (std::exchange(group.done, true)) return;
    // A module's last results may be read only by the recomputation of another module.
    if (options_.recompute_stop && !group.ops.empty() && policy(first_run(group.ops.front())).opens)
      drop_unread_tail(group);
    for (const size_t position : group.ops) {
      Op op = first_run(position);
      rewrite_.new_ops()[position].runs_again = true;
      for (Group& other : layer(op).groups)
        if (!other.done && reads(op, other)) recompute(other);
      op.name = derived_name(op.name, Derived::recomputed);
      op.phase = Phase::backward;
      op.recomputed = true;
      for (TensorId& input : op.inputs) input = recomputed(input, op.layer);
      for (TensorId& output : op.outputs) {
        Tensor copy = rewrite_.graph().tensor(output);
        copy.name = derived_name(copy.name, Derived::recomputed);
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

  TensorId recomputed(TensorId tensor, int layer) const {
    if (static_cast<size_t>(tensor) >= copies_.size()) return tensor;
    const Copy& copy = at(copies_, tensor);
    return copy.layer == layer && copy.tensor >= 0 ? copy.tensor : tensor;
  }

  const TrainOptions& options_;
  std::vector<Recompute> kinds_;  // by layer
  std::vector<Layer> layers_;
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
