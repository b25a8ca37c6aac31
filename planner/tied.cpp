#include "planner/tied.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ir/derived_name.h"
#include "planner/reduced_gradients.h"
#include "sbp/at.h"

namespace boxcar::planner {

namespace {

void renumber_producers(ir::Graph& graph) {
  for (size_t o = 0; o < graph.ops.size(); ++o)
    for (size_t i = 0; i < graph.ops[o].outputs.size(); ++i) {
      graph.tensor(graph.ops[o].outputs[i]).producer = static_cast<ir::OpId>(o);
      graph.tensor(graph.ops[o].outputs[i]).output = static_cast<int>(i);
    }
}

ir::TensorId add_replica(ir::Graph& graph, ir::TensorId original, int layer, const std::string& name,
                         std::vector<ir::Op>& ops) {
  ir::Tensor tensor = graph.tensor(original);
  tensor.name = name;
  const auto id = static_cast<ir::TensorId>(graph.tensors.size());
  graph.tensors.push_back(tensor);
  ir::Op source = at(graph.ops, graph.tensor(original).producer);
  source.replica_of = source.name;
  source.name = name;
  source.outputs = {id};
  source.layer = layer;
  ops.push_back(std::move(source));
  return id;
}

}  // namespace

void replicate_shared_parameters(ir::Graph& graph, const std::vector<int>& stage_layers,
                                 const PartPlaces& places) {
  std::map<ir::TensorId, int> home;                               // stage of a parameter's first use
  std::map<std::pair<ir::TensorId, int>, ir::TensorId> replicas;  // by stage
  std::vector<ir::Op> ops;
  for (ir::Op op : graph.ops) {
    const int v = virtual_stage(stage_layers, op.layer);
    const int stage = places.stage(v);
    for (ir::TensorId& t : op.inputs) {
      const ir::Tensor& tensor = graph.tensor(t);
      if (tensor.producer < 0 || !at(graph.ops, tensor.producer).is(ir::OpKind::parameter)) continue;
      if (home.emplace(t, stage).first->second == stage) continue;
      auto [at, fresh] = replicas.emplace(std::pair{t, stage}, -1);
      if (fresh)
        at->second =
            add_replica(graph, t, op.layer, ir::derived_name(tensor.name, ir::Derived::replica, v), ops);
      t = at->second;
    }
    ops.push_back(std::move(op));
  }
  graph.ops = std::move(ops);
  renumber_producers(graph);
}

namespace {

const ir::Op& producer(const ir::Graph& graph, ir::TensorId t) {
  return at(graph.ops, graph.tensor(t).producer);
}

// By name of an updated parameter: the gradient of its update.
std::map<std::string, ir::TensorId> gradients_by_parameter(const ir::Graph& graph) {
  std::map<std::string, ir::TensorId> gradients;
  for (const ir::Update& update : graph.updates)
    if (const ir::TensorId gradient = gradient_of(graph, update); gradient >= 0)
      gradients[graph.tensor(update.state).name] = gradient;
  return gradients;
}

// The two accumulate ops that an add of sums reads; -1 if `add` is not such an add.
std::pair<ir::OpId, ir::OpId> added_sums(const ir::Graph& graph, const ir::Op& add) {
  const std::pair<ir::OpId, ir::OpId> none{-1, -1};
  if (!add.is(ir::OpKind::add) || add.phase != ir::Phase::update) return none;
  for (ir::TensorId t : add.inputs)
    if (!producer(graph, t).is(ir::OpKind::accumulate)) return none;
  const ir::OpId a = graph.tensor(add.inputs[0]).producer, b = graph.tensor(add.inputs[1]).producer;
  return {std::min(a, b), std::max(a, b)};
}

// Removes the first sum and the add, and replaces the second sum by an add and an accumulate.
void merge(ir::Graph& graph, ir::OpId first, ir::OpId second, ir::OpId add) {
  std::vector<ir::Op> ops;
  for (ir::OpId o = 0; o < static_cast<ir::OpId>(graph.ops.size()); ++o) {
    ir::Op& op = at(graph.ops, o);
    if (o == first || o == add) continue;
    if (o == second) {
      const ir::Op& other = at(graph.ops, first);
      ir::Tensor both = graph.tensor(op.inputs[0]);
      both.name += ".both";
      const auto id = static_cast<ir::TensorId>(graph.tensors.size());
      graph.tensors.push_back(both);
      ir::Op sum = at(graph.ops, add);
      sum.inputs = {other.inputs[0], op.inputs[0]};
      sum.outputs = {id};
      sum.phase = op.phase;
      sum.layer = op.layer;
      op.inputs = {id};
      op.outputs = at(graph.ops, add).outputs;
      ops.push_back(std::move(sum));
    }
    ops.push_back(op);
  }
  graph.ops = std::move(ops);
  renumber_producers(graph);
}

}  // namespace

void merge_uses(ir::Graph& graph, const std::vector<int>& stage_layers) {
  const auto part = [&](ir::OpId o) { return virtual_stage(stage_layers, at(graph.ops, o).layer); };
  for (ir::OpId o = 0; o < static_cast<ir::OpId>(graph.ops.size()); ++o) {
    const auto [first, second] = added_sums(graph, at(graph.ops, o));
    if (first < 0 || part(first) != part(second)) continue;
    merge(graph, first, second, o);
    o = -1;
  }
}

std::vector<TiedGradient> tied_gradients(const ir::Graph& graph, const std::vector<OpSite>& sites) {
  const std::map<std::string, ir::TensorId> gradients = gradients_by_parameter(graph);
  std::vector<TiedGradient> tied;
  std::map<std::string, size_t> known;  // by parameter: its place in `tied`
  const auto add = [&](TiedGradient& to, ir::TensorId gradient) {
    to.gradients.push_back(gradient);
    to.stages.push_back(at(sites, graph.tensor(gradient).producer).stage);
  };
  for (const ir::Op& op : graph.ops) {
    const auto of = gradients.find(op.name), original = gradients.find(op.replica_of);
    if (op.replica_of.empty() || of == gradients.end() || original == gradients.end()) continue;
    const auto [at, fresh] = known.emplace(op.replica_of, tied.size());
    if (fresh) add(tied.emplace_back(), original->second);
    add(tied[at->second], of->second);
  }
  return tied;
}

void drop_replica_norms(ir::Graph& graph) {
  const std::map<std::string, ir::TensorId> gradients = gradients_by_parameter(graph);
  std::set<ir::TensorId> dropped;  // gradients of replicas
  for (const ir::Op& op : graph.ops)
    if (const auto of = gradients.find(op.name); !op.replica_of.empty() && of != gradients.end())
      dropped.insert(of->second);
  for (const ir::Op& op : graph.ops) {
    if (!op.is(ir::OpKind::square_sum) || !dropped.contains(op.inputs[0])) continue;
    const ir::TensorId norm = op.outputs[0];
    for (ir::Op& reader : graph.ops)
      if (reader.is(ir::OpKind::sum) && reader.inputs.size() > 1) std::erase(reader.inputs, norm);
  }
}

}  // namespace boxcar::planner
