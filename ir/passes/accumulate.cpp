// Accumulates gradients over micro-batches, at least in float32 unless the job wants them, or all except
// tables, in 16 bits. For a parameter used in several layers (a tied embedding), contributions are
// accumulated where they are made and added once per step.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/derived_name.h"
#include "ir/passes/pass.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

class Accumulator {
 public:
  explicit Accumulator(Step& step)
      : step_(step), states_(states(step)), ops_(step.graph.ops), rewrite_(step.graph) {
    for (size_t i = 0; i < step.gradients.size(); ++i)
      if (step.gradients[i].indices < 0) plan(i);
    for (size_t i = 0; i < step.gradients.size(); ++i)
      if (tables_.contains(i)) table_names_.insert(original(states_[i]));
  }

  Rewriter& run() {
    for (Op& op : rewrite_.old_ops()) {
      const TensorId made = op.outputs[0];
      if (dropped_.contains(made)) continue;
      const bool none = std::none_of(op.outputs.begin(), op.outputs.end(),
                                     [&](TensorId output) { return parts_.contains(output); });
      const Op like = none ? Op() : op;
      rewrite_.keep(std::move(op));
      for (TensorId output : like.outputs)
        if (const auto found = parts_.find(output); found != parts_.end())
          for (const Part& part : found->second) sum_up(part, output, like);
    }
    for (auto& [gradient, sums] : totals_) add_up(gradient, sums);
    return rewrite_;
  }

 private:
  struct Part {
    size_t gradient = 0;  // index into step.gradients
    size_t index = 0, count = 1;
  };

  const Op& producer(TensorId tensor) const { return at(ops_, rewrite_.graph().tensor(tensor).producer); }

  bool needed(TensorId gradient) const {
    return step_.options.micro_batches > 1 || dtype(gradient) != wide(dtype(gradient));
  }
  DType summed(size_t index, TensorId made) const {
    const Gradients kept = step_.options.gradients;
    const bool half = kept == Gradients::half || (kept == Gradients::half_but_tables &&
                                                  !table_names_.contains(original(states_[index])));
    return half ? dtype(made) : wide(dtype(made));
  }
  DType dtype(TensorId tensor) const { return rewrite_.graph().tensor(tensor).type.dtype; }

  // The addends of a gradient that sums contributions of several layers.
  void addends(TensorId gradient, std::vector<TensorId>& out) {
    const Op& op = producer(gradient);
    if (op.type != "add" || rewrite_.graph().tensor(gradient).role != Role::gradient || !crosses(op)) {
      out.push_back(gradient);
      return;
    }
    dropped_.insert(gradient);
    for (TensorId input : op.inputs) {
      rewrite_.graph().tensor(input).role = Role::gradient;
      addends(input, out);
    }
  }

  bool crosses(const Op& add) const { return producer(add.inputs[0]).layer != producer(add.inputs[1]).layer; }

  void plan(size_t index) {
    std::vector<TensorId> parts;
    addends(step_.gradients[index].gradient, parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      parts_[parts[i]].push_back({index, i, parts.size()});
      if (producer(parts[i]).type == "embedding_grad") tables_.insert(index);
    }
  }

  // Gradients of a parameter's replicas are summed, so they have one type.
  static const std::string& original(const Op& state) {
    return state.replica_of.empty() ? state.name : state.replica_of;
  }

  std::string name(size_t gradient) const {
    return derived_name(derived_name(states_[gradient].name, Derived::gradient), Derived::sum);
  }

  static std::vector<Op> states(const Step& step) {
    std::vector<Op> ops;
    for (const Gradient& gradient : step.gradients) ops.push_back(state_op(step.graph, gradient.parameter));
    return ops;
  }

  void sum_up(const Part& part, TensorId made, const Op& like) {
    TensorId sum = made;
    if (needed(made)) {
      const std::string base = name(part.gradient);
      sum = rewrite_.add({"accumulate",
                          {made},
                          {{"to", to_text(summed(part.gradient, made))}},
                          part.count == 1 ? base : base + std::to_string(part.index),
                          {}},
                         like)[0];
      rewrite_.graph().tensor(sum).role = Role::gradient;
    }
    if (part.count == 1)
      step_.gradients[part.gradient].gradient = sum;
    else
      totals_[part.gradient].push_back(sum);
  }

  void add_up(size_t index, const std::vector<TensorId>& sums) {
    Op like = states_[index];
    like.phase = Phase::update;
    TensorId total = sums[0];
    for (size_t i = 1; i < sums.size(); ++i) {
      const bool last = i + 1 == sums.size();
      total = rewrite_.add(
          {"add", {total, sums[i]}, {}, name(index) + (last ? "" : "_" + std::to_string(i)), {}}, like)[0];
      rewrite_.graph().tensor(total).role = Role::gradient;
    }
    step_.gradients[index].gradient = total;
  }

  Step& step_;
  std::vector<Op> states_;  // by gradient: the "parameter" op
  std::vector<Op> ops_;
  Rewriter rewrite_;
  std::unordered_set<TensorId> dropped_;
  std::unordered_set<size_t> tables_;            // gradients of look-up tables
  std::unordered_set<std::string> table_names_;  // look-up tables, on any stage
  std::unordered_map<TensorId, std::vector<Part>> parts_;
  std::map<size_t, std::vector<TensorId>> totals_;
};

}  // namespace

void accumulate(Step& step) {
  if (step.gradients.empty()) return;
  Accumulator accumulator(step);
  step.finish(accumulator.run());
}

}  // namespace boxcar::ir
