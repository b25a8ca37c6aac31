#include "sbp/mesh_route.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace boxcar::sbp {
namespace {

using Dims = std::vector<int>;  // mesh dimensions

// A layout with the order of splits spelt out. Mesh dimensions of extent 1 are B: they hold everything.
struct State {
  NdSbp entry;              // kind, axis and reduction; inner is not used
  std::vector<Dims> order;  // per tensor axis: the mesh dimensions that split it, first to last
  friend bool operator==(const State&, const State&) = default;
};

State state_of(const Shape& shape, const Shape& mesh, const NdSbp& layout) {
  State state{layout, std::vector<Dims>(shape.size())};
  for (size_t d = 0; d < mesh.size(); ++d)
    if (mesh[d] == 1) state.entry[d] = Sbp::B();
  const auto order = split_order(layout);
  for (size_t axis = 0; axis < order.size(); ++axis)
    for (const size_t d : order[axis])
      if (mesh[d] > 1) state.order[axis].push_back(static_cast<int>(d));
  for (Sbp& sbp : state.entry) sbp.inner = 0;
  return state;
}

NdSbp layout_of(const State& state) {
  NdSbp layout = state.entry;
  for (const Dims& order : state.order) {
    int8_t inner = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      if (k > 0 && order[k] < order[k - 1]) ++inner;
      layout[static_cast<size_t>(order[k])].inner = inner;
    }
  }
  return layout;
}

bool contains(const Dims& dims, int d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

bool is_prefix(const Dims& prefix, const Dims& dims) {
  return prefix.size() <= dims.size() && std::equal(prefix.begin(), prefix.end(), dims.begin());
}

bool is_suffix(const Dims& suffix, const Dims& dims) {
  return suffix.size() <= dims.size() && std::equal(suffix.rbegin(), suffix.rend(), dims.rbegin());
}

// Tensor and mesh extents, and what follows from them alone.
struct Space {
  const Shape& shape;
  const Shape& mesh;

  int64_t extent(int d) const { return mesh[static_cast<size_t>(d)]; }
  int64_t size(const Dims& dims) const {
    int64_t product = 1;
    for (const int d : dims) product *= extent(d);
    return product;
  }
  int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }

  // How many indices of `axis` lie in part k of `dims`, which follow one another in `order`, for each k.
  std::vector<int64_t> part_sizes(int axis, const Dims& order, const Dims& dims) const {
    const auto from = std::find(order.begin(), order.end(), dims.front());
    std::vector<int64_t> outer{shape[static_cast<size_t>(axis)]};
    for (auto d = order.begin(); d != from; ++d) outer = split(outer, extent(*d));
    std::vector<int64_t> sizes(static_cast<size_t>(size(dims)));
    for (const int64_t extent_here : outer) {
      std::vector<int64_t> parts{extent_here};
      for (const int d : dims) parts = split(parts, extent(d));
      for (size_t k = 0; k < sizes.size(); ++k) sizes[k] += parts[k];
    }
    return sizes;
  }

  // The elements that are in the same part before and after `dims` change from splitting one axis to another.
  int64_t staying(int axis, const Dims& order, int axis2, const Dims& order2, const Dims& dims) const {
    const int64_t n = shape[static_cast<size_t>(axis)], n2 = shape[static_cast<size_t>(axis2)];
    if (n == 0 || n2 == 0) return 0;
    const int64_t rest = elements() / n / n2;
    if (n % size(order) == 0 && n2 % size(order2) == 0) return rest * n * n2 / size(dims);
    const auto a = part_sizes(axis, order, dims), b = part_sizes(axis2, order2, dims);
    return rest * std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0});
  }

 private:
  static std::vector<int64_t> split(const std::vector<int64_t>& extents, int64_t parts) {
    std::vector<int64_t> result;
    for (const int64_t extent : extents)
      for (int64_t k = 0; k < parts; ++k) result.push_back(part_range(extent, parts, k).size());
    return result;
  }
};

// Walks from one state to another by steps that are legal on their own: a split is added after, and taken
// from, the end of its axis' order, so that a group always works on one block.
class Walk {
 public:
  Walk(const Space& space, State from) : space_(space), now_(std::move(from)) {}

  bool to(const State& goal) {
    while (now_ != goal)
      if (!(slice(goal) || scatter(goal) || exchange(goal) || reduce(goal) || gather(goal) || fill(goal)))
        return false;
    return true;
  }
  MeshRoute take() && { return std::move(route_); }
  int64_t moved() const { return route_.elements_moved; }

 private:
  Sbp& entry(int d) { return now_.entry[static_cast<size_t>(d)]; }
  static Sbp entry(const State& state, int d) { return state.entry[static_cast<size_t>(d)]; }
  int dims() const { return static_cast<int>(now_.entry.size()); }
  int axes() const { return static_cast<int>(now_.order.size()); }
  Dims& order(int axis) { return now_.order[static_cast<size_t>(axis)]; }

  // The dimensions that `goal` splits `axis` by next, as long as they satisfy `wanted`.
  template <typename Predicate>
  Dims next(const State& goal, int axis, Predicate wanted) {
    const Dims& target = goal.order[static_cast<size_t>(axis)];
    Dims result;
    if (!is_prefix(order(axis), target)) return result;
    for (size_t k = order(axis).size(); k < target.size() && wanted(target[k]); ++k)
      result.push_back(target[k]);
    return result;
  }

  void split(int axis, const Dims& dims) {
    for (const int d : dims) {
      entry(d) = Sbp::S(axis);
      order(axis).push_back(d);
    }
  }
  void join(int axis, const Dims& dims, Sbp to) {
    for (const int d : dims) entry(d) = to;
    order(axis).resize(order(axis).size() - dims.size());
  }

  // Ends a step that began in a state where each block had `copies` beyond the groups of `dims`.
  void emit(MeshStep step, Dims dims, int64_t moved) {
    step.group_size = space_.size(dims);
    step.dims = std::move(dims);
    step.result = layout_of(now_);
    step.elements_moved = moved;
    const int rounds = static_cast<int>(step.group_size) - 1;
    if (step.collective != Collective::none) step.latency_steps = rounds;
    if (step.collective == Collective::all_reduce) step.latency_steps = 2 * rounds;
    route_.elements_moved += moved;
    route_.steps.push_back(std::move(step));
  }

  // How often the whole tensor is there, over groups along `dims`.
  int64_t copies(const Dims& dims) {
    int64_t result = 1;
    for (int d = 0; d < this->dims(); ++d)
      if (!entry(d).is_split() && !contains(dims, d)) result *= space_.extent(d);
    return result;
  }

  bool slice(const State& goal) {
    Dims all;
    for (int axis = 0; axis < axes(); ++axis) {
      const Dims dims = next(goal, axis, [&](int d) { return entry(d).is_broadcast(); });
      split(axis, dims);
      all.insert(all.end(), dims.begin(), dims.end());
    }
    if (all.empty()) return false;
    emit({}, {}, 0);
    return true;
  }

  // Sum moves past sum, not past max: a dimension may be reduced only once those inside it that differ are.
  bool reducible(int d) {
    if (!entry(d).is_partial()) return false;
    for (int e = d + 1; e < dims(); ++e)
      if (entry(e).is_partial() && entry(e).reduction != entry(d).reduction) return false;
    return true;
  }

  bool scatter(const State& goal) {
    for (int axis = 0; axis < axes(); ++axis) {
      const Sbp* first = nullptr;
      const Dims dims = next(goal, axis, [&](int d) {
        if (!reducible(d) || (first && first->reduction != entry(d).reduction)) return false;
        if (!first) first = &entry(d);
        return true;
      });
      if (!dims.empty()) return scatter(axis, dims);
    }
    return false;
  }

  bool scatter(int axis, const Dims& dims) {
    const Reduction reduction = entry(dims.front()).reduction;
    const int64_t moved = (space_.size(dims) - 1) * space_.elements() * copies(dims);
    split(axis, dims);
    emit({.collective = Collective::reduce_scatter, .axis = axis, .reduction = reduction}, dims, moved);
    return true;
  }

  bool exchange(const State& goal) {
    for (int axis2 = 0; axis2 < axes(); ++axis2) {
      int axis = -1;
      Dims dims = next(goal, axis2, [&](int d) {
        if (!entry(d).is_split() || (axis >= 0 && entry(d).axis != axis)) return false;
        axis = entry(d).axis;
        return axis != axis2;
      });
      if (dims.empty() || !is_suffix(dims, order(axis))) continue;
      const Dims before = order(axis);
      const int64_t copied = copies(dims);
      join(axis, dims, Sbp::B());
      split(axis2, dims);
      const int64_t stay = space_.staying(axis, before, axis2, order(axis2), dims);
      emit({.collective = Collective::all_to_all, .axis = axis, .axis2 = axis2}, dims,
           (space_.elements() - stay) * copied);
      return true;
    }
    return false;
  }

  bool reduce(const State& goal) {
    for (int d = dims() - 1; d >= 0; --d) {
      const Sbp target = entry(goal, d);
      if (!reducible(d) || target == entry(d)) continue;
      if (target.is_partial() && axes() > 0)
        return scatter(0, {d});  // P(sum) -> P(max): reduced, then filled
      if (target.is_split()) continue;
      Dims dims;
      const Reduction reduction = entry(d).reduction;
      for (int e = 0; e <= d; ++e)
        if (reducible(e) && entry(e).reduction == reduction && entry(goal, e) != entry(e) &&
            !entry(goal, e).is_split())
          dims.push_back(e);
      const int64_t moved = 2 * (space_.size(dims) - 1) * space_.elements() * copies(dims);
      for (const int e : dims) entry(e) = Sbp::B();
      emit({.collective = Collective::all_reduce, .reduction = reduction}, dims, moved);
      return true;
    }
    return false;
  }

  // The end of `axis`' order, as long as `goal` has `kind` there.
  Dims end(const State& goal, int axis, Sbp wanted) {
    Dims result;
    for (auto d = order(axis).rbegin(); d != order(axis).rend() && entry(goal, *d) == wanted; ++d)
      result.push_back(*d);
    std::reverse(result.begin(), result.end());
    return result;
  }

  bool gather(const State& goal) {
    for (int axis = 0; axis < axes(); ++axis) {
      const Dims dims = end(goal, axis, Sbp::B());
      if (dims.empty()) continue;
      const int64_t moved = (space_.size(dims) - 1) * space_.elements() * copies(dims);
      join(axis, dims, Sbp::B());
      emit({.collective = Collective::all_gather, .axis = axis}, dims, moved);
      return true;
    }
    return false;
  }

  // S -> P and B -> P, those of one reduction at once, from the inside.
  bool fill(const State& goal) {
    int innermost = dims() - 1;
    while (innermost >= 0 && !(entry(goal, innermost).is_partial() && !entry(innermost).is_partial()))
      --innermost;
    if (innermost < 0) return false;
    const Sbp target = entry(goal, innermost);
    bool any = false;
    for (int axis = 0; axis < axes(); ++axis) {
      const Dims dims = end(goal, axis, target);
      join(axis, dims, target);
      any |= !dims.empty();
    }
    for (int d = 0; d <= innermost; ++d) {
      if (!entry(d).is_broadcast() || entry(goal, d) != target) continue;
      entry(d) = target;
      any = true;
    }
    if (any) emit({.reduction = target.reduction}, {}, 0);
    return any;
  }

  const Space& space_;
  State now_;
  MeshRoute route_;
};

constexpr int64_t unknown = -1;

// What no route can beat: each element's partials meet once, and each further place that needs it gets it
// once.
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
    const Dims& order = state.order[static_cast<size_t>(state.entry[static_cast<size_t>(d)].axis)];
    return Dims(order.begin(), std::find(order.begin(), order.end(), d));
  }

  // The elements that some device has before and needs after.
  int64_t matching() const {
    Dims dims;
    for (int d = 0; d < static_cast<int>(from_.entry.size()); ++d) {
      const Sbp f = from_.entry[static_cast<size_t>(d)], t = to_.entry[static_cast<size_t>(d)];
      if (!f.is_split() || !t.is_split()) continue;
      if (f.axis != t.axis || before(from_, d) != before(to_, d)) dims.push_back(d);
    }
    if (dims.empty()) return space_.elements();
    const int axis = from_.entry[static_cast<size_t>(dims[0])].axis;
    const int axis2 = to_.entry[static_cast<size_t>(dims[0])].axis;
    const Dims &order = from_.order[static_cast<size_t>(axis)],
               &order2 = to_.order[static_cast<size_t>(axis2)];
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

// The axis that splits best once more: divisible first, then long.
int spare_axis(const Space& space, const State& state, int64_t parts) {
  int best = -1;
  std::pair<bool, int64_t> best_value{false, -1};
  for (int axis = 0; axis < static_cast<int>(state.order.size()); ++axis) {
    const int64_t extent = space.shape[static_cast<size_t>(axis)],
                  size = space.size(state.order[static_cast<size_t>(axis)]);
    const std::pair<bool, int64_t> value{extent % (size * parts) == 0, extent / size};
    if (best >= 0 && value <= best_value) continue;
    best = axis;
    best_value = value;
  }
  return best;
}

// `from` with every partial dimension that is not kept reduced and every copy split: where `to` splits, as
// `to` does, else along a spare axis, copies first, so that they share the work of the reduction.
State scattered(const Space& space, const State& from, const State& to, const std::vector<bool>& keep) {
  State result = from;
  Dims spare;
  int64_t parts = 1;
  const auto add = [&](int axis, int d) {
    result.entry[static_cast<size_t>(d)] = Sbp::S(axis);
    result.order[static_cast<size_t>(axis)].push_back(d);
  };
  for (const bool partial : {false, true})
    for (int d = 0; d < static_cast<int>(keep.size()); ++d) {
      const Sbp f = from.entry[static_cast<size_t>(d)], t = to.entry[static_cast<size_t>(d)];
      if (keep[static_cast<size_t>(d)] || f.is_split() || t.is_split() || f.is_partial() != partial) continue;
      if (space.extent(d) == 1) continue;
      spare.push_back(d);
      parts *= space.extent(d);
    }
  // Inner partials of another reduction have to be reduced first.
  const auto partial = std::find_if(spare.begin(), spare.end(),
                                    [&](int d) { return from.entry[static_cast<size_t>(d)].is_partial(); });
  if (std::any_of(partial, spare.end(), [&](int d) {
        return from.entry[static_cast<size_t>(d)] != from.entry[static_cast<size_t>(*partial)];
      }))
    std::reverse(partial, spare.end());
  for (size_t axis = 0; axis < to.order.size(); ++axis)
    for (const int d : to.order[axis])
      if (!from.entry[static_cast<size_t>(d)].is_split()) add(static_cast<int>(axis), d);
  if (spare.empty() || result.order.empty()) return result;
  // Copies cannot be split inside a reduction's parts before it is made: take an axis where none is, if there
  // is one.
  const bool copies = from.entry[static_cast<size_t>(spare[0])].is_broadcast();
  int axis = -1;
  if (copies) {
    for (size_t a = 0; a < result.order.size(); ++a) {
      const bool busy = std::any_of(result.order[a].begin(), result.order[a].end(),
                                    [&](int d) { return from.entry[static_cast<size_t>(d)].is_partial(); });
      if (!busy && (axis < 0 || space.shape[a] > space.shape[static_cast<size_t>(axis)]))
        axis = static_cast<int>(a);
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

const char* to_text(Collective collective) {
  constexpr std::array names = {"none",       "all_reduce", "all_gather", "reduce_scatter",
                                "all_to_all", "broadcast",  "reduce",     "transfer"};
  return names[static_cast<size_t>(collective)];
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

  // Which partial dimensions that `to` has too to keep, and which to reduce on the way: the cheapest, then
  // the most.
  const Bound bound(space, start, goal);
  std::vector<int> common;
  for (size_t d = 0; d < mesh.size(); ++d)
    if (start.entry[d].is_partial() && start.entry[d] == goal.entry[d]) common.push_back(static_cast<int>(d));
  int64_t least = unknown;
  std::vector<bool> best;
  for (uint32_t dropped = 0; dropped < (1u << common.size()); ++dropped) {
    std::vector<bool> keep(mesh.size());
    for (size_t k = 0; k < common.size(); ++k) keep[static_cast<size_t>(common[k])] = !(dropped >> k & 1);
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
