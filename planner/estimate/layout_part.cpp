// The problem of some ops of a layout graph: its nodes, edges and costs; and the layouts of its choices.
#include <algorithm>

#include "planner/estimate/layout_graph.h"
#include "planner/pins.h"
#include "planner/reduced_gradients.h"
#include "sbp/at.h"

namespace boxcar::search {
namespace {

using ir::OpId;
using ir::TensorId;
using sbp::NdSbp;

// A state is read unchanged, or a slice of it is read.
bool can_read(const NdSbp& state, const NdSbp& wanted) {
  for (size_t d = 0; d < state.size(); ++d)
    if (state[d] != wanted[d] && !(state[d].is_broadcast() && wanted[d].is_split())) return false;
  return true;
}

// The layout in which the update of a table takes the gradients of its rows.
NdSbp read_with(const NdSbp& table, const ir::TensorType& rows) {
  NdSbp layout = table;
  for (sbp::Sbp& s : layout) {
    const bool by_width = s.is_split() && s.axis == 1;
    if (by_width)
      s.axis = static_cast<int8_t>(rows.shape.size() - 1);
    else
      s = sbp::Sbp::B();
  }
  return layout;
}

constexpr Cost forbidden() {
  Cost cost{};
  cost[0] = infinity;
  return cost;
}

}  // namespace

LayoutPart LayoutGraph::items(const std::vector<OpId>& ops) const {
  LayoutPart part;
  const auto add = [&](const Item& item) {
    if (part.node.try_emplace(item, static_cast<int>(part.items.size())).second) part.items.push_back(item);
  };
  const auto add_state = [&](int state) { add({Kind::state, at(all_states_, state).master, -1, 0}); };
  for (OpId o : ops) {
    add({Kind::op, o, -1, 0});
    for (TensorId t : op(o).inputs) {
      if (at(state_of_, t) >= 0) add_state(at(state_of_, t));
      if (is_kept(t)) add({Kind::kept, t, -1, 0});
      if (has_copy(t, o)) add({Kind::copy, t, static_cast<int>(op(o).phase), layer_of(o)});
    }
    for (TensorId t : op(o).outputs) {
      if (is_kept(t)) add({Kind::kept, t, -1, 0});
      if (at(gradient_of_, t) >= 0) add_state(at(gradient_of_, t));
      for (const int state : tables_of(t)) add_state(state);
    }
  }
  return part;
}

namespace {

// The choices of a copy: the kept layout, and the one boxed from it; twice the same if nothing is boxed.
std::vector<std::pair<size_t, NdSbp>> copies(const std::vector<NdSbp>& kept,
                                             const std::vector<NdSbp>& shared) {
  std::vector<std::pair<size_t, NdSbp>> all;
  for (size_t s = 0; s < kept.size(); ++s) {
    all.emplace_back(s, kept[s]);
    for (const NdSbp& layout : shared)
      if (layout != kept[s]) all.emplace_back(s, layout);
  }
  return all;
}

}  // namespace

std::vector<Cost> LayoutGraph::node_costs(const Item& item) const {
  std::vector<Cost> costs;
  const auto stays = [&](TensorId t) {  // until the backward pass
    const OpId producer = tensor(t).producer;
    const auto& readers = at(readers_, t);
    return is_pass(producer) && op(producer).phase == ir::Phase::forward &&
           !op(producer).is(ir::OpKind::alias) && std::any_of(readers.begin(), readers.end(), [&](OpId o) {
             return op(o).phase == ir::Phase::backward;
           });
  };
  if (item.kind == Kind::op) {
    for (const OpChoice* choice : at(choices_, item.id)) {
      Cost cost{};
      cost[kernels] = micro_batches_ * choice->seconds;
      const ir::Op& made = op(item.id);
      for (size_t o = 0; o < made.outputs.size(); ++o) {
        const auto bytes = static_cast<double>(choice->outputs[o].bytes());
        if (at(gradient_of_, made.outputs[o]) >= 0) cost[memory] += bytes;
        if (!is_kept(made.outputs[o]) && stays(made.outputs[o])) cost[memory] += hints_.pp * bytes;
      }
      costs.push_back(cost);
    }
  } else if (item.kind == Kind::state) {
    const State& state = at(all_states_, at(state_of_, item.id));
    for (size_t c = 0; c < state.stored.size(); ++c) costs.push_back(state_cost(state, c));
  } else if (item.kind == Kind::kept) {
    for (const NdSbp& layout : at(layouts_, item.id)) {
      Cost cost{};
      if (stays(item.id))
        cost[memory] = static_cast<double>(hints_.pp * costs_.bytes(tensor(item.id).type, layout));
      costs.push_back(cost);
    }
  } else {
    costs.resize(copies(at(layouts_, item.id), shared(item.id, item.phase, item.layer)).size());
  }
  return costs;
}

// Costs of updates, of gathers after them or before each use, and bytes that stay.
Cost LayoutGraph::state_cost(const State& state, size_t choice) const {
  const NdSbp& used = at(layouts_, state.master)[choice];
  const NdSbp& stored = state.stored[choice];
  const sbp::Shape& shape = tensor(state.master).type.shape;
  Cost cost{};
  const auto local = [&](const std::vector<TensorId>& tensors) {
    ir::Types types;
    for (TensorId t : tensors) {
      const ir::TensorType& type = tensor(t).type;
      types.push_back(t == state.rows       ? costs_.local(type, read_with(stored, type))
                      : type.shape == shape ? costs_.local(type, stored)
                                            : type);
    }
    return types;
  };
  for (OpId o : state.updates)
    cost[kernels] += costs_.kernel(op(o).type, local(op(o).inputs), local(op(o).outputs), op(o).attrs);
  for (TensorId t : state.kept) {
    const bool read = !at(readers_, t).empty();
    const double gathers = !read || used == stored            ? 0
                           : sharding_.gathers_in_each_pass() ? 2 * micro_batches_
                                                              : 1;
    if (gathers > 0)
      cost[states] += gathers * costs_.boxing_in_bucket(tensor(t).type, stored, used, bucket()).communication;
    cost[memory] += static_cast<double>(costs_.bytes(tensor(t).type, stored));
    if (gathers == 1) cost[memory] += static_cast<double>(costs_.bytes(tensor(t).type, used));
  }
  return cost;
}

LayoutPart LayoutGraph::part(const std::vector<OpId>& ops) const {
  LayoutPart part = items(ops);
  part.problem.space = {layout_coordinates, 0};
  for (const Item& item : part.items) {
    part.problem.nodes.push_back(node_costs(item));
    if (item.kind != Kind::kept) continue;
    const OpId producer = tensor(item.id).producer;  // a tensor made elsewhere is counted there
    if (is_pass(producer) && !part.node.contains({Kind::op, producer, -1, 0}))
      for (Cost& cost : part.problem.nodes.back()) cost = {};
  }
  for (const Item& item : part.items) {
    if (item.kind != Kind::copy) continue;
    const auto& kept = at(layouts_, item.id);
    Assignment::Edge edge{part.node.at({Kind::kept, item.id, -1, 0}), part.node.at(item), {}};
    const auto all = copies(kept, shared(item.id, item.phase, item.layer));
    for (size_t s = 0; s < kept.size(); ++s)
      for (const auto& [from, layout] : all) {
        Cost cost = forbidden();
        if (from == s) {
          const Boxing boxing = costs_.boxing(tensor(item.id).type, kept[s], layout);
          cost[kernels] = micro_batches_ * boxing.compute;
          cost[collectives] = micro_batches_ * boxing.communication;
        }
        edge.costs.push_back(cost);
      }
    part.problem.edges.push_back(std::move(edge));
  }
  for (OpId o : ops) {
    add_op_edges(part, o);
    add_gradient_edges(part, o);
    add_row_edges(part, o);
  }
  for (const auto& [state, replica] : replicas_) {  // equal layouts, because their gradients are summed
    const auto a = part.node.find({Kind::state, state, -1, 0}),
               b = part.node.find({Kind::state, replica, -1, 0});
    if (a == part.node.end() || b == part.node.end()) continue;
    Assignment::Edge edge{a->second, b->second, {}};
    for (const NdSbp& one : at(layouts_, state))
      for (const NdSbp& other : at(layouts_, replica))
        edge.costs.push_back(one == other ? Cost{} : forbidden());
    part.problem.edges.push_back(std::move(edge));
  }
  return part;
}

// Edges from an op's outputs to the kept tensors, and from kept tensors to the op's inputs.
void LayoutGraph::add_op_edges(LayoutPart& part, OpId o) const {
  const int node = part.node.at({Kind::op, o, -1, 0});
  const auto& mine = at(choices_, o);
  const auto boxed = [&](TensorId t, const NdSbp& from, const NdSbp& to) {
    const Boxing boxing = costs_.boxing(tensor(t).type, from, to);
    Cost cost{};
    cost[kernels] = micro_batches_ * boxing.compute;
    cost[collectives] = micro_batches_ * boxing.communication;
    return cost;
  };
  for (size_t i = 0; i < op(o).inputs.size(); ++i) {
    const TensorId t = op(o).inputs[i];
    // They read their operand unchanged.
    const bool held = op(o).is(ir::OpKind::accumulate) || planner::is_cast_for_reduction(graph_, op(o));
    Assignment::Edge edge{-1, node, {}};
    const auto add = [&](const NdSbp& from, const NdSbp* copy, bool may) {
      for (const OpChoice* choice : mine) {
        const NdSbp& want = choice->layout.inputs[i];
        const bool there = want == from || (copy && want == *copy);
        edge.costs.push_back(there ? Cost{} : may ? boxed(t, from, want) : forbidden());
      }
    };
    if (const int state = at(state_of_, t); state >= 0) {
      const TensorId master = at(all_states_, state).master;
      edge.a = part.node.at({Kind::state, master, -1, 0});
      for (const NdSbp& from : at(layouts_, master))
        for (const OpChoice* choice : mine)
          edge.costs.push_back(can_read(from, choice->layout.inputs[i])
                                   ? boxed(t, from, choice->layout.inputs[i])
                                   : forbidden());
    } else if (has_copy(t, o)) {
      const Item copy{Kind::copy, t, static_cast<int>(op(o).phase), layer_of(o)};
      edge.a = part.node.at(copy);
      for (const auto& [s, layout] : copies(at(layouts_, t), shared(t, copy.phase, copy.layer)))
        add(at(layouts_, t)[s], &layout, !held);
    } else if (is_kept(t)) {
      edge.a = part.node.at({Kind::kept, t, -1, 0});
      for (const NdSbp& from : at(layouts_, t)) add(from, nullptr, !held);
    } else {
      edge.a = part.node.at({Kind::op, tensor(t).producer, -1, 0});
      for (const OpChoice* from : at(choices_, tensor(t).producer))
        add(at(from->layout.outputs, tensor(t).output), nullptr, !held);
    }
    part.problem.edges.push_back(std::move(edge));
  }
  for (size_t i = 0; i < op(o).outputs.size(); ++i) {
    const TensorId t = op(o).outputs[i];
    if (!is_kept(t)) continue;
    const bool reduced = sharding_.reduces_each_micro_batch() && at(readers_, t).size() == 1 &&
                         op(at(readers_, t)[0]).is(ir::OpKind::accumulate);
    Assignment::Edge edge{node, part.node.at({Kind::kept, t, -1, 0}), {}};
    for (const OpChoice* choice : mine)
      for (const NdSbp& to : at(layouts_, t)) {
        const NdSbp& from = choice->layout.outputs[i];
        Cost cost = boxed(t, from, to);
        if (reduced) {
          cost[collectives] = 0;
          cost[states] =
              micro_batches_ * costs_.boxing_in_bucket(tensor(t).type, from, to, bucket()).communication;
        }
        edge.costs.push_back(cost);
      }
    part.problem.edges.push_back(std::move(edge));
  }
}

// Edges from a summed gradient to its state, and from the gradient before the sum if it is reduced in each
// micro-batch.
void LayoutGraph::add_gradient_edges(LayoutPart& part, OpId o) const {
  for (size_t i = 0; i < op(o).outputs.size(); ++i) {
    const TensorId t = op(o).outputs[i];
    if (at(gradient_of_, t) < 0) continue;
    const State& state = at(all_states_, at(gradient_of_, t));
    const int state_node = part.node.at({Kind::state, state.master, -1, 0});
    Assignment::Edge edge{part.node.at({Kind::op, o, -1, 0}), state_node, {}};
    for (const OpChoice* choice : at(choices_, o))
      for (const NdSbp& stored : state.stored) {
        const Boxing boxing =
            costs_.boxing_in_bucket(reduced_type(t), choice->layout.outputs[i], stored, bucket());
        Cost cost{};
        cost[kernels] = boxing.compute;
        cost[states] = boxing.communication;
        edge.costs.push_back(cost);
      }
    part.problem.edges.push_back(std::move(edge));
    if (!sharding_.reduces_each_micro_batch() || !op(o).is(ir::OpKind::accumulate) ||
        !is_kept(op(o).inputs[0]))
      continue;
    Assignment::Edge early{part.node.at({Kind::kept, op(o).inputs[0], -1, 0}), state_node, {}};
    for (const NdSbp& kept : at(layouts_, op(o).inputs[0]))
      for (const NdSbp& stored : state.stored) {
        bool sharded = true;
        for (size_t d = 0; d < kept.size(); ++d)
          sharded = sharded && (!stored[d].is_split() || kept[d] == stored[d]);
        early.costs.push_back(sharded ? Cost{} : forbidden());
      }
    part.problem.edges.push_back(std::move(early));
  }
}

// Edges from gradients of rows to the states of their tables.
void LayoutGraph::add_row_edges(LayoutPart& part, OpId o) const {
  for (size_t i = 0; i < op(o).outputs.size(); ++i) {
    const TensorId t = op(o).outputs[i];
    for (const int table : tables_of(t)) {
      const State& state = at(all_states_, table);
      const Item made{Kind::op, o, -1, 0}, kept{Kind::kept, t, -1, 0};
      Assignment::Edge edge{
          part.node.at(is_kept(t) ? kept : made), part.node.at({Kind::state, state.master, -1, 0}), {}};
      const auto add = [&](const NdSbp& from) {
        for (const NdSbp& stored : state.stored) {
          const Boxing boxing = costs_.boxing(tensor(t).type, from, read_with(stored, tensor(t).type));
          Cost cost{};
          cost[kernels] = boxing.compute;
          cost[collectives] = boxing.communication;
          edge.costs.push_back(cost);
        }
      };
      if (is_kept(t))
        for (const NdSbp& from : at(layouts_, t)) add(from);
      else
        for (const OpChoice* choice : at(choices_, o)) add(choice->layout.outputs[i]);
      part.problem.edges.push_back(std::move(edge));
    }
  }
}

planner::Layouts LayoutGraph::none() const {
  planner::Layouts layouts;
  layouts.ops.resize(graph_.ops.size());
  layouts.tensors.resize(graph_.tensors.size());
  return layouts;
}

void LayoutGraph::take(const LayoutPart& part, const std::vector<int>& choice,
                       planner::Layouts& layouts) const {
  for (size_t n = 0; n < choice.size() && n < part.items.size(); ++n) {
    const Item& item = part.items[n];
    if (item.kind == Kind::op) {
      const planner::OpLayout& layout = at(at(choices_, item.id), choice[n])->layout;
      at(layouts.ops, item.id) = layout;
      for (size_t o = 0; o < layout.outputs.size(); ++o)
        if (const TensorId t = op(item.id).outputs[o]; !is_kept(t) && at(gradient_of_, t) < 0)
          at(layouts.tensors, t) = layout.outputs[o];
    } else if (item.kind != Kind::copy) {
      at(layouts.tensors, item.id) = at(at(layouts_, item.id), choice[n]);
    }
  }
}

}  // namespace boxcar::search
