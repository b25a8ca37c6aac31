#include "sbp/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::sbp {
namespace {

using Block = std::vector<Range>;

Block whole(const Shape& shape) {
  Block block;
  for (const int64_t extent : shape) block.push_back({0, extent});
  return block;
}

Block intersection(const Block& a, const Block& b) {
  Block block(a.size());
  for (size_t axis = 0; axis < a.size(); ++axis)
    block[axis] = {std::max(a[axis].begin, b[axis].begin), std::min(a[axis].end, b[axis].end)};
  return block;
}

// Calls visit(offset in a, offset in b) for every element of `block`, which lies in both.
template <typename Visit>
void each(const Block& block, const Block& a, const Block& b, Visit visit) {
  if (volume(block) == 0) return;
  std::vector<int64_t> at;
  for (const Range range : block) at.push_back(range.begin);
  const auto offset = [&](const Block& in) {
    int64_t result = 0;
    for (size_t axis = 0; axis < at.size(); ++axis)
      result = result * in[axis].size() + at[axis] - in[axis].begin;
    return static_cast<size_t>(result);
  };
  while (true) {
    visit(offset(a), offset(b));
    size_t axis = at.size();
    while (axis > 0 && ++at[axis - 1] == block[axis - 1].end) {
      at[axis - 1] = block[axis - 1].begin;
      --axis;
    }
    if (axis == 0) return;
  }
}

// A walk over mesh dimensions, partial ones last and the outermost first, that keeps track of its index.
struct MeshOrder {
  const Layout& layout;
  std::vector<size_t> dims;      // in the order of the walk
  std::vector<int64_t> strides;  // by dimension

  explicit MeshOrder(const Layout& l) : layout(l), strides(l.sbp.size(), 1) {
    for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * l.placement.mesh[d];
    for (const bool partial : {false, true})
      for (size_t d = 0; d < strides.size(); ++d)
        if (l.sbp[d].is_partial() == partial) dims.push_back(d);
  }
  bool leaf(size_t step) const { return step == dims.size(); }
  Sbp sbp(size_t step) const { return layout.sbp[dims[step]]; }
  int64_t extent(size_t step) const { return layout.placement.mesh[dims[step]]; }
  int64_t next(size_t step, int64_t index, int64_t k) const { return index + k * strides[dims[step]]; }
  int device(int64_t index) const { return at(layout.placement.devices, index); }
};

Block block_of(const Layout& layout, int64_t index) {
  return local_ranges(layout.shape, layout.sbp, layout.placement.mesh, index);
}

uint64_t mix(uint64_t a, uint64_t b) {  // splitmix64
  uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The tensor of member k of `parts`; all of them together reduce to `values`.
std::vector<double> partial(const std::vector<double>& values, Reduction reduction, int64_t parts, int64_t k,
                            uint64_t seed) {
  const auto draw = [&](size_t x, int64_t member) {
    return static_cast<double>(mix(mix(seed, x), static_cast<uint64_t>(member)) % 9);
  };
  std::vector<double> result(values.size());
  for (size_t x = 0; x < values.size(); ++x) {
    const auto owner = static_cast<int64_t>(mix(seed, x) % static_cast<uint64_t>(parts));
    if (reduction != Reduction::sum) {
      const double less = k == owner ? 0 : 1 + draw(x, k);
      result[x] = values[x] + (reduction == Reduction::max ? -less : less);
    } else if (k != owner) {
      result[x] = draw(x, k) - 4;
    } else {
      result[x] = values[x];
      for (int64_t other = 0; other < parts; ++other)
        if (other != owner) result[x] -= draw(x, other) - 4;
    }
  }
  return result;
}

void lay(const MeshOrder& walk, size_t d, int64_t index, const std::vector<double>& values, uint64_t seed,
         Held& held) {
  if (walk.leaf(d)) {
    Piece piece{block_of(walk.layout, index), {}};
    const Block all = whole(walk.layout.shape);
    each(piece.at, all, piece.at, [&](size_t from, size_t) { piece.values.push_back(values[from]); });
    held[walk.device(index)].push_back(std::move(piece));
    return;
  }
  const Sbp sbp = walk.sbp(d);
  const int64_t extent = walk.extent(d);
  for (int64_t k = 0; k < extent; ++k) {
    const int64_t next = walk.next(d, index, k);
    if (sbp.is_partial())
      lay(walk, d + 1, next, partial(values, sbp.reduction, extent, k, seed),
          mix(seed, static_cast<uint64_t>(k)), held);
    else
      lay(walk, d + 1, next, values, mix(seed, static_cast<uint64_t>(k)), held);
  }
}

// Missing elements are NaN until the outermost split has joined all parts.
std::vector<double> collect(const MeshOrder& walk, size_t d, int64_t index, const Held& held) {
  if (walk.leaf(d)) {
    std::vector<double> values(static_cast<size_t>(volume(whole(walk.layout.shape))), std::nan(""));
    const int device = walk.device(index);
    const auto pieces = held.find(device);
    if (pieces == held.end() || pieces->second.size() != 1 ||
        pieces->second[0].at != block_of(walk.layout, index))
      throw Error::fault("assemble", fmt::format("device {} does not hold its part", device));
    const Piece& piece = pieces->second[0];
    each(piece.at, whole(walk.layout.shape), piece.at,
         [&](size_t to, size_t from) { values[to] = piece.values[from]; });
    return values;
  }
  const Sbp sbp = walk.sbp(d);
  auto result = collect(walk, d + 1, index, held);
  for (int64_t k = 1; k < walk.extent(d); ++k) {
    const auto more = collect(walk, d + 1, walk.next(d, index, k), held);
    for (size_t x = 0; x < result.size(); ++x) {
      if (sbp.is_partial()) {
        result[x] = combine(sbp.reduction, result[x], more[x]);
      } else if (sbp.is_split()) {
        if (std::isnan(result[x])) result[x] = more[x];
      } else if (result[x] != more[x] && !(std::isnan(result[x]) && std::isnan(more[x]))) {
        throw Error::fault("assemble", fmt::format("copies differ: {} and {}", result[x], more[x]));
      }
    }
  }
  return result;
}

// One device's new piece while it is being filled.
struct Target {
  Piece piece;
  std::vector<int> written;  // how often

  Target(Block at, double value) : piece{std::move(at), {}}, written(static_cast<size_t>(volume(piece.at))) {
    piece.values.assign(written.size(), value);
  }
  void fill(const Block& block, double value) {
    each(block, piece.at, piece.at, [&](size_t a, size_t) { piece.values[a] = value; });
  }
  void copy(const Piece& from, const Block& block) {
    each(block, from.at, piece.at, [&](size_t a, size_t b) {
      if (written[b]++ == 0) piece.values[b] = from.values[a];
    });
  }
  void add(const Piece& from, const Block& block, Reduction reduction) {
    each(block, from.at, piece.at, [&](size_t a, size_t b) {
      ++written[b];
      piece.values[b] = combine(reduction, piece.values[b], from.values[a]);
    });
  }
  void expect(int at_least, int device) const {
    for (const int count : written)
      if (count < at_least)
        throw Error::fault("boxing step", fmt::format("device {} lacks elements", device));
  }
};

int64_t index_of(const Layout& layout, int device) {
  const auto& ids = layout.placement.devices;
  return std::find(ids.begin(), ids.end(), device) - ids.begin();
}

int64_t coordinate(const Shape& mesh, size_t dim, int64_t index) {
  for (size_t d = mesh.size(); --d > dim;) index /= mesh[d];
  return index % mesh[dim];
}

// Applies slices, fills and new names on each device separately.
Held apply_local(const Step& step, const Layout& before, const Held& held) {
  std::map<int, Target> targets;
  for (const int device : step.result.placement.devices)
    targets.emplace(device,
                    Target(block_of(step.result, index_of(step.result, device)), identity(step.reduction)));
  for (const Slice& slice : kept_slices(step, before))
    targets.at(slice.to).copy(held.at(slice.from).at(0), slice.block);
  const bool fills = begins_with_identity(step, before);
  Held result;
  for (auto& [device, target] : targets) {
    if (!fills) target.expect(1, device);
    result[device].push_back(std::move(target.piece));
  }
  return result;
}

Held apply_group(const Step& step, const Held& held) {
  Held result;
  const bool reduces = step.collective == Collective::all_reduce ||
                       step.collective == Collective::reduce_scatter || step.collective == Collective::reduce;
  for (const auto& group : step.groups)
    for (const int device : step.collective == Collective::reduce ? std::vector<int>{group[0]} : group) {
      if (step.collective == Collective::broadcast &&
          index_of(step.result, device) == static_cast<int64_t>(step.result.placement.devices.size()))
        continue;  // a root outside the result
      Target target(block_of(step.result, index_of(step.result, device)), identity(step.reduction));
      for (const int member : group) {
        if (step.collective == Collective::broadcast && member != group[0]) continue;
        const Piece& from = held.at(member).at(0);
        const Block common = intersection(from.at, target.piece.at);
        if (reduces)
          target.add(from, common, step.reduction);
        else
          target.copy(from, common);
      }
      target.expect(reduces ? static_cast<int>(group.size()) : 1, device);
      result[device].push_back(std::move(target.piece));
    }
  return result;
}

const Piece& piece_with(const Held& held, int device, const Block& block) {
  const auto pieces = held.find(device);
  if (pieces != held.end())
    for (const Piece& piece : pieces->second)
      if (intersection(piece.at, block) == block) return piece;
  throw Error::fault("boxing step", fmt::format("device {} does not have what it sends", device));
}

Held apply_transfer(const Step& step, const Held& held) {
  std::map<int, std::vector<Target>> targets;
  const bool whole_parts = !step.result.sbp.empty();
  for (const int device : step.result.placement.devices) {
    auto& list = targets[device];
    if (whole_parts)
      list.emplace_back(block_of(step.result, index_of(step.result, device)), identity(step.reduction));
  }
  for (const Fill& fill : step.fills)
    targets.at(fill.device).front().fill(fill.block, identity(fill.reduction));
  for (const Slice& slice : step.slices) {
    auto& list = targets.at(slice.to);
    auto target = std::find_if(list.begin(), list.end(),
                               [&](const Target& t) { return whole_parts || t.piece.at == slice.block; });
    if (target == list.end()) target = list.emplace(list.end(), slice.block, identity(step.reduction));
    const Piece& from = piece_with(held, slice.from, slice.block);
    if (slice.add)
      target->add(from, slice.block, step.reduction);
    else
      target->copy(from, slice.block);
  }
  const bool fills =
      std::any_of(step.result.sbp.begin(), step.result.sbp.end(), [](Sbp sbp) { return sbp.is_partial(); });
  Held result;
  for (auto& [device, list] : targets)
    for (Target& target : list) {
      if (!fills) target.expect(1, device);
      result[device].push_back(std::move(target.piece));
    }
  return result;
}

}  // namespace

double identity(Reduction reduction) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return reduction == Reduction::sum ? 0 : reduction == Reduction::max ? -infinity : infinity;
}

double combine(Reduction reduction, double a, double b) {
  return reduction == Reduction::sum ? a + b : reduction == Reduction::max ? std::max(a, b) : std::min(a, b);
}

std::vector<Slice> kept_slices(const Step& step, const Layout& before) {
  const Layout& after = step.result;
  std::vector<Slice> slices;
  for (const int device : after.placement.devices) {
    const int64_t index = index_of(after, device);
    bool keeps = true;
    for (size_t d = 0; d < after.sbp.size() && before.placement.mesh == after.placement.mesh; ++d)
      if (after.sbp[d].is_partial() && before.sbp[d].is_broadcast() &&
          coordinate(after.placement.mesh, d, index) != 0)
        keeps = false;
    Block block = intersection(block_of(before, index_of(before, device)), block_of(after, index));
    if (keeps && volume(block) > 0) slices.push_back({device, device, std::move(block)});
  }
  return slices;
}

bool begins_with_identity(const Step& step, const Layout& before) {
  const NdSbp& after = step.result.sbp;
  const auto is_partial = [](Sbp sbp) { return sbp.is_partial(); };
  if (step.collective == Collective::transfer)
    return std::any_of(after.begin(), after.end(), is_partial) ||
           std::any_of(step.slices.begin(), step.slices.end(), [](const Slice& slice) { return slice.add; });
  if (step.collective != Collective::none || before.placement.mesh != step.result.placement.mesh)
    return false;
  for (size_t d = 0; d < after.size(); ++d)
    if (after[d].is_partial() && !before.sbp[d].is_partial()) return true;
  return false;
}

Held lay_out(const std::vector<double>& global, const Layout& layout, uint64_t seed) {
  Held held;
  lay(MeshOrder(layout), 0, 0, global, seed, held);
  return held;
}

std::vector<double> assemble(const Layout& layout, const Held& held) {
  return collect(MeshOrder(layout), 0, 0, held);
}

Held apply(const Step& step, const Layout& before, const Held& held) {
  if (step.collective == Collective::none) return apply_local(step, before, held);
  if (step.collective == Collective::transfer) return apply_transfer(step, held);
  return apply_group(step, held);
}

Held apply(const Route& route, const Layout& from, Held held) {
  const Layout* before = &from;
  for (const Step& step : route.steps) {
    held = apply(step, *before, held);
    before = &step.result;
  }
  return held;
}

}  // namespace boxcar::sbp
