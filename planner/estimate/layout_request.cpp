#include "planner/estimate/layout_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/op.h"
#include "planner/pins.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::search {
namespace {

using ir::TensorId;
using planner::Mesh;
using sbp::NdSbp;

constexpr double least_gain = 1e-4;  // share of the objective

std::string flag(const LayoutPin& pin) { return "--pin " + to_text(pin); }

// The tensor that a pin of `t` pins. If `t` is the copy of a parameter that ops read, this is the parameter,
// as tables name it; -1 for other results of the update.
TensorId pinned_as(const ir::Graph& graph, TensorId t) {
  const ir::Op& producer = at(graph.ops, graph.tensor(t).producer);
  if (producer.phase != ir::Phase::update) return t;
  return graph.tensor(t).role == ir::Role::parameter && producer.is(ir::OpKind::cast) ? producer.inputs[0]
                                                                                      : -1;
}

// Tensors whose name matches the pin; throws if there are none.
std::vector<TensorId> pinned_tensors(const ir::Graph& graph, const LayoutPin& pin) {
  std::vector<TensorId> tensors;
  std::vector<std::string> names;
  for (TensorId t = 0; t < static_cast<TensorId>(graph.tensors.size()); ++t) {
    const TensorId of = pinned_as(graph, t);
    if (of < 0) continue;
    names.push_back(graph.tensor(t).name);
    if (planner::matches(pin.pattern, names.back())) tensors.push_back(of);
  }
  if (tensors.empty())
    throw Error::input(
        flag(pin), fmt::format("no tensor is called {}{}", pin.pattern, did_you_mean(pin.pattern, names)));
  return tensors;
}

// Checks first for errors that hold on every mesh.
void check_pin(const LayoutPin& pin, const ir::Tensor& tensor, const Mesh& mesh, bool source) {
  for (const sbp::Sbp s : pin.layout)
    if (s.is_split() && static_cast<size_t>(s.axis) >= tensor.type.shape.size())
      throw Error::input(
          flag(pin), fmt::format("{} of {} has no axis {}", tensor.name, ir::to_text(tensor.type), s.axis));
  const bool fits = pin.layout.size() == mesh.dims();
  if (!fits)
    throw Error::input(
        flag(pin), fmt::format("has {} {} for a mesh of {} {} ({})", pin.layout.size(),
                               pin.layout.size() == 1 ? "entry" : "entries", mesh.dims(),
                               mesh.dims() == 1 ? "dimension" : "dimensions", fmt::join(mesh.names, ", ")));
  for (size_t d = 0; d < mesh.dims(); ++d) {
    const sbp::Sbp s = pin.layout[d];
    if (s.is_partial() && source)
      throw Error::input(flag(pin),
                         fmt::format("{} is there from the start and cannot be partial", tensor.name));
    const auto& shape = tensor.type.shape;
    const bool splits = s.is_split() && at(shape, s.axis) >= mesh.extents[d];
    if (s.is_split() && !splits)
      throw Error::input(flag(pin), fmt::format("{} of {} cannot be split over {} devices like this",
                                                tensor.name, ir::to_text(tensor.type), mesh.extents[d]));
  }
}

// By tensor: its pin.
std::map<TensorId, const LayoutPin*> look_up(const ir::Graph& graph, const Mesh& mesh,
                                             const std::vector<LayoutPin>& pins) {
  std::map<TensorId, const LayoutPin*> found;
  for (const LayoutPin& pin : pins)
    for (TensorId t : pinned_tensors(graph, pin)) {
      const auto [at, fresh] = found.try_emplace(t, &pin);
      if (!fresh && at->second->layout != pin.layout)
        throw Error::cannot_run(
            flag(pin), fmt::format("contradicts {}: both name {}", flag(*at->second), graph.tensor(t).name));
    }
  for (const auto& [t, pin] : found) {
    const ir::Op& producer = at(graph.ops, graph.tensor(t).producer);
    check_pin(*pin, graph.tensor(t), mesh, !ir::has_op(producer.type));
  }
  return found;
}

struct Finder {
  const planner::Job& job;
  const ir::Graph& graph;
  const planner::Hints& hints;
  const Mesh& mesh;
  const LayoutRequest& request;
  const std::function<void()>& look;
  LayoutCosts costs{job.cluster, mesh};
  Effort effort{.enough = request.enough, .look = look};

  FoundLayouts find(const std::map<TensorId, NdSbp>& pins) {
    if (request.dimension) return solve(pins, request.dimension, request.as);
    if (mesh.dims() <= 1 || (request.open == Open::both && mesh.dims() == 2)) return solve(pins, {}, {});
    FoundLayouts found;
    for (const size_t d : in_turn()) {
      found = solve(pins, d, {});
      found.dimension = d;
      if (found.found) break;
    }
    return found.found && request.open != Open::one ? then_the_others(pins, std::move(found)) : found;
  }

 private:
  // With one dimension of the mesh open and the others as in `as`; if none is given, all are open.
  LayoutGraph graph_of(const std::map<TensorId, NdSbp>& pins, std::optional<size_t> dimension,
                       std::optional<planner::Layouts> as) {
    LayoutSpace space{request.partial, pins, {}, {}, std::move(as)};
    for (size_t o = 0; o < graph.ops.size() && !request.ops.empty(); ++o)
      if (const auto op = request.ops.find(graph.ops[o].name); op != request.ops.end())
        space.ops[static_cast<ir::OpId>(o)] = op->second;
    for (size_t d = 0; d < mesh.dims(); ++d) space.closed.push_back(dimension && d != *dimension);
    if (look) look();
    return {graph, hints, mesh, job.train.micro_batches, std::move(space), costs};
  }

  FoundLayouts solve(const std::map<TensorId, NdSbp>& pins, std::optional<size_t> dimension,
                     const std::optional<planner::Layouts>& as) {
    return find_layouts_within(graph_of(pins, dimension, as), request.weights, request.memory, effort);
  }

  // Innermost first, except the tensor dimension.
  std::vector<size_t> in_turn() const {
    std::vector<size_t> dims;
    for (size_t d = mesh.dims(); d-- > 0;) dims.push_back(d);
    std::stable_partition(dims.begin(), dims.end(), [&](size_t d) { return mesh.names[d] == "tp"; });
    return dims;
  }

  // One dimension after the other, until no single one gains.
  FoundLayouts then_the_others(const std::map<TensorId, NdSbp>& pins, FoundLayouts found) {
    const std::vector<size_t> dims = in_turn();
    std::map<size_t, double> lower{{*found.dimension, found.lower}};  // with the others unchanged
    while (lower.size() < dims.size()) {
      const size_t d = *std::find_if(dims.begin(), dims.end(), [&](size_t dim) { return !lower.count(dim); });
      FoundLayouts next = find_layouts(graph_of(pins, d, found.layouts), found.weights, most_joint, effort);
      next.solved = std::max(next.solved, found.solved);
      if (next.found && next.value < (1 - least_gain) * found.value) {
        found = next;
        lower.clear();
      }
      found.solved = next.solved;
      lower[d] = next.lower;
    }
    for (const auto& [d, least] : lower) found.lower = std::min(found.lower, least);
    found.dimension.reset();
    found.apart = true;
    return found;
  }

 public:
  // The fewest pins, two at most, without which there would be layouts.
  [[noreturn]] void contradiction(const std::map<TensorId, const LayoutPin*>& pins) {
    const auto& all = request.pins;
    const auto possible = [&](const LayoutPin& a, const LayoutPin& b) {
      std::map<TensorId, NdSbp> some;
      for (const auto& [t, pin] : pins)
        if (pin == &a || pin == &b) some[t] = pin->layout;
      return find(some).found;
    };
    const auto which = [&](const LayoutPin& pin) {
      for (const auto& [t, own] : pins)
        if (own == &pin && !find({{t, pin.layout}}).found) return graph.tensor(t).name;
      return std::string("all that it names");
    };
    for (const LayoutPin& pin : all)
      if (!possible(pin, pin))
        throw Error::cannot_run(flag(pin),
                                fmt::format("no ops can make and read {} like this{}", which(pin),
                                            mesh.dims() == 2 && request.open != Open::both
                                                ? " with a dimension of the mesh as degrees have it (try "
                                                  "--both-dimensions)"
                                                : ""));
    for (size_t a = 0; a < all.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        if (!possible(all[a], all[b]))
          throw Error::cannot_run(flag(all[a]),
                                  fmt::format("contradicts {}: no ops go with both", flag(all[b])));
    throw Error::cannot_run("--pin", all.empty()
                                         ? "no layouts are possible"
                                         : "no layouts are possible with all of these; leave some out");
  }
};

}  // namespace

LayoutPin parse_pin(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw Error::input("--pin", fmt::format("got \"{}\", expected a tensor and its layout such as "
                                            "\"h*.mlp.fc1.weight=(B, S(1))\"",
                                            text));
  try {
    return {text.substr(0, equals), sbp::parse_nd_sbp(text.substr(equals + 1))};
  } catch (const Error& error) {
    throw Error::input("--pin " + text, error.what());
  }
}

std::string to_text(const LayoutPin& pin) { return pin.pattern + "=" + sbp::to_text(pin.layout); }

bool needs_layouts(const planner::Job& job) { return job.parallel.tp > 1 && !job.model.transformer(); }

bool keeps(const planner::LaidOut& laid, const std::vector<LayoutPin>& pins) {
  const ir::Graph& graph = laid.graph;
  std::map<TensorId, const NdSbp*> read_as;  // parameters, and the copies that ops read
  const auto parameter = [&](TensorId t) {
    const ir::Op& producer = at(graph.ops, graph.tensor(t).producer);
    return ir::has_op(producer.type) ? pinned_as(graph, t) : t;
  };
  for (const auto& [t, pin] : look_up(graph, laid.mesh, pins)) {
    const ir::Op& producer = at(graph.ops, graph.tensor(t).producer);
    if (!ir::has_op(producer.type)) {
      read_as[t] = &pin->layout;
      continue;
    }
    const planner::OpLayout& made = at(laid.layouts.ops, graph.tensor(t).producer);
    if (at(laid.layouts.stored, t) != pin->layout || at(made.outputs, graph.tensor(t).output) != pin->layout)
      return false;
  }
  std::set<TensorId> read;
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const ir::Op& op = graph.ops[o];
    if (op.phase == ir::Phase::update || !ir::has_op(op.type)) continue;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const auto pin = read_as.find(parameter(op.inputs[i]));
      if (pin == read_as.end()) continue;
      if (laid.layouts.ops[o].inputs[i] != *pin->second) return false;
      read.insert(pin->first);
    }
  }
  return read.size() == read_as.size();
}

planner::Choose chooser(const planner::Job& job, const LayoutRequest& request, FoundLayouts* found,
                        const std::function<void()>& look) {
  return [job, request, found, look](const ir::Graph& graph, const planner::Hints& hints, const Mesh& mesh) {
    const auto pins = look_up(graph, mesh, request.pins);
    Finder finder{job, graph, hints, mesh, request, look};
    std::map<TensorId, NdSbp> layouts;
    for (const auto& [t, pin] : pins) layouts[t] = pin->layout;
    FoundLayouts result = finder.find(layouts);
    if (!result.found && request.ops.empty()) finder.contradiction(pins);
    if (found) *found = result;
    return result.layouts;
  };
}

}  // namespace boxcar::search
