#include "planner/reduced_gradients.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "ir/derived_name.h"
#include "ir/ops/optimizers.h"
#include "planner/sharding.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

using ir::DType;
using ir::TensorId;

class Caster {
 public:
  Caster(ir::Graph& graph, const Hints& hints)
      : graph_(graph),
        reduction_(hints.grad_reduction),
        often_(sharding_of(hints).reduces_each_micro_batch() && shards_of(hints) > 1) {}

  void run() {
    std::set<TensorId> gradients;
    for (const ir::Update& update : graph_.updates)
      if (const TensorId gradient = gradient_of(graph_, update); gradient >= 0) gradients.insert(gradient);
    const size_t passes = end_of_passes();
    casts_after_.resize(graph_.ops.size());
    for (TensorId gradient : gradients) {
      const std::vector<TensorId> all = sums(gradient);
      const auto behind = std::max(passes - 1, static_cast<size_t>(graph_.tensor(gradient).producer));
      if (!often_) cast({gradient, made(all[0]), gradient}, {}, behind, ir::Phase::update);
      if (often_)
        for (TensorId sum : all) cast_addend(sum);
    }
    if (std::any_of(casts_after_.begin(), casts_after_.end(), [](const auto& ops) { return !ops.empty(); }))
      insert();
  }

 private:
  const ir::Op& producer(TensorId t) const { return at(graph_.ops, graph_.tensor(t).producer); }
  DType dtype(TensorId t) const { return graph_.tensor(t).type.dtype; }

  size_t end_of_passes() const {
    size_t end = graph_.ops.size();
    while (end > 0 && graph_.ops[end - 1].phase == ir::Phase::update) --end;
    return end;
  }

  // The sums over micro-batches that are added to this gradient once per step.
  std::vector<TensorId> sums(TensorId gradient) const {
    const ir::Op& op = producer(gradient);
    if (op.phase != ir::Phase::update) return {gradient};
    std::vector<TensorId> all;
    for (TensorId t : op.inputs)
      for (TensorId sum : sums(t)) all.push_back(sum);
    return all;
  }

  // The tensor that a sum accumulates over the micro-batches; `sum` itself if nothing is accumulated.
  TensorId made(TensorId sum) const {
    return producer(sum).is(ir::OpKind::accumulate) ? producer(sum).inputs[0] : sum;
  }

  void cast_addend(TensorId sum) {
    const TensorId addend = made(sum);
    const std::vector<ir::OpId> readers =
        addend == sum ? std::vector<ir::OpId>() : std::vector{graph_.tensor(sum).producer};
    cast({addend, addend, sum}, readers, static_cast<size_t>(graph_.tensor(addend).producer),
         ir::Phase::backward);
  }

  // A gradient, and tensors of the types in which it is made and summed.
  struct Reduced {
    TensorId t, made, summed;
  };

  // Makes `readers` read the cast in place of the tensor; empty: all readers.
  void cast(const Reduced& reduced, const std::vector<ir::OpId>& readers, size_t behind, ir::Phase phase) {
    const TensorId t = reduced.t;
    const DType half = dtype(reduced.made);
    const DType to = reduction_ == Reduction::sums   ? dtype(reduced.summed)
                     : reduction_ == Reduction::half ? half
                                                     : DType::float32;
    if (ir::size_of(half) != 2 || dtype(t) == to) return;
    const auto id = static_cast<TensorId>(graph_.tensors.size());
    const auto replace = [&](ir::Op& op) { std::replace(op.inputs.begin(), op.inputs.end(), t, id); };
    if (readers.empty())
      for (ir::Op& op : graph_.ops) replace(op);
    for (ir::OpId reader : readers) replace(at(graph_.ops, reader));
    ir::Tensor tensor = graph_.tensor(t);
    tensor.name =
        to == DType::float32 ? tensor.name + ".float" : ir::derived_name(tensor.name, ir::Derived::half);
    tensor.type.dtype = to;
    tensor.role = ir::Role::gradient;
    tensor.output = 0;
    ir::Op op;
    op.name = tensor.name;
    op.type = "cast";
    op.inputs = {t}, op.outputs = {id};
    op.attrs = {{"to", ir::to_text(to)}};
    op.phase = phase;
    op.layer = producer(t).layer;
    op.placement = producer(t).placement;
    graph_.tensors.push_back(std::move(tensor));
    casts_after_[behind].push_back(std::move(op));
  }

  void insert() {
    std::vector<ir::Op> ops;
    for (size_t o = 0; o < graph_.ops.size(); ++o) {
      ops.push_back(std::move(graph_.ops[o]));
      std::move(casts_after_[o].begin(), casts_after_[o].end(), std::back_inserter(ops));
    }
    graph_.ops = std::move(ops);
    for (size_t o = 0; o < graph_.ops.size(); ++o)
      for (TensorId t : graph_.ops[o].outputs) graph_.tensor(t).producer = static_cast<ir::OpId>(o);
  }

  ir::Graph& graph_;
  const Reduction reduction_;
  const bool often_;                              // gradients are reduced before they are summed
  std::vector<std::vector<ir::Op>> casts_after_;  // by op: the casts that come after it
};

}  // namespace

void cast_for_reduction(ir::Graph& graph, const Hints& hints) {
  if (int64_t{hints.dp} * hints.cp == 1 || graph.updates.empty()) return;
  Caster(graph, hints).run();
}

bool is_cast_for_reduction(const ir::Graph& graph, const ir::Op& op) {
  return op.is(ir::OpKind::cast) && op.phase == ir::Phase::backward &&
         graph.tensor(op.outputs[0]).role == ir::Role::gradient;
}

ir::TensorId before_reduction(const ir::Graph& graph, ir::TensorId gradient) {
  const ir::Tensor& tensor = graph.tensor(gradient);
  const ir::Op& op = at(graph.ops, tensor.producer);
  return op.is(ir::OpKind::cast) && tensor.role == ir::Role::gradient ? op.inputs[0] : gradient;
}

ir::TensorId gradient_of(const ir::Graph& graph, const ir::Update& update) {
  const ir::Op& op = at(graph.ops, graph.tensor(update.next).producer);
  if (ir::is_of_moment(graph, update) || ir::updates_rows(op.type)) return -1;
  // A direction is made of the gradient by ops that read it first (ir/passes/factored.cpp).
  ir::TensorId t = op.inputs[1];
  const auto producer = [&]() -> const ir::Op& { return at(graph.ops, graph.tensor(t).producer); };
  while (graph.tensor(t).role != ir::Role::gradient && producer().phase == ir::Phase::update)
    t = producer().inputs.at(0);
  return t;
}

}  // namespace boxcar::planner
