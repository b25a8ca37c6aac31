#include "planner/estimate/layout_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/op.h"
#include "ir/parameter_kinds.h"
#include "planner/key_writer.h"
#include "planner/pins.h"
#include "planner/reduced_gradients.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using ir::OpId;
using ir::TensorId;
using sbp::NdSbp;

bool is_partial(const NdSbp& layout) {
  return std::any_of(layout.begin(), layout.end(), [](sbp::Sbp s) { return s.is_partial(); });
}

void add_once(std::vector<NdSbp>& all, const NdSbp& layout) {
  if (std::find(all.begin(), all.end(), layout) == all.end()) all.push_back(layout);
}

}  // namespace

LayoutGraph::LayoutGraph(const ir::Graph& graph, const planner::Hints& hints, const planner::Mesh& mesh,
                         int micro_batches, LayoutSpace space, LayoutCosts& costs)
    : graph_(graph),
      hints_(hints),
      sharding_(planner::sharding_of(hints)),
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
  layers_.resize(static_cast<size_t>(graph_.layers + 2));
  for (OpId o = 0; o < static_cast<OpId>(graph_.ops.size()); ++o) {
    if (!is_pass(o)) continue;
    at(layers_, layer_of(o)).push_back(o);
    for (TensorId t : op(o).inputs) at(readers_, t).push_back(o);
  }
}

std::vector<OpId> LayoutGraph::all_ops() const {
  std::vector<OpId> all;
  for (const auto& ops : layers_) all.insert(all.end(), ops.begin(), ops.end());
  std::sort(all.begin(), all.end());
  return all;
}

// The sums over micro-batches that are added, and cast, to this gradient once per step.
std::vector<TensorId> LayoutGraph::summed_in_passes(TensorId gradient) const {
  const ir::Op& made = op(tensor(gradient).producer);
  if (made.phase != ir::Phase::update) return {gradient};
  std::vector<TensorId> all;
  for (TensorId t : made.inputs)
    for (TensorId sum : summed_in_passes(t)) all.push_back(sum);
  return all;
}

ir::TensorType LayoutGraph::reduced_type(TensorId summed) const {
  const auto cast = cast_.find(summed);
  return tensor(cast == cast_.end() ? summed : cast->second).type;
}

void LayoutGraph::find_states() {
  state_of_.assign(graph_.tensors.size(), -1);
  gradient_of_.assign(graph_.tensors.size(), -1);
  TensorId master = -1;  // the updates of moments come behind that of their weight
  for (const ir::Update& update : graph_.updates) {
    const ir::Op& by = op(tensor(update.next).producer);
    if (!ir::is_of_moment(graph_, update)) master = update.state;
    if (at(state_of_, master) < 0) {
      at(state_of_, master) = static_cast<int>(all_states_.size());
      all_states_.push_back({master, {}, {}, {}, {}, -1, {}, op(tensor(master).producer).layer});
      if (const TensorId gradient = planner::gradient_of(graph_, update); gradient >= 0) {
        for (TensorId t : summed_in_passes(gradient)) {
          at(gradient_of_, t) = at(state_of_, master);
          all_states_.back().gradients.push_back(t);
        }
      } else {
        all_states_.back().rows = by.inputs[1];
        rows_of_[by.inputs[1]].push_back(at(state_of_, master));
      }
    }
    at(state_of_, update.state) = at(state_of_, master);
    at(all_states_, at(state_of_, master)).kept.push_back(update.state);
  }
  for (OpId o = 0; o < static_cast<OpId>(graph_.ops.size()); ++o) {
    if (op(o).is(ir::OpKind::parameter) && at(state_of_, op(o).outputs[0]) < 0) {
      at(state_of_, op(o).outputs[0]) = static_cast<int>(all_states_.size());
      all_states_.push_back({op(o).outputs[0], {}, {op(o).outputs[0]}, {}, {}, -1, {}, op(o).layer});
    }
    if (!ir::has_op(op(o).type) || op(o).phase != ir::Phase::update) continue;
    int state = -1;
    bool alone = true;  // depends only on state
    for (TensorId t : op(o).inputs) {
      state = std::max({state, at(state_of_, t), at(gradient_of_, t)});
      alone = alone && at(state_of_, t) >= 0;
    }
    if (state < 0) continue;
    if (planner::before_reduction(graph_, op(o).outputs[0]) != op(o).outputs[0])
      cast_[op(o).inputs[0]] = op(o).outputs[0];
    at(all_states_, state).updates.push_back(o);
    if (!alone) continue;
    for (TensorId t : op(o).outputs) {
      at(state_of_, t) = state;
      at(all_states_, state).kept.push_back(t);
    }
  }
}

void LayoutGraph::find_choices() {
  choices_.resize(graph_.ops.size());
  space_.closed.resize(mesh_.dims());
  std::vector<planner::OpLayout> hinted;
  if (!space_.as && std::count(space_.closed.begin(), space_.closed.end(), true) > 0)
    hinted = planner::deduce(graph_, planner::pins_of(graph_, hints_, mesh_), mesh_).ops;
  const std::vector<planner::OpLayout>& as = space_.as ? space_.as->ops : hinted;
  // By tensor: the partial entries of its producer's choices, by mesh dimension. No tensor is boxed to a
  // partial maximum or minimum, so readers see one only if the producer makes it.
  std::vector<std::set<std::pair<size_t, sbp::Sbp>>> made(graph_.tensors.size());
  const auto is_there = [&](TensorId t, const NdSbp& layout) {
    for (size_t d = 0; d < layout.size(); ++d)
      if (layout[d].is_partial() && layout[d] != sbp::Sbp::P() && !at(made, t).contains({d, layout[d]}))
        return false;
    return true;
  };
  for (OpId o : all_ops()) {
    LayoutCosts::Given closed(mesh_.dims());
    for (size_t d = 0; d < mesh_.dims(); ++d)
      if (space_.closed[d]) closed[d] = &at(as, o).signatures[d];
    for (const OpChoice& choice : costs_.choices(graph_, op(o), closed)) {
      const planner::OpLayout& layout = choice.layout;
      const auto given = space_.ops.find(o);
      bool may = given == space_.ops.end() || layout.signatures == given->second;
      for (size_t d = 0; d < mesh_.dims(); ++d)
        may = may && (space_.closed[d] || space_.partial || !is_partial(layout.signatures[d].inputs));
      for (size_t i = 0; i < layout.inputs.size(); ++i)
        may = may && is_there(op(o).inputs[i], layout.inputs[i]);
      if (!may) continue;
      at(choices_, o).push_back(&choice);
      for (size_t i = 0; i < layout.outputs.size(); ++i)
        for (size_t d = 0; d < mesh_.dims(); ++d)
          if (const sbp::Sbp sbp = layout.outputs[i][d]; sbp.is_partial())
            at(made, op(o).outputs[i]).emplace(d, sbp);
    }
  }
}

// The layouts in which ops of the passes read a tensor, except those that only a partial tensor could have.
std::vector<NdSbp> LayoutGraph::wanted(TensorId t) const {
  std::vector<NdSbp> all;
  const auto& readers = at(readers_, t);
  for (size_t r = 0; r < readers.size(); ++r) {
    if (r > 0 && readers[r] == readers[r - 1]) continue;
    for (const OpChoice* choice : at(choices_, readers[r]))
      for (size_t i = 0; i < op(readers[r]).inputs.size(); ++i)
        if (op(readers[r]).inputs[i] == t && !is_partial(choice->layout.inputs[i]))
          add_once(all, choice->layout.inputs[i]);
  }
  return all;
}

void LayoutGraph::find_crossings() {
  between_.resize(layers_.size());
  common_.resize(layers_.size());
  far_.assign(layers_.size(), false);
  for (TensorId t = 0; t < static_cast<TensorId>(graph_.tensors.size()); ++t) {
    std::set<int> touched;
    const OpId producer = tensor(t).producer;
    const bool made = is_pass(producer);
    if (made) touched.insert(layer_of(producer));
    for (OpId o : at(readers_, t)) touched.insert(layer_of(o));
    if (touched.size() < 2) continue;
    const bool has_node = made && at(state_of_, t) < 0 && at(readers_, t).size() > 1;
    if (made && touched.size() == 2 && *touched.rbegin() == *touched.begin() + 1)
      at(between_, *touched.begin()).push_back(t);
    else
      for (int layer : touched)
        if (has_node)
          at(common_, layer).push_back(t);
        else
          at(far_, layer) = true;
  }
  for (const State& state : all_states_)
    for (const State& original : all_states_)
      if (tensor(original.master).name == op(tensor(state.master).producer).replica_of)
        replicas_.emplace_back(original.master, state.master);
  for (const auto& [state, replica] : replicas_)
    for (TensorId t : {state, replica})
      for (TensorId kept : at(all_states_, at(state_of_, t)).kept)
        for (OpId o : at(readers_, kept)) at(far_, layer_of(o)) = true;
  for (const State& state : all_states_) {  // a gradient must end in a layout in which its state is read
    std::set<int> touched;
    for (TensorId t : state.kept)
      for (OpId o : at(readers_, t)) touched.insert(layer_of(o));
    for (TensorId t : state.gradients) touched.insert(layer_of(tensor(t).producer));
    if (state.rows >= 0) touched.insert(layer_of(tensor(state.rows).producer));
    if (touched.size() > 1)
      for (int layer : touched) at(far_, layer) = true;
  }
}

// If partial values are switched off, kept tensors are not partial on the open dimensions.
bool LayoutGraph::may_keep(const NdSbp& layout) const {
  for (size_t d = 0; d < layout.size(); ++d)
    if (!space_.partial && !space_.closed[d] && layout[d].is_partial()) return false;
  return true;
}

void LayoutGraph::find_layouts() {
  layouts_.resize(graph_.tensors.size());
  const NdSbp whole = planner::broadcast(mesh_);
  const std::vector<ir::ParameterKind> kinds = ir::parameter_kinds(graph_);
  for (State& state : all_states_) {
    std::vector<NdSbp>& all = at(layouts_, state.master);
    add_once(all, whole);
    for (TensorId t : state.kept)
      for (const NdSbp& layout : wanted(t)) add_once(all, layout);
    add_known(state.master, all);
    if (const auto pin = space_.pins.find(state.master); pin != space_.pins.end()) all = {pin->second};
    for (const NdSbp& layout : all)
      state.stored.push_back(
          sharding_.states && state.trained()
              ? planner::sharded(tensor(state.master).type.shape, layout, mesh_, at(kinds, state.master))
              : layout);
  }
  std::vector<bool> crosses(graph_.tensors.size());
  for (const auto& tensors : between_)
    for (TensorId t : tensors) at(crosses, t) = true;
  for (TensorId t = 0; t < static_cast<TensorId>(graph_.tensors.size()); ++t) {
    const OpId producer = tensor(t).producer;
    const bool made = is_pass(producer), source = !ir::has_op(op(producer).type);
    const auto pin = space_.pins.find(t);
    if (at(state_of_, t) >= 0 || (!made && !source)) continue;
    std::vector<NdSbp>& all = at(layouts_, t);
    const bool reduced = sharding_.reduces_each_micro_batch() && at(readers_, t).size() == 1 && made &&
                         op(at(readers_, t)[0]).is(ir::OpKind::accumulate);
    if (pin != space_.pins.end()) {
      all = {pin->second};
    } else if (reduced) {
      const State& state = at(all_states_, at(gradient_of_, op(at(readers_, t)[0]).outputs[0]));
      for (const OpChoice* choice : at(choices_, producer))
        for (NdSbp layout : state.stored) {
          const NdSbp& produced = at(choice->layout.outputs, tensor(t).output);
          for (size_t d = 0; d < layout.size(); ++d)
            if (!layout[d].is_split()) layout[d] = produced[d];
          if (costs_.boxing(tensor(t).type, produced, layout).possible()) add_once(all, layout);
        }
    } else if (source || at(readers_, t).size() > 1 || at(crosses, t)) {
      if (at(readers_, t).empty()) continue;
      if (source) add_once(all, whole);
      if (made)
        for (const OpChoice* choice : at(choices_, producer))
          if (const NdSbp& layout = at(choice->layout.outputs, tensor(t).output); may_keep(layout))
            add_once(all, layout);
      for (const NdSbp& layout : wanted(t)) add_once(all, layout);
    }
    if (pin == space_.pins.end() && !all.empty()) add_known(t, all);
  }
}

void LayoutGraph::add_known(TensorId t, std::vector<NdSbp>& all) const {
  const auto known = static_cast<size_t>(t);
  if (space_.as && known < space_.as->tensors.size() && !space_.as->tensors[known].empty())
    add_once(all, space_.as->tensors[known]);
}

const std::vector<int>& LayoutGraph::tables_of(TensorId rows) const {
  static const std::vector<int> none;
  const auto found = rows_of_.find(rows);
  return found == rows_of_.end() ? none : found->second;
}

bool LayoutGraph::is_kept(TensorId t) const { return at(state_of_, t) < 0 && !at(layouts_, t).empty(); }

// Layouts that two operands of a layer and phase could share.
std::vector<NdSbp> LayoutGraph::shared(TensorId t, int phase, int layer) const {
  std::vector<NdSbp> once, twice;
  const auto& readers = at(readers_, t);
  for (size_t r = 0; r < readers.size(); ++r) {
    const ir::Op& reader = op(readers[r]);
    if (static_cast<int>(reader.phase) != phase || layer_of(readers[r]) != layer) continue;
    if (r > 0 && readers[r] == readers[r - 1]) continue;
    for (size_t i = 0; i < reader.inputs.size(); ++i) {
      if (reader.inputs[i] != t) continue;
      std::vector<NdSbp> mine;
      for (const OpChoice* choice : at(choices_, readers[r]))
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
  for (OpId o : at(readers_, t))
    if (op(o).phase == op(reader).phase && layer_of(o) == layer_of(reader)) ++operands;
  return operands > 1;
}

// The bytes of a bucket, in which gradients and parameters are communicated.
double LayoutGraph::bucket() const {
  double bytes = 0;
  for (const State& state : all_states_)
    for (TensorId t : state.gradients) bytes += static_cast<double>(reduced_type(t).bytes());
  return std::min(bytes, static_cast<double>(int64_t{hints_.grad_bucket_mb} << 20));
}

std::string LayoutGraph::key(size_t layer) const {
  if (far_[layer]) return "";
  planner::KeyWriter key;
  const auto& ops = layers_[layer];
  std::map<OpId, size_t> position;
  for (size_t i = 0; i < ops.size(); ++i) position[ops[i]] = i;
  const auto add_layouts = [&](TensorId t) {
    key.raw(at(layouts_, t).size());
    for (const NdSbp& layout : at(layouts_, t)) key.layout(layout);
  };
  const auto add_crossing = [&](TensorId t) {
    for (const size_t side : {layer, layer + 1}) {
      if (side == 0) continue;
      const auto& tensors = between_[side - 1];
      const auto found = std::find(tensors.begin(), tensors.end(), t);
      key.raw(found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin()));
    }
    key.raw(std::count(common_[layer].begin(), common_[layer].end(), t) > 0 ? t : -1);
    add_layouts(t);
  };
  const auto add_types = [&](const std::vector<TensorId>& tensors) {
    key.raw(tensors.size());
    for (TensorId t : tensors) key.type(tensor(t).type);
  };
  const auto add_state = [&](const State& state) {
    add_layouts(state.master);
    for (const NdSbp& layout : state.stored) key.layout(layout);
    add_types(state.kept), add_types(state.gradients);
    for (TensorId t : state.kept) key.raw(at(readers_, t).empty());
    key.raw(state.updates.size());
    for (OpId o : state.updates) {
      key.text(op(o).type), key.attrs(op(o).attrs);
      add_types(op(o).inputs), add_types(op(o).outputs);
    }
  };
  std::map<int, size_t> met;  // states, sources
  for (OpId o : ops) {
    key.text(op(o).type);
    key.attrs(op(o).attrs);
    key.raw(op(o).phase);
    key.raw(op(o).inputs.size());
    key.raw(at(choices_, o).size());
    for (const OpChoice* choice : at(choices_, o)) key.raw(choice);
    for (TensorId t : op(o).inputs) {
      key.type(tensor(t).type);
      add_crossing(t);
      const OpId producer = tensor(t).producer;
      const int state = at(state_of_, t);
      if (const auto from = position.find(producer); from != position.end())
        key.raw(from->second), key.raw(tensor(t).output);
      else
        key.raw(met.try_emplace(state >= 0 ? -1 - state : t, met.size()).first->second);
      if (state < 0) continue;
      add_state(at(all_states_, state));
    }
    for (TensorId t : op(o).outputs) {
      key.type(tensor(t).type);
      add_crossing(t);
      key.raw(at(readers_, t).size());
      const auto add_gradient = [&](int state) {
        key.raw(state < 0 ? size_t{0} : 1 + met.try_emplace(-1 - state, met.size()).first->second);
      };
      add_gradient(at(gradient_of_, t));
      for (const int state : tables_of(t)) add_gradient(state);
    }
  }
  return key.take();
}

}  // namespace boxcar::search
