#include "ir/autodiff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "ir/derived_name.h"
#include "ir/grad/rules.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::ir {

TensorId GradContext::dy(size_t i) {
  TensorId& gradient = dy_.at(i);
  if (gradient < 0) gradient = constant(fmt::format("zero{}", i), type(y(i)), 0);
  return gradient;
}

const Op& GradContext::producer(TensorId tensor) const { return at(pool_.ops, at(pool_.producers, tensor)); }

std::vector<TensorId> GradContext::emit_all(const std::string& what, const char* type,
                                            std::vector<TensorId> inputs, Attrs attrs) {
  Op like;
  like.phase = Phase::backward;
  like.layer = op_.layer;
  like.placement = op_.placement;
  std::string name = op_.name + ".grad_" + what;
  return pool_.rewrite.add({type, std::move(inputs), std::move(attrs), std::move(name), {}}, like);
}

TensorId GradContext::emit(const std::string& what, const char* type, std::vector<TensorId> inputs,
                           Attrs attrs) {
  return emit_all(what, type, std::move(inputs), std::move(attrs))[0];
}

TensorId GradContext::constant(const std::string& what, const TensorType& type, double value) {
  Op like;
  like.phase = Phase::backward;
  like.layer = op_.layer;
  like.placement = op_.placement;
  return pool_.rewrite.add_source("constant", op_.name + ".grad_" + what, TensorType(type), Role::constant,
                                  {{"value", value}}, like);
}

void GradContext::give_to(TensorId tensor, TensorId gradient) {
  if (!at(pool_.wanted, tensor)) return;
  at(pool_.contributions, tensor).push_back(gradient);
}

TensorId GradContext::unbroadcast(const std::string& what, TensorId gradient, const TensorType& to) {
  const Shape from = type(gradient).shape, shape = to.shape;
  if (from == shape) return gradient;
  const size_t missing = from.size() - shape.size();
  std::vector<int64_t> axes;
  bool keeps = false;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i >= missing && from[i] == shape[i - missing]) continue;
    axes.push_back(static_cast<int64_t>(i));
    keeps = keeps || i >= missing;
  }
  TensorId sum = emit(what, "reduce_sum", {gradient}, {{"axes", axes}, {"keepdims", keeps}});
  if (type(sum).shape != shape) sum = emit(what + "_shape", "reshape", {sum}, {{"shape", shape}});
  return sum;
}

namespace {

using RuleTable = std::unordered_map<std::string_view, const GradRule*>;

RuleTable rule_table() {
  RuleTable table;
  for (const auto& group : {elementwise_gradients(), matmul_gradients(), shape_gradients(), nn_gradients()})
    for (const GradRule& rule : group) table.emplace(rule.op, &rule);
  return table;
}

// Whether the forward phase reads this tensor as a trained parameter: the parameter itself or its copy in the
// compute type.
bool is_leaf(const Op& op, const Tensor& tensor) {
  const bool trained = op.is(OpKind::parameter) && tensor.role != Role::constant;
  return is_float(tensor.type.dtype) && (trained || op.phase == Phase::update);
}

class Differentiator {
 public:
  Differentiator(Graph& graph, TensorId loss)
      : loss_(loss),
        loss_name_(graph.tensor(loss).name),
        ops_(graph.ops),
        rewrite_(graph),
        pool_{rewrite_,
              std::vector<std::vector<TensorId>>(graph.tensors.size()),
              std::vector<bool>(graph.tensors.size(), false),
              {},
              ops_} {
    for (const Tensor& tensor : graph.tensors) pool_.producers.push_back(tensor.producer);
  }

  std::vector<Gradient> run() {
    find_wanted();
    for (Op& op : rewrite_.old_ops()) rewrite_.keep(std::move(op));
    seed();
    for (size_t i = ops_.size(); i-- > 0;) {
      if (i + 1 < ops_.size() && ops_[i].layer < ops_[i + 1].layer) add_up_before(ops_[i].layer);
      walk(ops_[i]);
    }
    rewrite_.finish();
    return gradients();
  }

 private:
  Graph& graph() { return rewrite_.graph(); }
  std::vector<TensorId>& contributions(TensorId tensor) { return at(pool_.contributions, tensor); }

  bool any_wanted(const Op& op) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](TensorId input) { return at(pool_.wanted, input); });
  }

  // A tensor is wanted if it depends on a parameter through floating-point tensors.
  void find_wanted() {
    for (const Op& op : ops_) {
      const bool any = any_wanted(op);
      for (TensorId output : op.outputs) {
        const Tensor& tensor = graph().tensor(output);
        at(pool_.wanted, output) = is_leaf(op, tensor) || (any && is_float(tensor.type.dtype));
      }
    }
  }

  void seed() {
    if (graph().tensor(loss_).type.elements() != 1)
      throw Error::input("%" + loss_name_,
                         "a loss is one number, got " + to_text(graph().tensor(loss_).type));
    Op like = at(pool_.ops, graph().tensor(loss_).producer);
    like.phase = Phase::backward;
    const TensorId dy =
        rewrite_.add_source("constant", derived_name(loss_name_, Derived::gradient),
                            TensorType(graph().tensor(loss_).type), Role::constant, {{"value", 1.0}}, like);
    contributions(loss_).push_back(dy);
    remember(rewrite_.new_ops().size() - 1);
    at(named_, dy) = true;
  }

  void walk(const Op& op) {
    std::vector<TensorId> dy;
    int last = -1;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      dy.push_back(total(op.outputs[i], op));
      if (dy.back() >= 0) last = static_cast<int>(i);
    }
    if (last < 0) return;
    if (is_leaf(op, graph().tensor(op.outputs[0]))) {
      graph().tensor(dy[0]).role = Role::gradient;
      leaves_.emplace_back(op.outputs[0], dy[0]);
      return;
    }
    if (!any_wanted(op)) return;
    const auto rule = rules_.find(op.type);
    if (rule == rules_.end()) throw Error::input(op.name, fmt::format("{} has no gradient", op.type));
    if (last >= rule->second->outputs)
      throw Error::input(op.name, fmt::format("{} has no gradient through its result %{}", op.type,
                                              graph().tensor(at(op.outputs, last)).name));
    const size_t first_new = rewrite_.new_ops().size();
    GradContext context(pool_, op, std::move(dy));
    rule->second->rule(context);
    remember(first_new);
  }

  // Notes the makers of tensors for the ops from `first_new` on.
  void remember(size_t first_new) {
    makers_.resize(graph().tensors.size(), -1);
    named_.resize(graph().tensors.size(), false);
    for (size_t i = first_new; i < rewrite_.new_ops().size(); ++i)
      for (TensorId output : rewrite_.new_ops()[i].outputs) at(makers_, output) = static_cast<int>(i);
  }

  // The sum of a tensor's contributions, -1 if there is none.
  TensorId total(TensorId tensor, const Op& op) {
    std::vector<TensorId>& parts = contributions(tensor);
    if (parts.empty()) return -1;
    const std::string name = derived_name(graph().tensor(tensor).name, Derived::gradient);
    if (parts.size() == 1) {
      claim(parts[0], name);
      return parts[0];
    }
    return add_up(tensor, op, name);
  }

  // Sums contributions of layers from `layer` on to tensors made before it, into one sum each.
  void add_up_before(int layer) {
    for (TensorId tensor = 0; tensor < static_cast<TensorId>(pool_.producers.size()); ++tensor) {
      const std::vector<TensorId>& parts = contributions(tensor);
      if (parts.size() < 2) continue;
      const Op& producer = at(ops_, at(pool_.producers, tensor));
      if (producer.layer < layer && in_one_placement(parts)) add_up(tensor, producer, "");
    }
  }

  // Sum of the contributions so far: all of them if `whole` is a name; else there are more later. Each
  // contribution is added to the sum of earlier ones where it is made. So for a tensor read by many layers,
  // one sum goes from stage to stage, not every contribution to the producer's stage. Contributions in
  // several placements, or without a maker, are added beside the producer.
  TensorId add_up(TensorId tensor, const Op& producer, const std::string& whole) {
    std::vector<TensorId>& parts = contributions(tensor);
    int& added = added_[tensor];
    const std::string name = derived_name(graph().tensor(tensor).name, Derived::gradient);
    const bool together = in_one_placement(parts);
    for (size_t i = added == 0 ? 0 : 1; i < parts.size(); ++i)
      claim(parts[i], fmt::format("{}.{}", name, static_cast<size_t>(added) + i));
    TensorId sum = parts[0];
    const size_t first_new = rewrite_.new_ops().size();
    for (size_t i = 1; i < parts.size(); ++i) {
      const bool last = i + 1 == parts.size() && !whole.empty();
      ++added;
      sum = rewrite_.add(
          {"add", {sum, parts[i]}, {}, last ? whole : fmt::format("{}.partial{}", name, added), {}},
          together ? beside(*maker(parts[i])) : beside(producer))[0];
    }
    parts = {sum};
    remember(first_new);
    at(named_, sum) = !whole.empty();
    return sum;
  }

  bool in_one_placement(const std::vector<TensorId>& parts) {
    const Op* first = maker(parts[0]);
    return first && std::all_of(parts.begin(), parts.end(), [&](TensorId part) {
             return maker(part) && maker(part)->placement == first->placement;
           });
  }

  static Op beside(const Op& op) {
    Op like;
    like.phase = Phase::backward;
    like.layer = op.layer;
    like.placement = op.placement;
    return like;
  }

  const Op* maker(TensorId gradient) {
    const auto made = static_cast<size_t>(gradient);
    return made < makers_.size() && makers_[made] >= 0 ? &at(rewrite_.new_ops(), makers_[made]) : nullptr;
  }

  // A tensor that a rule made is named after the first gradient that it serves as.
  void claim(TensorId gradient, const std::string& name) {
    if (!maker(gradient) || at(named_, gradient)) return;
    at(named_, gradient) = true;
    graph().tensor(gradient).name = name;
  }

  // In the order of the parameters.
  std::vector<Gradient> gradients() {
    std::vector<Gradient> result;
    for (const auto& [leaf, gradient] : leaves_)
      result.push_back({rewrite_.renumbered(leaf), rewrite_.renumbered(gradient)});
    std::reverse(result.begin(), result.end());
    return result;
  }

  TensorId loss_;
  std::string loss_name_;
  std::vector<Op> ops_;  // a copy of the forward ops: rules read them while the list grows
  Rewriter rewrite_;
  GradContext::Pool pool_;
  RuleTable rules_ = rule_table();
  std::vector<int> makers_;        // by tensor: the backward op that makes it, an index into new_ops()
  std::vector<bool> named_;        // by tensor: named after a gradient that it is
  std::map<TensorId, int> added_;  // by tensor: contributions in its first one, minus one
  std::vector<std::pair<TensorId, TensorId>> leaves_;
};

}  // namespace

std::vector<Gradient> differentiate(Graph& graph, TensorId loss) { return Differentiator(graph, loss).run(); }

bool has_gradient(std::string_view op) {
  static const RuleTable rules = rule_table();
  return rules.contains(op);
}

}  // namespace boxcar::ir
