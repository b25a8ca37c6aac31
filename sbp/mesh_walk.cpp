#include "sbp/mesh_walk.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::sbp {
namespace {

bool contains(const Dims& dims, int d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

bool is_prefix(const Dims& prefix, const Dims& dims) {
  return prefix.size() <= dims.size() && std::equal(prefix.begin(), prefix.end(), dims.begin());
}

bool is_suffix(const Dims& suffix, const Dims& dims) {
  return suffix.size() <= dims.size() && std::equal(suffix.rbegin(), suffix.rend(), dims.rbegin());
}

Sbp entry_of(const State& state, int d) { return at(state.entry, d); }

}  // namespace

bool Walk::to(const State& goal) {
  while (now_ != goal)
    if (!(slice(goal) || scatter(goal) || exchange(goal) || reduce(goal) || gather(goal) || fill(goal)))
      return false;
  return true;
}

// The next dimensions by which `goal` splits `axis`, as long as they satisfy `wanted`.
template <typename Predicate>
Dims Walk::next(const State& goal, int axis, Predicate wanted) {
  const Dims& target = at(goal.order, axis);
  Dims result;
  if (!is_prefix(order(axis), target)) return result;
  for (size_t k = order(axis).size(); k < target.size() && wanted(target[k]); ++k)
    result.push_back(target[k]);
  return result;
}

void Walk::split(int axis, const Dims& dims) {
  for (const int d : dims) {
    entry(d) = Sbp::S(axis);
    order(axis).push_back(d);
  }
}
void Walk::join(int axis, const Dims& dims, Sbp to) {
  for (const int d : dims) entry(d) = to;
  order(axis).resize(order(axis).size() - dims.size());
}

// Appends a step along `dims` that leads to the present state and moves `moved` elements.
void Walk::emit(MeshStep step, Dims dims, int64_t moved) {
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

// The number of copies or partials of each element in different groups along `dims`.
int64_t Walk::copies(const Dims& dims) {
  int64_t result = 1;
  for (int d = 0; d < this->dims(); ++d)
    if (!entry(d).is_split() && !contains(dims, d)) result *= space_.extent(d);
  return result;
}

bool Walk::slice(const State& goal) {
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

// Sum commutes with sum, not with max. So a dimension may be reduced only after all inner dimensions with
// another reduction.
bool Walk::reducible(int d) {
  if (!entry(d).is_partial()) return false;
  for (int e = d + 1; e < dims(); ++e)
    if (entry(e).is_partial() && entry(e).reduction != entry(d).reduction) return false;
  return true;
}

bool Walk::scatter(const State& goal) {
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

bool Walk::scatter(int axis, const Dims& dims) {
  const Reduction reduction = entry(dims.front()).reduction;
  const int64_t moved = (space_.size(dims) - 1) * space_.elements() * copies(dims);
  split(axis, dims);
  emit({.collective = Collective::reduce_scatter, .axis = axis, .reduction = reduction}, dims, moved);
  return true;
}

bool Walk::exchange(const State& goal) {
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

bool Walk::reduce(const State& goal) {
  for (int d = dims() - 1; d >= 0; --d) {
    const Sbp target = entry_of(goal, d);
    if (!reducible(d) || target == entry(d)) continue;
    if (target.is_partial() && axes() > 0) return scatter(0, {d});  // P(sum) -> P(max): reduced, then filled
    if (target.is_split()) continue;
    Dims dims;
    const Reduction reduction = entry(d).reduction;
    for (int e = 0; e <= d; ++e)
      if (reducible(e) && entry(e).reduction == reduction && entry_of(goal, e) != entry(e) &&
          !entry_of(goal, e).is_split())
        dims.push_back(e);
    const int64_t moved = 2 * (space_.size(dims) - 1) * space_.elements() * copies(dims);
    for (const int e : dims) entry(e) = Sbp::B();
    emit({.collective = Collective::all_reduce, .reduction = reduction}, dims, moved);
    return true;
  }
  return false;
}

// The dimensions at the end of the axis's order that are `wanted` in `goal`.
Dims Walk::end(const State& goal, int axis, Sbp wanted) {
  Dims result;
  for (auto d = order(axis).rbegin(); d != order(axis).rend() && entry_of(goal, *d) == wanted; ++d)
    result.push_back(*d);
  std::reverse(result.begin(), result.end());
  return result;
}

bool Walk::gather(const State& goal) {
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

// S -> P and B -> P, all of one reduction at once, from the inside.
bool Walk::fill(const State& goal) {
  for (int d = dims() - 1; d >= 0; --d)
    if (entry_of(goal, d).is_partial() && !entry(d).is_partial() && fill(goal, entry_of(goal, d)))
      return true;
  return false;
}

bool Walk::fill(const State& goal, Sbp target) {
  bool any = false;
  for (int axis = 0; axis < axes(); ++axis) {
    const Dims dims = end(goal, axis, target);
    join(axis, dims, target);
    any |= !dims.empty();
  }
  for (int d = 0; d < dims(); ++d) {
    if (!entry(d).is_broadcast() || entry_of(goal, d) != target) continue;
    entry(d) = target;
    any = true;
  }
  if (any) emit({.reduction = target.reduction}, {}, 0);
  return any;
}

}  // namespace boxcar::sbp
