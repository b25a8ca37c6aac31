#include "sbp/mesh_route.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sbp/at.h"
#include "sbp/mesh_space.h"
#include "sbp/mesh_walk.h"

namespace boxcar::sbp {
namespace {

constexpr int64_t unknown = -1;

// Lower bound for any route: each element's partials meet once, and each further place that needs the element
// gets it once.
class Bound {
 public:
  Bound(const Space& space, const State& from, const State& to) : space_(space), from_(from), to_(to) {}

  // `keep[d]`: the partials along d stay apart.
  int64_t operator()(const std::vector<bool>& keep) const {
    const int64_t match = matching();
    if (match == unknown) return unknown;
    int64_t kept = 1, partials = 1, places = 1, copies = 1;
    for (size_t d = 0; d < keep.size(); ++d) {
      const Sbp f = from_.entry[d], t = to_.entry[d];
      const int64_t extent = space_.mesh[d];
      if (keep[d]) {
        kept *= extent;
        continue;
      }
      if (f.is_partial()) partials *= extent;
      if (t.is_broadcast()) places *= extent;
      if (t.is_broadcast() && f.is_broadcast()) copies *= extent;
    }
    const int64_t elements = space_.elements();
    if (partials == 1) return kept * (places * elements - copies * match);
    return kept * ((partials - 1 + places) * elements - match);
  }

 private:
  static Dims before(const State& state, int d) {
    const Dims& order = at(state.order, at(state.entry, d).axis);
    return Dims(order.begin(), std::find(order.begin(), order.end(), d));
  }

  // The number of elements that some device has before and needs after.
  int64_t matching() const {
    Dims dims;
    for (int d = 0; d < static_cast<int>(from_.entry.size()); ++d) {
      const Sbp f = at(from_.entry, d), t = at(to_.entry, d);
      if (!f.is_split() || !t.is_split()) continue;
      if (f.axis != t.axis || before(from_, d) != before(to_, d)) dims.push_back(d);
    }
    if (dims.empty()) return space_.elements();
    const int axis = at(from_.entry, dims[0]).axis;
    const int axis2 = at(to_.entry, dims[0]).axis;
    const Dims &order = at(from_.order, axis), &order2 = at(to_.order, axis2);
    const auto first = std::find_first_of(order.begin(), order.end(), dims.begin(), dims.end());
    const auto count = static_cast<std::ptrdiff_t>(std::min<size_t>(dims.size(), order.end() - first));
    const Dims run(first, first + count);
    const bool one_run = axis != axis2 &&
                         std::is_permutation(run.begin(), run.end(), dims.begin(), dims.end()) &&
                         std::search(order2.begin(), order2.end(), run.begin(), run.end()) != order2.end();
    return one_run ? space_.staying(axis, order, axis2, order2, run) : unknown;
  }

  const Space& space_;
  const State &from_, &to_;
};

// The best axis for one more split: divisible first, then long.
int spare_axis(const Space& space, const State& state, int64_t parts) {
  int best = -1;
  std::pair<bool, int64_t> best_value{false, -1};
  for (int axis = 0; axis < static_cast<int>(state.order.size()); ++axis) {
    const int64_t extent = at(space.shape, axis), size = space.size(at(state.order, axis));
    const std::pair<bool, int64_t> value{extent % (size * parts) == 0, extent / size};
    if (best >= 0 && value <= best_value) continue;
    best = axis;
    best_value = value;
  }
  return best;
}

// `from` with every partial dimension that is not kept reduced and every copy split. A dimension that `to`
// splits is split as in `to`; others along a spare axis, copies first, so that they share the work of the
// reduction.
State scattered(const Space& space, const State& from, const State& to, const std::vector<bool>& keep) {
  State result = from;
  Dims spare;
  int64_t parts = 1;
  const auto add = [&](int axis, int d) {
    at(result.entry, d) = Sbp::S(axis);
    at(result.order, axis).push_back(d);
  };
  for (const bool partial : {false, true})
    for (int d = 0; d < static_cast<int>(keep.size()); ++d) {
      const Sbp f = at(from.entry, d), t = at(to.entry, d);
      if (at(keep, d) || f.is_split() || t.is_split() || f.is_partial() != partial) continue;
      if (space.extent(d) == 1) continue;
      spare.push_back(d);
      parts *= space.extent(d);
    }
  // Inner partials of another reduction have to be reduced first.
  const auto partial =
      std::find_if(spare.begin(), spare.end(), [&](int d) { return at(from.entry, d).is_partial(); });
  if (std::any_of(partial, spare.end(), [&](int d) { return at(from.entry, d) != at(from.entry, *partial); }))
    std::reverse(partial, spare.end());
  for (size_t axis = 0; axis < to.order.size(); ++axis)
    for (const int d : to.order[axis])
      if (!at(from.entry, d).is_split()) add(static_cast<int>(axis), d);
  if (spare.empty() || result.order.empty()) return result;
  // Copies cannot be split inside a reduction's parts before it is done. Take an axis without a reduction if
  // there is one.
  const bool copies = at(from.entry, spare[0]).is_broadcast();
  int axis = -1;
  if (copies) {
    for (size_t a = 0; a < result.order.size(); ++a) {
      const bool busy = std::any_of(result.order[a].begin(), result.order[a].end(),
                                    [&](int d) { return at(from.entry, d).is_partial(); });
      if (!busy && (axis < 0 || space.shape[a] > at(space.shape, axis))) axis = static_cast<int>(a);
    }
  }
  if (axis < 0) axis = spare_axis(space, result, parts);
  for (const int d : spare) add(axis, d);
  return result;
}

MeshRoute finish(MeshRoute route, const NdSbp& from, const NdSbp& to) {
  if (route.steps.empty() && canonical(from) != canonical(to)) route.steps.emplace_back();
  if (!route.steps.empty()) route.steps.back().result = to;
  return route;
}

}  // namespace

double sent_bytes(Collective collective, double bytes, double ranks) {
  switch (collective) {
    case Collective::none:
      return 0;
    case Collective::transfer:
      return bytes;
    case Collective::all_reduce:
      return 2 * bytes * (ranks - 1) / ranks;
    default:
      return bytes * (ranks - 1) / ranks;
  }
}

const char* to_text(Collective collective) {
  constexpr std::array names = {"none",       "all_reduce", "all_gather", "reduce_scatter",
                                "all_to_all", "broadcast",  "reduce",     "transfer"};
  return at(names, collective);
}

std::optional<MeshRoute> mesh_route(const Shape& shape, const Shape& mesh, const NdSbp& from, const NdSbp& to,
                                    Aim aim) {
  if (from == to) return MeshRoute{};
  const Space space{shape, mesh};
  const State start = state_of(shape, mesh, from), goal = state_of(shape, mesh, to);

  Walk direct(space, start);
  const bool arrives = direct.to(goal);
  if (arrives && (aim == Aim::steps || direct.moved() == 0))
    return finish(std::move(direct).take(), from, to);

  // Choose which partial dimensions that `to` also has to keep, and which to reduce on the way: the cheapest
  // choice, then the one that keeps most.
  const Bound bound(space, start, goal);
  std::vector<int> common;
  for (size_t d = 0; d < mesh.size(); ++d)
    if (start.entry[d].is_partial() && start.entry[d] == goal.entry[d]) common.push_back(static_cast<int>(d));
  int64_t least = unknown;
  std::vector<bool> best;
  for (uint32_t dropped = 0; dropped < (1u << common.size()); ++dropped) {
    std::vector<bool> keep(mesh.size());
    for (size_t k = 0; k < common.size(); ++k) at(keep, common[k]) = !(dropped >> k & 1);
    const int64_t moved = bound(keep);
    if (moved == unknown || (least != unknown && moved >= least)) continue;
    least = moved;
    best = std::move(keep);
  }
  if (arrives && direct.moved() == least) return finish(std::move(direct).take(), from, to);

  if (aim == Aim::steps) best.assign(mesh.size(), true);
  if (best.empty()) return std::nullopt;
  Walk through(space, start);
  if (!through.to(scattered(space, start, goal, best)) || !through.to(goal)) return std::nullopt;
  if (aim == Aim::traffic && through.moved() != least) return std::nullopt;
  return finish(std::move(through).take(), from, to);
}

MeshRoute scatter_route(const Shape& shape, const Shape& mesh, const NdSbp& from) {
  const Space space{shape, mesh};
  const State start = state_of(shape, mesh, from);
  const State none{NdSbp(mesh.size()), std::vector<Dims>(shape.size())};
  Walk walk(space, start);
  walk.to(shape.empty() ? none : scattered(space, start, none, std::vector<bool>(mesh.size())));
  return std::move(walk).take();
}

}  // namespace boxcar::sbp
