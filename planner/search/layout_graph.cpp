#include "planner/search/layout_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/op.h"
#include "planner/key_writer.h"
#include "planner/pins.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using ir::OpId;
using ir::TensorId;
using sbp::NdSbp;

size_t at(int index) { return static_cast<size_t>(index); }

bool is_partial(const NdSbp& layout) {
  return std::any_of(layout.begin(), layout.end(), [](sbp::Sbp s) { return s.is_partial(); });
}

void add_once(std::vector<NdSbp>& all, const NdSbp& layout) {
  if (std::find(all.begin(), all.end(), layout) == all.end()) all.push_back(layout);
}

bool is_alias(const ir::Op& op) { return op.type == "reshape" || op.type == "identity"; }

// A state is read as it lies, or a slice of it.
bool can_read(const NdSbp& state, const NdSbp& wanted) {
  for (size_t d = 0; d < state.size(); ++d)
    if (state[d] != wanted[d] && !(state[d].is_broadcast() && wanted[d].is_split())) return false;
  return true;
}

constexpr Cost forbidden() {
  Cost cost{};
  cost[0] = infinity;
  return cost;
}

}  // namespace

LayoutGraph::LayoutGraph(const ir::Graph& graph, const planner::Hints& hints, const planner::Mesh& mesh,
                         int micro_batches, LayoutSpace space, LayoutCosts& costs)
    : graph_(graph),
      hints_(hints),
      mesh_(mesh),
      micro_batches_(micro_batches),
      space_(std::move(space)),
      costs_(costs) {
  find_layers();
  find_states();
  find_choices();
  find_crossings();
  find_layouts();
}

bool LayoutGraph::is_pass(OpId o) const { return ir::has_op(op(o).type) && op(o).phase != ir::Phase::update; }

void LayoutGraph::find_layers() {
  readers_.resize(graph_.tensors.size());
  layers_.resize(at(graph_.layers + 2));
  for (OpId o = 0; o < static_cast<OpId>(graph_.ops.size()); ++o) {
    if (!is_pass(o)) continue;
    layers_[at(layer_of(o))].push_back(o);
    for (TensorId t : op(o).inputs) readers_[at(t)].push_back(o);
  }
}

std::vector<OpId> LayoutGraph::all_ops() const {
  std::vector<OpId> all;
  for (const auto& ops : layers_) all.insert(all.end(), ops.begin(), ops.end());
  std::sort(all.begin(), all.end());
  return all;
}

void LayoutGraph::find_states() {
  state_of_.assign(graph_.tensors.size(), -1);
  gradient_of_.assign(graph_.tensors.size(), -1);
  for (const ir::Update& update : graph_.updates) {
    const ir::Op& by = op(tensor(update.next).producer);
    const TensorId master = by.inputs[0];
    if (state_of_[at(master)] < 0) {
      state_of_[at(master)] = static_cast<int>(all_states_.size());
      all_states_.push_back({master, {}, {}, {}, {}, {}, op(tensor(master).producer).layer});
      const TensorId gradient = by.inputs[1];
      const ir::Op& summed = op(tensor(gradient).producer);
      for (TensorId t : summed.phase == ir::Phase::update ? summed.inputs : std::vector{gradient}) {
        gradient_of_[at(t)] = state_of_[at(master)];
        all_states_.back().gradients.push_back(t);
      }
    }
    state_of_[at(update.state)] = state_of_[at(master)];
    all_states_[at(state_of_[at(master)])].kept.push_back(update.state);
  }
  for (OpId o = 0; o < static_cast<OpId>(graph_.ops.size()); ++o) {
    if (op(o).type == "parameter" && state_of_[at(op(o).outputs[0])] < 0) {
      state_of_[at(op(o).outputs[0])] = static_cast<int>(all_states_.size());
      all_states_.push_back({op(o).outputs[0], {}, {op(o).outputs[0]}, {}, {}, {}, op(o).layer});
    }
    if (!ir::has_op(op(o).type) || op(o).phase != ir::Phase::update) continue;
    int state = -1;
    bool alone = true;  // depends on state alone
    for (TensorId t : op(o).inputs) {
      state = std::max({state, state_of_[at(t)], gradient_of_[at(t)]});
      alone = alone && state_of_[at(t)] >= 0;
    }
    if (state < 0) continue;
    all_states_[at(state)].updates.push_back(o);
    if (!alone) continue;
    for (TensorId t : op(o).outputs) {
      state_of_[at(t)] = state;
      all_states_[at(state)].kept.push_back(t);
    }
  }
}

void LayoutGraph::find_choices() {
  choices_.resize(graph_.ops.size());
  space_.hinted.resize(mesh_.dims());
  planner::Deduction hinted;
  if (std::count(space_.hinted.begin(), space_.hinted.end(), true) > 0)
    hinted = planner::deduce(graph_, planner::pins_of(graph_, hints_, mesh_), mesh_);
  for (const auto& ops : layers_)
    for (OpId o : ops)
      for (const OpChoice& choice : costs_.choices(graph_, op(o))) {
        const planner::OpLayout& layout = choice.layout;
        const auto given = space_.ops.find(o);
        bool may = given == space_.ops.end() || layout.signatures == given->second;
        for (size_t d = 0; d < mesh_.dims(); ++d) {
          const sbp::Signature& signature = layout.signatures[d];
          if (space_.hinted[d])
            may = may && signature == hinted.ops[at(o)].signatures[d];
          else
            may = may && (space_.partial || !is_partial(signature.inputs));
        }
        if (may) choices_[at(o)].push_back(&choice);
      }
}

// The layouts in which ops of the passes read a tensor, none that only a partial tensor could have.
std::vector<NdSbp> LayoutGraph::wanted(TensorId t) const {
  std::vector<NdSbp> all;
  const auto& readers = readers_[at(t)];
  for (size_t r = 0; r < readers.size(); ++r) {
    if (r > 0 && readers[r] == readers[r - 1]) continue;
    for (const OpChoice* choice : choices_[at(readers[r])])
      for (size_t i = 0; i < op(readers[r]).inputs.size(); ++i)
        if (op(readers[r]).inputs[i] == t && !is_partial(choice->layout.inputs[i]))
          add_once(all, choice->layout.inputs[i]);
  }
  return all;
}

void LayoutGraph::find_crossings() {
  between_.resize(layers_.size());
  far_.assign(layers_.size(), false);
  for (TensorId t = 0; t < static_cast<TensorId>(graph_.tensors.size()); ++t) {
    std::set<int> touched;
    const OpId producer = tensor(t).producer;
    const bool made = is_pass(producer);
    if (made) touched.insert(layer_of(producer));
    for (OpId o : readers_[at(t)]) touched.insert(layer_of(o));
    if (touched.size() < 2) continue;
    if (made && touched.size() == 2 && *touched.rbegin() == *touched.begin() + 1)
      between_[at(*touched.begin())].push_back(t);
    else
      for (int layer : touched) far_[at(layer)] = true;
  }
  for (const State& state : all_states_) {
    const std::string& name = tensor(state.master).name;
    const size_t end = name.find(".replica");
    for (const State& original : all_states_)
      if (end != std::string::npos && tensor(original.master).name == name.substr(0, end))
        replicas_.emplace_back(original.master, state.master);
  }
  for (const auto& [state, replica] : replicas_)
    for (TensorId t : {state, replica})
      for (TensorId kept : all_states_[at(state_of_[at(t)])].kept)
        for (OpId o : readers_[at(kept)]) far_[at(layer_of(o))] = true;
  for (const State& state : all_states_) {  // a gradient is to end where its state is read
    std::set<int> touched;
    for (TensorId t : state.kept)
      for (OpId o : readers_[at(t)]) touched.insert(layer_of(o));
    for (TensorId t : state.gradients) touched.insert(layer_of(tensor(t).producer));
    if (touched.size() > 1)
      for (int layer : touched) far_[at(layer)] = true;
  }
}

// Where partial values are off, what is kept is none on the dimensions that are open.
bool LayoutGraph::may_keep(const NdSbp& layout) const {
  for (size_t d = 0; d < layout.size(); ++d)
    if (!space_.partial && !space_.hinted[d] && layout[d].is_partial()) return false;
  return true;
}

void LayoutGraph::find_layouts() {
  layouts_.resize(graph_.tensors.size());
  const NdSbp whole = planner::broadcast(mesh_);
  for (State& state : all_states_) {
    std::vector<NdSbp>& all = layouts_[at(state.master)];
    add_once(all, whole);
    for (TensorId t : state.kept)
      for (const NdSbp& layout : wanted(t)) add_once(all, layout);
    if (const auto pin = space_.pins.find(state.master); pin != space_.pins.end()) all = {pin->second};
    for (const NdSbp& layout : all)
      state.stored.push_back(hints_.zero > 0 && !state.gradients.empty()
                                 ? planner::sharded(tensor(state.master).type.shape, layout, mesh_)
                                 : layout);
  }
  std::vector<bool> crosses(graph_.tensors.size());
  for (const auto& tensors : between_)
    for (TensorId t : tensors) crosses[at(t)] = true;
  for (TensorId t = 0; t < static_cast<TensorId>(graph_.tensors.size()); ++t) {
    const OpId producer = tensor(t).producer;
    const bool made = is_pass(producer), source = !ir::has_op(op(producer).type);
    const auto pin = space_.pins.find(t);
    if (state_of_[at(t)] >= 0 || (!made && !source)) continue;
    std::vector<NdSbp>& all = layouts_[at(t)];
    const bool reduced = hints_.zero >= 2 && readers_[at(t)].size() == 1 && made &&
                         op(readers_[at(t)][0]).type == "accumulate";
    if (pin != space_.pins.end()) {
      all = {pin->second};
    } else if (reduced) {
      const State& state = all_states_[at(gradient_of_[at(op(readers_[at(t)][0]).outputs[0])])];
      for (const OpChoice* choice : choices_[at(producer)])
        for (NdSbp layout : state.stored) {
          const NdSbp& produced = choice->layout.outputs[at(tensor(t).output)];
          for (size_t d = 0; d < layout.size(); ++d)
            if (!layout[d].is_split()) layout[d] = produced[d];
          if (costs_.boxing(tensor(t).type, produced, layout).possible()) add_once(all, layout);
        }
    } else if (source || readers_[at(t)].size() > 1 || crosses[at(t)]) {
      if (readers_[at(t)].empty()) continue;
      if (source) add_once(all, whole);
      if (made)
        for (const OpChoice* choice : choices_[at(producer)])
          if (const NdSbp& layout = choice->layout.outputs[at(tensor(t).output)]; may_keep(layout))
            add_once(all, layout);
      for (const NdSbp& layout : wanted(t)) add_once(all, layout);
    }
  }
}

bool LayoutGraph::is_kept(TensorId t) const { return state_of_[at(t)] < 0 && !layouts_[at(t)].empty(); }

// What two operands of a layer and phase could share.
std::vector<NdSbp> LayoutGraph::shared(TensorId t, int phase, int layer) const {
  std::vector<NdSbp> once, twice;
  const auto& readers = readers_[at(t)];
  for (size_t r = 0; r < readers.size(); ++r) {
    const ir::Op& reader = op(readers[r]);
    if (static_cast<int>(reader.phase) != phase || layer_of(readers[r]) != layer) continue;
    if (r > 0 && readers[r] == readers[r - 1]) continue;
    for (size_t i = 0; i < reader.inputs.size(); ++i) {
      if (reader.inputs[i] != t) continue;
      std::vector<NdSbp> mine;
      for (const OpChoice* choice : choices_[at(readers[r])])
        if (!is_partial(choice->layout.inputs[i])) add_once(mine, choice->layout.inputs[i]);
      for (const NdSbp& layout : mine)
        add_once(std::find(once.begin(), once.end(), layout) == once.end() ? once : twice, layout);
    }
  }
  return twice;
}

bool LayoutGraph::has_copy(TensorId t, OpId reader) const {
  if (!is_kept(t)) return false;
  int operands = 0;
  for (OpId o : readers_[at(t)])
    if (op(o).phase == op(reader).phase && layer_of(o) == layer_of(reader)) ++operands;
  return operands > 1;
}

// Gradients and parameters travel in buckets.
double LayoutGraph::bucket() const {
  double bytes = 0;
  for (const State& state : all_states_)
    for (TensorId t : state.gradients) bytes += static_cast<double>(tensor(t).type.bytes());
  return std::min(bytes, static_cast<double>(int64_t{hints_.grad_bucket_mb} << 20));
}

LayoutPart LayoutGraph::items(const std::vector<OpId>& ops) const {
  LayoutPart part;
  const auto add = [&](const Item& item) {
    if (part.node.try_emplace(item, static_cast<int>(part.items.size())).second) part.items.push_back(item);
  };
  const auto add_state = [&](int state) { add({Kind::state, all_states_[at(state)].master, -1, 0}); };
  for (OpId o : ops) {
    add({Kind::op, o, -1, 0});
    for (TensorId t : op(o).inputs) {
      if (state_of_[at(t)] >= 0) add_state(state_of_[at(t)]);
      if (is_kept(t)) add({Kind::kept, t, -1, 0});
      if (has_copy(t, o)) add({Kind::copy, t, static_cast<int>(op(o).phase), layer_of(o)});
    }
    for (TensorId t : op(o).outputs) {
      if (is_kept(t)) add({Kind::kept, t, -1, 0});
      if (gradient_of_[at(t)] >= 0) add_state(gradient_of_[at(t)]);
    }
  }
  return part;
}

namespace {

// The choices of a copy: what is kept, and what is made of it; the same twice where nothing is.
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
    const auto& readers = readers_[at(t)];
    return is_pass(producer) && op(producer).phase == ir::Phase::forward && !is_alias(op(producer)) &&
           std::any_of(readers.begin(), readers.end(),
                       [&](OpId o) { return op(o).phase == ir::Phase::backward; });
  };
  if (item.kind == Kind::op) {
    for (const OpChoice* choice : choices_[at(item.id)]) {
      Cost cost{};
      cost[kernels] = micro_batches_ * choice->seconds;
      const ir::Op& made = op(item.id);
      for (size_t o = 0; o < made.outputs.size(); ++o) {
        const auto bytes = static_cast<double>(choice->outputs[o].bytes());
        if (gradient_of_[at(made.outputs[o])] >= 0) cost[memory] += bytes;
        if (!is_kept(made.outputs[o]) && stays(made.outputs[o])) cost[memory] += hints_.pp * bytes;
      }
      costs.push_back(cost);
    }
  } else if (item.kind == Kind::state) {
    const State& state = all_states_[at(state_of_[at(item.id)])];
    for (size_t c = 0; c < state.stored.size(); ++c) costs.push_back(state_cost(state, c));
  } else if (item.kind == Kind::kept) {
    for (const NdSbp& layout : layouts_[at(item.id)]) {
      Cost cost{};
      if (stays(item.id))
        cost[memory] = static_cast<double>(hints_.pp * costs_.bytes(tensor(item.id).type, layout));
      costs.push_back(cost);
    }
  } else {
    costs.resize(copies(layouts_[at(item.id)], shared(item.id, item.phase, item.layer)).size());
  }
  return costs;
}

// Updates, what is gathered after them or before each use, and what stays.
Cost LayoutGraph::state_cost(const State& state, size_t choice) const {
  const NdSbp& used = layouts_[at(state.master)][choice];
  const NdSbp& stored = state.stored[choice];
  const sbp::Shape& shape = tensor(state.master).type.shape;
  Cost cost{};
  const auto local = [&](const std::vector<TensorId>& tensors) {
    ir::Types types;
    for (TensorId t : tensors)
      types.push_back(tensor(t).type.shape == shape ? costs_.local(tensor(t).type, stored) : tensor(t).type);
    return types;
  };
  for (OpId o : state.updates)
    cost[kernels] += costs_.kernel(op(o).type, local(op(o).inputs), local(op(o).outputs));
  for (TensorId t : state.kept) {
    const bool read = !readers_[at(t)].empty();
    const double gathers = !read || used == stored ? 0 : hints_.zero >= 3 ? 2 * micro_batches_ : 1;
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
    const OpId producer = tensor(item.id).producer;  // what is made elsewhere is counted there
    if (is_pass(producer) && !part.node.contains({Kind::op, producer, -1, 0}))
      for (Cost& cost : part.problem.nodes.back()) cost = {};
  }
  for (const Item& item : part.items) {
    if (item.kind != Kind::copy) continue;
    const auto& kept = layouts_[at(item.id)];
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
  }
  for (const auto& [state, replica] : replicas_) {  // they lie alike: their gradients are added up
    const auto a = part.node.find({Kind::state, state, -1, 0}),
               b = part.node.find({Kind::state, replica, -1, 0});
    if (a == part.node.end() || b == part.node.end()) continue;
    Assignment::Edge edge{a->second, b->second, {}};
    for (const NdSbp& one : layouts_[at(state)])
      for (const NdSbp& other : layouts_[at(replica)])
        edge.costs.push_back(one == other ? Cost{} : forbidden());
    part.problem.edges.push_back(std::move(edge));
  }
  return part;
}

// From what an op makes to what is kept, and from what is there to what it reads.
void LayoutGraph::add_op_edges(LayoutPart& part, OpId o) const {
  const int node = part.node.at({Kind::op, o, -1, 0});
  const auto& mine = choices_[at(o)];
  const auto boxed = [&](TensorId t, const NdSbp& from, const NdSbp& to) {
    const Boxing boxing = costs_.boxing(tensor(t).type, from, to);
    Cost cost{};
    cost[kernels] = micro_batches_ * boxing.compute;
    cost[collectives] = micro_batches_ * boxing.communication;
    return cost;
  };
  for (size_t i = 0; i < op(o).inputs.size(); ++i) {
    const TensorId t = op(o).inputs[i];
    const bool held = op(o).type == "accumulate";  // it adds up what it gets, as it is
    Assignment::Edge edge{-1, node, {}};
    const auto add = [&](const NdSbp& from, const NdSbp* copy, bool may) {
      for (const OpChoice* choice : mine) {
        const NdSbp& want = choice->layout.inputs[i];
        const bool there = want == from || (copy && want == *copy);
        edge.costs.push_back(there ? Cost{} : may ? boxed(t, from, want) : forbidden());
      }
    };
    if (const int state = state_of_[at(t)]; state >= 0) {
      const TensorId master = all_states_[at(state)].master;
      edge.a = part.node.at({Kind::state, master, -1, 0});
      for (const NdSbp& from : layouts_[at(master)])
        for (const OpChoice* choice : mine)
          edge.costs.push_back(can_read(from, choice->layout.inputs[i])
                                   ? boxed(t, from, choice->layout.inputs[i])
                                   : forbidden());
    } else if (has_copy(t, o)) {
      const Item copy{Kind::copy, t, static_cast<int>(op(o).phase), layer_of(o)};
      edge.a = part.node.at(copy);
      for (const auto& [s, layout] : copies(layouts_[at(t)], shared(t, copy.phase, copy.layer)))
        add(layouts_[at(t)][s], &layout, !held);
    } else if (is_kept(t)) {
      edge.a = part.node.at({Kind::kept, t, -1, 0});
      for (const NdSbp& from : layouts_[at(t)]) add(from, nullptr, !held);
    } else {
      edge.a = part.node.at({Kind::op, tensor(t).producer, -1, 0});
      for (const OpChoice* from : choices_[at(tensor(t).producer)])
        add(from->layout.outputs[at(tensor(t).output)], nullptr, !held);
    }
    part.problem.edges.push_back(std::move(edge));
  }
  for (size_t i = 0; i < op(o).outputs.size(); ++i) {
    const TensorId t = op(o).outputs[i];
    if (!is_kept(t)) continue;
    const bool reduced =
        hints_.zero >= 2 && readers_[at(t)].size() == 1 && op(readers_[at(t)][0]).type == "accumulate";
    Assignment::Edge edge{node, part.node.at({Kind::kept, t, -1, 0}), {}};
    for (const OpChoice* choice : mine)
      for (const NdSbp& to : layouts_[at(t)]) {
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

// From a summed gradient to how its state is kept; and before that, where it is reduced each micro-batch.
void LayoutGraph::add_gradient_edges(LayoutPart& part, OpId o) const {
  for (size_t i = 0; i < op(o).outputs.size(); ++i) {
    const TensorId t = op(o).outputs[i];
    if (gradient_of_[at(t)] < 0) continue;
    const State& state = all_states_[at(gradient_of_[at(t)])];
    const int state_node = part.node.at({Kind::state, state.master, -1, 0});
    Assignment::Edge edge{part.node.at({Kind::op, o, -1, 0}), state_node, {}};
    for (const OpChoice* choice : choices_[at(o)])
      for (const NdSbp& stored : state.stored) {
        const Boxing boxing =
            costs_.boxing_in_bucket(tensor(t).type, choice->layout.outputs[i], stored, bucket());
        Cost cost{};
        cost[kernels] = boxing.compute;
        cost[states] = boxing.communication;
        edge.costs.push_back(cost);
      }
    part.problem.edges.push_back(std::move(edge));
    if (hints_.zero < 2 || op(o).type != "accumulate" || !is_kept(op(o).inputs[0])) continue;
    Assignment::Edge early{part.node.at({Kind::kept, op(o).inputs[0], -1, 0}), state_node, {}};
    for (const NdSbp& kept : layouts_[at(op(o).inputs[0])])
      for (const NdSbp& stored : state.stored) {
        bool sharded = true;
        for (size_t d = 0; d < kept.size(); ++d)
          sharded = sharded && (!stored[d].is_split() || kept[d] == stored[d]);
        early.costs.push_back(sharded ? Cost{} : forbidden());
      }
    part.problem.edges.push_back(std::move(early));
  }
}

std::string LayoutGraph::key(size_t layer) const {
  if (far_[layer]) return "";
  planner::KeyWriter key;
  const auto& ops = layers_[layer];
  std::map<OpId, size_t> position;
  for (size_t i = 0; i < ops.size(); ++i) position[ops[i]] = i;
  const auto add_layouts = [&](TensorId t) {
    key.raw(layouts_[at(t)].size());
    for (const NdSbp& layout : layouts_[at(t)]) key.layout(layout);
  };
  const auto add_crossing = [&](TensorId t) {
    for (const size_t side : {layer, layer + 1}) {
      if (side == 0) continue;
      const auto& tensors = between_[side - 1];
      const auto found = std::find(tensors.begin(), tensors.end(), t);
      key.raw(found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin()));
    }
    add_layouts(t);
  };
  std::map<int, size_t> met;  // states, sources
  for (OpId o : ops) {
    key.text(op(o).type);
    key.attrs(op(o).attrs);
    key.raw(op(o).phase);
    for (const OpChoice* choice : choices_[at(o)]) key.raw(choice);
    for (TensorId t : op(o).inputs) {
      key.type(tensor(t).type);
      add_crossing(t);
      const OpId producer = tensor(t).producer;
      const int state = state_of_[at(t)];
      if (const auto from = position.find(producer); from != position.end())
        key.raw(from->second), key.raw(tensor(t).output);
      else
        key.raw(met.try_emplace(state >= 0 ? -1 - state : t, met.size()).first->second);
      if (state < 0) continue;
      add_layouts(all_states_[at(state)].master);
      for (TensorId kept : all_states_[at(state)].kept) key.type(tensor(kept).type);
    }
    for (TensorId t : op(o).outputs) {
      key.type(tensor(t).type);
      add_crossing(t);
      key.raw(readers_[at(t)].size());
      const int state = gradient_of_[at(t)];
      key.raw(state < 0 ? size_t{0} : 1 + met.try_emplace(-1 - state, met.size()).first->second);
    }
  }
  return key.take();
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
      const planner::OpLayout& layout = choices_[at(item.id)][at(choice[n])]->layout;
      layouts.ops[at(item.id)] = layout;
      for (size_t o = 0; o < layout.outputs.size(); ++o)
        if (const TensorId t = op(item.id).outputs[o]; !is_kept(t) && gradient_of_[at(t)] < 0)
          layouts.tensors[at(t)] = layout.outputs[o];
    } else if (item.kind != Kind::copy) {
      layouts.tensors[at(item.id)] = layouts_[at(item.id)][at(choice[n])];
    }
  }
}

}  // namespace boxcar::search
