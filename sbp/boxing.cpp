#include "sbp/boxing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/transfer.h"

namespace boxcar::sbp {
namespace {

int64_t overlap(const std::vector<Range>& a, const std::vector<Range>& b) {
  int64_t product = 1;
  for (size_t axis = 0; axis < a.size(); ++axis)
    product *=
        std::max<int64_t>(0, std::min(a[axis].end, b[axis].end) - std::max(a[axis].begin, b[axis].begin));
  return product;
}

std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

bool all_equal(const NdSbp& layout) {
  return std::adjacent_find(layout.begin(), layout.end(), std::not_equal_to<>()) == layout.end();
}

// B or P in every dimension: neither the order of devices nor the mesh matters.
bool is_uniform(const NdSbp& layout) { return all_equal(layout) && !layout[0].is_split(); }

// The coarsest mesh that both refine by splitting dimensions in order; empty if there is none.
//   {4, 2}, {2, 4} -> {2, 2, 2}; {2, 3}, {3, 2} -> none
Shape common_mesh(const Shape& a, const Shape& b) {
  std::vector<int64_t> inner;  // products of the innermost extents
  for (const Shape* mesh : {&a, &b}) {
    int64_t product = 1;
    for (auto extent = mesh->rbegin(); extent != mesh->rend(); ++extent) inner.push_back(product *= *extent);
  }
  std::sort(inner.begin(), inner.end());
  inner.erase(std::unique(inner.begin(), inner.end()), inner.end());
  Shape result;
  int64_t below = 1;
  for (const int64_t product : inner) {
    if (product % below != 0) return {};
    if (product > below) result.insert(result.begin(), product / below);
    below = product;
  }
  if (result.empty()) result.push_back(1);
  return result;
}

// `layout` on a finer mesh, if there is one. A split must divide evenly, since a split of a split rounds
// differently.
std::optional<NdSbp> refine(const Layout& layout, const Shape& finer) {
  NdSbp result(finer.size());
  const Shape& mesh = layout.placement.mesh;
  size_t f = finer.size();
  for (size_t d = mesh.size(); d-- > 0;) {
    int64_t left = mesh[d];
    for (; left > 1; left /= finer[f]) result[--f] = layout.sbp[d];
  }
  const auto order = split_order(layout.sbp);
  for (size_t axis = 0; axis < order.size(); ++axis) {
    int64_t parts = 1;
    for (const size_t d : order[axis]) parts *= mesh[d];
    if (layout.shape[axis] % parts != 0) return std::nullopt;
  }
  return canonical(result);
}

// Both layouts on one mesh over the same devices.
struct Common {
  Placement placement;
  NdSbp from, to;
};

std::optional<Common> common(const Layout& from, const Layout& to) {
  if (from.placement == to.placement) return Common{from.placement, from.sbp, to.sbp};
  auto a = from.placement.devices, b = to.placement.devices;
  if (a.size() != b.size()) return std::nullopt;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a != b) return std::nullopt;
  if (is_uniform(to.sbp)) return Common{from.placement, from.sbp, NdSbp(from.sbp.size(), to.sbp[0])};
  if (is_uniform(from.sbp)) return Common{to.placement, NdSbp(to.sbp.size(), from.sbp[0]), to.sbp};
  if (from.placement.devices != to.placement.devices) return std::nullopt;
  const Shape mesh = common_mesh(from.placement.mesh, to.placement.mesh);
  if (mesh.empty()) return std::nullopt;
  const auto f = refine(from, mesh), t = refine(to, mesh);
  if (!f || !t) return std::nullopt;
  return Common{{mesh, from.placement.devices}, *f, *t};
}

// The devices that differ only along `dims`; the first of `dims` varies slowest.
std::vector<std::vector<int>> groups_along(const Placement& placement, const std::vector<int>& dims) {
  const Shape& mesh = placement.mesh;
  std::vector<int64_t> stride(mesh.size(), 1);
  for (size_t d = mesh.size() - 1; d-- > 0;) stride[d] = stride[d + 1] * mesh[d + 1];
  const auto walk = [&](const std::vector<int>& over) {
    std::vector<int64_t> offsets{0};
    for (const int d : over) {
      std::vector<int64_t> next;
      for (const int64_t offset : offsets)
        for (int64_t k = 0; k < at(mesh, d); ++k) next.push_back(offset + k * at(stride, d));
      offsets = std::move(next);
    }
    return offsets;
  };
  std::vector<int> others;
  for (int d = 0; d < static_cast<int>(mesh.size()); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) others.push_back(d);
  const auto members = walk(dims);
  std::vector<std::vector<int>> groups;
  for (const int64_t base : walk(others)) {
    groups.emplace_back();
    for (const int64_t offset : members) groups.back().push_back(at(placement.devices, base + offset));
  }
  return groups;
}

Step expand(const MeshStep& step, const Shape& shape, const Placement& placement) {
  Step result;
  result.collective = step.collective;
  result.mesh_dims = step.dims;
  result.mesh_dim = step.dims.size() == 1 ? step.dims[0] : -1;
  result.axis = step.axis;
  result.axis2 = step.axis2;
  result.reduction = step.reduction;
  if (step.collective != Collective::none) result.groups = groups_along(placement, step.dims);
  result.result = {shape, step.result, placement};
  result.elements_moved = step.elements_moved;
  result.latency_steps = step.latency_steps;
  return result;
}

Step relabel(const Layout& to) {
  Step step;
  step.result = to;
  return step;
}

std::vector<Step> expand(const MeshRoute& route, const Common& common, const Layout& from, const Layout& to) {
  std::vector<Step> steps;
  const auto differs = [](const Layout& a, const Placement& placement, const NdSbp& sbp) {
    return a.placement != placement || canonical(a.sbp) != canonical(sbp);
  };
  if (differs(from, common.placement, common.from))
    steps.push_back(relabel({from.shape, common.from, common.placement}));
  for (const MeshStep& step : route.steps) steps.push_back(expand(step, from.shape, common.placement));
  const bool local = steps.empty() || steps.back().collective == Collective::none;
  if (local && differs(to, common.placement, common.to)) steps.push_back(relabel(to));
  if (!steps.empty()) steps.back().result = to;
  return steps;
}

// One device's tensor goes to all devices, or all devices' partials to one.
std::optional<Step> rooted(const Layout& from, const Layout& to) {
  const auto &sources = from.placement.devices, &targets = to.placement.devices;
  const bool spreads =
      sources.size() == 1 && targets.size() > 1 && is_uniform(to.sbp) && to.sbp[0].is_broadcast();
  const bool collects =
      sources.size() > 1 && targets.size() == 1 && is_uniform(from.sbp) && from.sbp[0].is_partial();
  if (!spreads && !collects) return std::nullopt;
  const int root = spreads ? sources[0] : targets[0];
  std::vector<int> group{root};
  for (const int device : spreads ? targets : sources)
    if (device != root) group.push_back(device);
  if (collects && group.size() > sources.size()) return std::nullopt;  // the root has no partial of its own
  Step step;
  step.collective = spreads ? Collective::broadcast : Collective::reduce;
  if (collects) step.reduction = from.sbp[0].reduction;
  step.result = to;
  step.latency_steps = static_cast<int>(group.size()) - 1;
  step.elements_moved = step.latency_steps;
  for (const int64_t extent : from.shape) step.elements_moved *= extent;
  step.groups.push_back(std::move(group));
  return step;
}

// The same layout and mesh on other devices: each sends to its counterpart. With both copies and partials,
// the partials would be sent once per copy, which is more than necessary.
std::optional<Step> counterparts(const Layout& from, const Layout& to) {
  if (from.placement.mesh != to.placement.mesh || from.sbp != to.sbp) return std::nullopt;
  const auto has = [&](Sbp::Kind kind) {
    return std::any_of(from.sbp.begin(), from.sbp.end(), [&](Sbp sbp) { return sbp.kind == kind; });
  };
  if (has(Sbp::Kind::partial) && has(Sbp::Kind::broadcast)) return std::nullopt;
  const auto all = joined(from.placement.devices, to.placement.devices);
  if (all.size() != from.placement.devices.size() + to.placement.devices.size()) return std::nullopt;
  Step step;
  step.collective = Collective::transfer;
  step.latency_steps = 1;
  step.result = to;
  for (size_t i = 0; i < from.placement.devices.size(); ++i) {
    auto block = local_ranges(from.shape, from.sbp, from.placement.mesh, static_cast<int64_t>(i));
    const int64_t elements = volume(block);
    step.elements_moved += elements;
    if (elements > 0)
      step.slices.push_back({from.placement.devices[i], to.placement.devices[i], std::move(block)});
  }
  return step;
}

int64_t total(const std::vector<Step>& steps) {
  int64_t moved = 0;
  for (const Step& step : steps) moved += step.elements_moved;
  return moved;
}

// `middles`: number of intermediate layouts that it may try, because partials of several reductions can hide
// the cheapest way.
std::vector<Step> plan(const Layout& from, const Layout& to, Aim aim, int middles);

// Keeps partials of one kind that both layouts have along `dims` of one mesh where they are. Each is a
// separate tensor, and all take the same route on their part of the mesh.
class Apart {
 public:
  Apart(const Layout& from, const Layout& to, const std::vector<int>& dims) : dims_(dims), from_(from) {
    for (const auto& devices : groups_along(from.placement, others(from))) {
      froms_.push_back(part(from, devices));
      tos_.push_back(part(to, devices));
    }
  }

  std::vector<Step> plan(Aim aim, int middles) const {
    std::vector<Step> all;
    for (size_t k = 0; k < froms_.size(); ++k) {
      std::vector<Step> steps = boxcar::sbp::plan(froms_[k], tos_[k], aim, middles);
      if (all.empty()) all.resize(steps.size());
      for (size_t i = 0; i < steps.size(); ++i) join(all[i], std::move(steps[i]));
    }
    return all;
  }

 private:
  bool is_kept(int d) const { return std::find(dims_.begin(), dims_.end(), d) != dims_.end(); }
  std::vector<int> others(const Layout& layout) const {
    std::vector<int> dims;
    for (int d = 0; d < static_cast<int>(layout.sbp.size()); ++d)
      if (!is_kept(d)) dims.push_back(d);
    return dims;
  }
  Layout part(const Layout& layout, const std::vector<int>& devices) const {
    Layout result{layout.shape, {}, {{}, devices}};
    for (const int d : others(layout)) {
      result.sbp.push_back(at(layout.sbp, d));
      result.placement.mesh.push_back(at(layout.placement.mesh, d));
    }
    return result;
  }

  // Joins a step of one part into that of all. Its mesh dimensions and its result become those of the whole
  // mesh.
  void join(Step& all, Step step) const {
    const std::vector<int> left = others(from_);
    if (all.result.placement.devices.empty()) {
      const auto whole = [&](int d) { return at(left, d); };
      std::transform(step.mesh_dims.begin(), step.mesh_dims.end(), step.mesh_dims.begin(), whole);
      if (step.mesh_dim >= 0) step.mesh_dim = whole(step.mesh_dim);
      if (!step.result.sbp.empty()) {
        NdSbp sbp = from_.sbp;
        for (size_t k = 0; k < left.size(); ++k) at(sbp, left[k]) = step.result.sbp[k];
        step.result.sbp = std::move(sbp);
        step.result.placement = from_.placement;
      }
      all = std::move(step);
      return;
    }
    const auto append = [](auto& list, const auto& more) {
      list.insert(list.end(), more.begin(), more.end());
    };
    append(all.groups, step.groups);
    append(all.slices, step.slices);
    append(all.fills, step.fills);
    if (all.result.sbp.empty())
      all.result.placement.devices = joined(all.result.placement.devices, step.result.placement.devices);
    all.elements_moved += step.elements_moved;
  }

  std::vector<int> dims_;
  const Layout& from_;
  std::vector<Layout> froms_, tos_;
};

// The reductions of a layout's partials.
std::vector<Reduction> reductions_of(const Layout& layout) {
  std::vector<Reduction> kinds;
  for (size_t d = 0; d < layout.sbp.size(); ++d)
    if (layout.sbp[d].is_partial() && layout.placement.mesh[d] > 1) kinds.push_back(layout.sbp[d].reduction);
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

// Whether partials along `kept` may stay while the others are reduced and made. Inner ones reduce first, and
// partials must not be moved past another reduction.
bool may_keep(const Layout& from, const Layout& to, const std::vector<int>& kept) {
  const auto is_kept = [&](size_t d) {
    return std::find(kept.begin(), kept.end(), static_cast<int>(d)) != kept.end();
  };
  bool reduces = false;
  for (size_t d = 0; d < from.sbp.size(); ++d) reduces |= from.sbp[d].is_partial() && !is_kept(d);
  for (const int e : kept)
    for (size_t d = 0; d < static_cast<size_t>(e); ++d) {
      const Sbp inside = at(from.sbp, e);
      if (is_kept(d)) continue;
      if (from.sbp[d].is_partial() && from.sbp[d] != inside) return false;
      if (reduces && to.sbp[d].is_partial() && to.sbp[d] != inside) return false;
    }
  return true;
}

// The cheapest of the ways that keep partials of several reductions apart; `best` if none is cheaper.
std::vector<Step> plan_apart(const Layout& from, const Layout& to, Aim aim, int middles,
                             std::vector<Step> best) {
  if (from.placement != to.placement) return best;
  std::vector<int> common;
  for (size_t d = 0; d < from.sbp.size(); ++d)
    if (from.sbp[d].is_partial() && from.sbp[d] == to.sbp[d]) common.push_back(static_cast<int>(d));
  for (uint32_t bits = 1; bits < 1u << common.size(); ++bits) {
    std::vector<int> kept;
    for (size_t k = 0; k < common.size(); ++k)
      if (bits >> k & 1) kept.push_back(common[k]);
    if (kept.size() == from.sbp.size() || !may_keep(from, to, kept)) continue;
    auto steps = Apart(from, to, kept).plan(aim, middles);
    if (total(steps) >= total(best)) continue;
    if (!steps.empty()) steps.back().result = to;
    best = std::move(steps);
  }
  return best;
}

// A layout with only some of its partials, all of one reduction: the others are copied, or split along an
// axis.
std::vector<Layout> of_one_reduction(const Layout& layout) {
  std::vector<Sbp> instead{Sbp::B()};
  for (int axis = 0; axis < static_cast<int>(layout.shape.size()); ++axis)
    for (const int inner : {0, max_axis}) instead.push_back(Sbp::S(axis, inner));
  std::vector<Layout> result;
  for (const Reduction reduction : reductions_of(layout))
    for (const Sbp entry : instead) {
      Layout less = layout;
      for (Sbp& sbp : less.sbp)
        if (sbp.is_partial() && sbp.reduction != reduction) sbp = entry;
      less.sbp = canonical(less.sbp);
      result.push_back(std::move(less));
    }
  return result;
}

// The cheapest way over an intermediate layout with partials of only one kind, which can be moved unreduced.
// The others are reduced before it, or made after it. `best` if none is cheaper.
std::vector<Step> plan_over(const Layout& from, const Layout& to, Aim aim, int middles,
                            std::vector<Step> best) {
  const auto is = [](const Layout& a, const Layout& b) {
    return a.placement == b.placement && a.sbp == b.sbp;
  };
  for (const Layout* end : {&from, &to})
    for (const Layout& middle : of_one_reduction(*end)) {
      if (is(middle, from) || is(middle, to)) continue;
      auto steps = plan(from, middle, aim, middles - 1);
      if (total(steps) >= total(best)) continue;
      for (Step& step : plan(middle, to, aim, middles - 1)) steps.push_back(std::move(step));
      if (total(steps) < total(best)) best = std::move(steps);
    }
  return best;
}

// Partials go to all devices that need them, or those of an element meet at one of these devices. Or they are
// reduced on their own mesh and then moved, which is as cheap unless the root could be a device that needs
// the result.
std::vector<Step> plan_transfers(const Layout& from, const Layout& to) {
  std::vector<Step> direct = transfer(from, to);
  if (direct.size() == 1) return direct;
  const MeshRoute scatter = scatter_route(from.shape, from.placement.mesh, from.sbp);
  const Layout scattered{from.shape, scatter.steps.back().result, from.placement};
  if (scatter.elements_moved + transfer_elements(scattered, to) > total(direct)) return direct;
  std::vector<Step> steps;
  for (const MeshStep& step : scatter.steps) steps.push_back(expand(step, from.shape, from.placement));
  for (Step& step : transfer(scattered, to)) steps.push_back(std::move(step));
  return steps;
}

std::vector<Step> plan(const Layout& from, const Layout& to, Aim aim, int middles) {
  if (from.placement == to.placement && from.sbp == to.sbp) return {};
  const auto same = common(from, to);
  if (same) {
    const auto route = mesh_route(from.shape, same->placement.mesh, same->from, same->to, aim);
    if (route) return expand(*route, *same, from, to);
  }
  if (auto step = rooted(from, to)) return {std::move(*step)};
  if (auto step = counterparts(from, to)) return {std::move(*step)};
  auto steps = plan_transfers(from, to);
  if (reductions_of(from).size() <= 1 && reductions_of(to).size() <= 1) return steps;
  steps = plan_apart(from, to, aim, middles, std::move(steps));
  return middles == 0 ? steps : plan_over(from, to, aim, middles, std::move(steps));
}

// Elements received so far, by device.
class Received {
 public:
  explicit Received(const std::vector<int>& devices) : devices_(devices), elements_(devices.size()) {}

  void add(int device, int64_t elements) { elements_[position(devices_, device)] += elements; }
  std::vector<int64_t> take() && { return std::move(elements_); }

  // The position of `device` in `ids`; found at once if they are consecutive.
  static size_t position(const std::vector<int>& ids, int device) {
    const auto guess = static_cast<size_t>(device - ids.front());
    if (guess < ids.size() && ids[guess] == device) return guess;
    return static_cast<size_t>(std::find(ids.begin(), ids.end(), device) - ids.begin());
  }

  void step(const Step& step, const Layout& before) {
    for (const Slice& slice : step.slices)
      if (slice.from != slice.to) add(slice.to, volume(slice.block));
    for (const auto& group : step.groups)
      if (step.collective == Collective::broadcast || step.collective == Collective::reduce)
        with_root(step, group);
      else
        among(step, before, group);
  }

 private:
  void with_root(const Step& step, const std::vector<int>& group) {
    if (step.collective == Collective::reduce) return add(group[0], step.elements_moved);
    const int64_t each = step.elements_moved / (static_cast<int64_t>(group.size()) - 1);
    for (size_t k = 1; k < group.size(); ++k) add(group[k], each);
  }

  void among(const Step& step, const Layout& before, const std::vector<int>& group) {
    const auto size = static_cast<int64_t>(group.size());
    for (int64_t k = 0; k < size; ++k) {
      const int device = at(group, k);
      const auto after = block(step.result, device);
      const int64_t held = volume(after);
      if (step.collective == Collective::all_reduce) {
        add(device, (size - 2) * part_range(held, size, k).size() + held);
      } else if (step.collective == Collective::reduce_scatter) {
        add(device, (size - 1) * held);
      } else {
        add(device, held - overlap(after, block(before, device)));
      }
    }
  }

  static std::vector<Range> block(const Layout& layout, int device) {
    const auto index = static_cast<int64_t>(position(layout.placement.devices, device));
    return local_ranges(layout.shape, layout.sbp, layout.placement.mesh, index);
  }

  const std::vector<int>& devices_;
  std::vector<int64_t> elements_;
};

}  // namespace

std::string to_text(const Layout& layout) {
  return fmt::format("{} on {}", to_text(layout.sbp), to_text(layout.placement));
}

void check_layout(const Layout& layout) {
  check_placement(layout.placement);
  check_layout(layout.shape, layout.sbp, layout.placement.mesh);
}

Route box(const Layout& from, const Layout& to, Aim aim) {
  check_layout(from);
  check_layout(to);
  if (from.shape != to.shape) throw Error::fault("boxing", "the shapes differ");
  Route route;
  constexpr int middles = 2;  // one next to each end
  route.steps = plan(from, to, aim, middles);
  route.elements_moved = total(route.steps);
  route.devices = joined(from.placement.devices, to.placement.devices);
  Received received(route.devices);
  const Layout* before = &from;
  for (const Step& step : route.steps) {
    received.step(step, *before);
    before = &step.result;
  }
  route.received = std::move(received).take();
  return route;
}

int64_t table2(Sbp from, Sbp to, int64_t elements, int from_devices, int to_devices, bool same_devices) {
  const int64_t t = elements, p1 = from_devices, p2 = to_devices;
  using Kind = Sbp::Kind;
  if (same_devices) {
    if (from.is_split() && to.is_split()) return from.axis == to.axis ? 0 : (p1 - 1) * t / p1;  // all_to_all
    if (from.kind == Kind::split && to.kind == Kind::broadcast) return (p1 - 1) * t;            // all_gather
    if (from.kind == Kind::partial && to.kind == Kind::split) return (p1 - 1) * t;          // reduce_scatter
    if (from.kind == Kind::partial && to.kind == Kind::broadcast) return 2 * (p1 - 1) * t;  // all_reduce
    return 0;
  }
  if (from.is_partial()) return to.is_broadcast() ? (p1 + p2 - 1) * t : p1 * t;
  return to.is_broadcast() ? p2 * t : t;
}

}  // namespace boxcar::sbp
