#include "planner/gradients_first.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "ir/op.h"
#include "planner/reduced_gradients.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

bool same_block(const ir::Op& a, const ir::Op& b) { return a.phase == b.phase && a.layer == b.layer; }

bool is_product(const ir::Op& op) {
  const ir::Family family = ir::op(op.type).family;
  return family == ir::Family::matmul || family == ir::Family::convolution;
}

// Whether an op sums gradients of one parameter.
bool sums_gradients(const ir::Graph& graph, const std::vector<std::vector<ir::OpId>>& readers,
                    const ir::Op& op) {
  if (op.is(ir::OpKind::accumulate)) return true;
  const auto& by = at(readers, op.outputs[0]);
  return (op.is(ir::OpKind::add) || is_cast_for_reduction(graph, op)) &&
         std::all_of(by.begin(), by.end(),
                     [&](ir::OpId o) { return sums_gradients(graph, readers, at(graph.ops, o)); });
}

}  // namespace

std::vector<char> for_gradients_alone(const ir::Graph& graph) {
  const auto readers = ir::consumers(graph);
  std::vector<char> alone(graph.ops.size());
  for (size_t o = graph.ops.size(); o-- > 0;) {
    const ir::Op& op = graph.ops[o];
    const auto stays = [&](ir::OpId reader) {
      const ir::Op& by = at(graph.ops, reader);
      return by.phase == ir::Phase::update ||
             (at(alone, reader) && (same_block(by, op) || sums_gradients(graph, readers, by)));
    };
    alone[o] = op.phase == ir::Phase::backward && !op.recomputed && !ir::is_special(op.type) &&
               std::all_of(op.outputs.begin(), op.outputs.end(), [&](ir::TensorId t) {
                 return std::all_of(at(readers, t).begin(), at(readers, t).end(), stays);
               });
  }
  return alone;
}

std::vector<char> for_gradient_of_head(const ir::Graph& graph) {
  const std::vector<char> alone = for_gradients_alone(graph);
  std::vector<char> of_head(graph.ops.size());
  bool found = false;
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const ir::Op& op = graph.ops[o];
    if (!alone[o]) continue;
    const bool first = !found && is_product(op);
    of_head[o] = first || std::any_of(op.inputs.begin(), op.inputs.end(), [&](ir::TensorId t) {
                   return at(of_head, graph.tensor(t).producer) != 0;
                 });
    found = found || first;
  }
  return of_head;
}

namespace {

// By op: the op after which it is moved; its own number if it stays.
std::vector<int> places(const ir::Graph& graph) {
  const std::vector<char> alone = for_gradients_alone(graph);
  std::vector<int> place(graph.ops.size());
  int block = 0;
  for (int o = 0; o < static_cast<int>(graph.ops.size()); ++o) {
    const ir::Op& op = at(graph.ops, o);
    if (o > 0 && !same_block(at(graph.ops, o - 1), op)) block = o;
    at(place, o) = o;
    if (!at(alone, o)) continue;
    int behind = block - 1;
    for (ir::TensorId t : op.inputs) behind = std::max(behind, at(place, graph.tensor(t).producer));
    at(place, o) = behind;
  }
  return place;
}

}  // namespace

std::vector<int> gradients_first(ir::Graph& graph) {
  const std::vector<int> place = places(graph);
  std::vector<int> order(graph.ops.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int o) { return std::tuple(at(place, o), at(place, o) != o, o); };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  std::vector<ir::Op> ops;
  for (int o : order) ops.push_back(std::move(at(graph.ops, o)));
  graph.ops = std::move(ops);
  for (size_t o = 0; o < graph.ops.size(); ++o)
    for (ir::TensorId t : graph.ops[o].outputs) graph.tensor(t).producer = static_cast<ir::OpId>(o);
  return order;
}

}  // namespace boxcar::planner
