#include "sbp/sbp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "sbp/at.h"
#include "sbp/text.h"

namespace boxcar::sbp {
namespace {

constexpr std::array<std::string_view, 3> reduction_names = {"sum", "max", "min"};

NdSbp read_nd_sbp(Cursor& in) {
  if (!in.take("(")) return {read_sbp(in)};
  NdSbp layout;
  do layout.push_back(read_sbp(in));
  while (in.take(","));
  if (!in.take(")")) in.fail("expected \",\" or \")\"");
  return layout;
}

int64_t product(const Shape& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int> read_devices(Cursor& in) {
  std::vector<int> devices;
  do {
    const int64_t first = in.number(max_device, "a device");
    const int64_t last = in.take("-") ? in.number(max_device, "a device") : first;
    if (last < first) in.fail(fmt::format("{}-{} runs backwards; write {}-{}", first, last, last, first));
    // Duplicates are refused later, but a list of long ranges would take too long.
    if (static_cast<int64_t>(devices.size()) + last - first > max_device)
      in.fail(fmt::format("more than {} devices", max_device + 1));
    for (int64_t id = first; id <= last; ++id) devices.push_back(static_cast<int>(id));
  } while (in.take(","));
  return devices;
}

}  // namespace

Sbp read_sbp(Cursor& in) {
  if (in.take("B")) return Sbp::B();
  if (in.take("P")) {
    if (!in.take("(")) return Sbp::P();
    for (size_t i = 0; i < reduction_names.size(); ++i) {
      if (!in.take(reduction_names[i])) continue;
      if (!in.take(")")) in.fail("expected \")\"");
      return Sbp::P(static_cast<Reduction>(i));
    }
    in.fail("expected sum, max or min");
  }
  if (!in.take("S")) in.fail("expected S(axis), B or P(sum, max or min)");
  if (!in.take("(")) in.fail("expected \"(\" and an axis, as in S(0),");
  const auto axis = static_cast<int>(in.number(max_axis, "an axis"));
  int inner = 0;
  if (in.take(",")) {
    if (!in.take("inner")) in.fail("expected \"inner\"");
    inner = in.rest().starts_with(")") ? 1 : static_cast<int>(in.number(max_axis, "a depth"));
  }
  if (!in.take(")")) in.fail("expected \")\"");
  return Sbp::S(axis, inner);
}

std::string to_text(Reduction reduction) { return std::string(at(reduction_names, reduction)); }

std::string to_text(Sbp sbp) {
  if (sbp.is_broadcast()) return "B";
  if (sbp.is_partial()) return fmt::format("P({})", to_text(sbp.reduction));
  if (sbp.inner == 0) return fmt::format("S({})", sbp.axis);
  if (sbp.inner == 1) return fmt::format("S({},inner)", sbp.axis);
  return fmt::format("S({},inner{})", sbp.axis, sbp.inner);
}

std::string to_text(const NdSbp& layout) {
  if (layout.size() == 1) return to_text(layout[0]);
  std::vector<std::string> parts;
  for (const Sbp sbp : layout) parts.push_back(to_text(sbp));
  return fmt::format("({})", fmt::join(parts, ", "));
}

Sbp parse_sbp(std::string_view text) {
  Cursor in(text, "layout");
  const Sbp result = read_sbp(in);
  if (!in.done()) in.fail("expected nothing more");
  return result;
}

NdSbp parse_nd_sbp(std::string_view text) {
  Cursor in(text, "layout");
  const NdSbp result = read_nd_sbp(in);
  if (!in.done()) in.fail("expected nothing more");
  return result;
}

NdSbp canonical(NdSbp layout) {
  for (const auto& order : split_order(layout)) {
    int8_t inner = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      if (k > 0 && order[k] < order[k - 1]) ++inner;
      layout[order[k]].inner = inner;
    }
  }
  return layout;
}

std::vector<std::vector<size_t>> split_order(const NdSbp& layout) {
  std::vector<std::vector<size_t>> order;
  for (size_t d = 0; d < layout.size(); ++d) {
    if (!layout[d].is_split()) continue;
    const auto axis = static_cast<size_t>(layout[d].axis);
    if (order.size() <= axis) order.resize(axis + 1);
    order[axis].push_back(d);
  }
  for (auto& dims : order)
    std::stable_sort(dims.begin(), dims.end(),
                     [&](size_t a, size_t b) { return layout[a].inner < layout[b].inner; });
  return order;
}

void check_layout(const Shape& shape, const NdSbp& layout, const Shape& mesh) {
  if (layout.size() != mesh.size())
    throw Error::input(
        fmt::format("layout \"{}\"", to_text(layout)),
        fmt::format("has {} {}, but mesh {} has {}", layout.size(), layout.size() == 1 ? "entry" : "entries",
                    fmt::join(mesh, "x"), mesh.size()));
  for (const Sbp sbp : layout) {
    if (!sbp.is_split() || static_cast<size_t>(sbp.axis) < shape.size()) continue;
    throw Error::input(fmt::format("layout \"{}\"", to_text(layout)),
                       fmt::format("splits axis {}, but shape [{}] has {} (from 0)", sbp.axis,
                                   fmt::join(shape, ", "), shape.size()));
  }
}

Placement Placement::line(int count, int first) { return grid({count}, first); }

Placement Placement::grid(Shape mesh, int first) {
  Placement result{std::move(mesh), {}};
  result.devices.resize(static_cast<size_t>(product(result.mesh)));
  std::iota(result.devices.begin(), result.devices.end(), first);
  return result;
}

std::string to_text(const Placement& placement) {
  std::vector<std::string> runs;
  const auto& ids = placement.devices;
  for (size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    for (end = begin + 1; end < ids.size() && ids[end] == ids[end - 1] + 1;) ++end;
    runs.push_back(end == begin + 1 ? fmt::format("{}", ids[begin])
                                    : fmt::format("{}-{}", ids[begin], ids[end - 1]));
  }
  const std::string devices = fmt::format("{}", fmt::join(runs, ","));
  return placement.mesh.size() == 1 ? devices : fmt::format("{}:{}", devices, fmt::join(placement.mesh, "x"));
}

Shape parse_mesh(std::string_view text) {
  Cursor in(text, "mesh");
  Shape mesh;
  do {
    mesh.push_back(in.number(max_device, "an extent"));
    if (mesh.back() == 0) in.fail("an extent is 0, expected at least 1");
  } while (in.take("x"));
  if (!in.done()) in.fail("expected \"x\" and an extent");
  return mesh;
}

Placement parse_placement(std::string_view text) {
  const size_t colon = text.find(':');
  Cursor in(text.substr(0, colon), "devices");
  Placement result;
  result.devices = read_devices(in);
  if (!in.done()) in.fail("expected \",\", \"-\" or \":\"");
  const auto count = static_cast<int64_t>(result.devices.size());
  result.mesh = colon == text.npos ? Shape{count} : parse_mesh(text.substr(colon + 1));
  check_placement(result);
  return result;
}

void check_placement(const Placement& placement) {
  const auto where = [&] { return fmt::format("devices \"{}\"", to_text(placement)); };
  const std::vector<int>& ids = placement.devices;
  std::vector<std::pair<int, int>> runs;  // few even for many devices
  for (const int id : ids) {
    if (!runs.empty() && id == runs.back().second + 1)
      runs.back().second = id;
    else
      runs.emplace_back(id, id);
  }
  std::sort(runs.begin(), runs.end());
  int last = -1;
  for (const auto& run : runs) {
    if (run.first <= last) throw Error::input(where(), fmt::format("device {} is there twice", run.first));
    last = run.second;
  }
  int64_t size = 1;
  for (const int64_t extent : placement.mesh)
    size = std::min<int64_t>(size * extent, int64_t{max_device} + 1);
  if (!placement.mesh.empty() && size == static_cast<int64_t>(ids.size())) return;
  throw Error::input(where(), fmt::format("mesh {} has {}{} places, but there {} {} device{}",
                                          fmt::join(placement.mesh, "x"), size > max_device ? "over " : "",
                                          std::min<int64_t>(size, max_device), ids.size() == 1 ? "is" : "are",
                                          ids.size(), ids.size() == 1 ? "" : "s"));
}

Range part_range(int64_t extent, int64_t parts, int64_t index) {
  const int64_t size = extent / parts, more = extent % parts;
  const int64_t begin = index * size + std::min(index, more);
  return {begin, begin + size + (index < more ? 1 : 0)};
}

int64_t volume(const std::vector<Range>& ranges) {
  int64_t product = 1;
  for (const Range range : ranges) product *= std::max<int64_t>(0, range.size());
  return product;
}

std::vector<Range> local_ranges(const Shape& shape, const NdSbp& layout, const Shape& mesh, int64_t index) {
  std::vector<Range> ranges(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) ranges[axis] = {0, shape[axis]};
  const auto split = [&](size_t dim, int64_t coordinate) {
    Range& range = at(ranges, layout[dim].axis);
    const Range part = part_range(range.size(), mesh[dim], coordinate);
    range = {range.begin + part.begin, range.begin + part.end};
  };
  int deepest = 0;
  for (const Sbp sbp : layout) deepest = std::max<int>(deepest, sbp.inner);
  for (int depth = 0; depth <= deepest; ++depth) {
    int64_t below = product(mesh);
    for (size_t dim = 0; dim < mesh.size(); ++dim) {
      below /= mesh[dim];
      if (layout[dim].is_split() && layout[dim].inner == depth) split(dim, index / below % mesh[dim]);
    }
  }
  return ranges;
}

Shape local_shape(const Shape& shape, const NdSbp& layout, const Shape& mesh, int64_t index) {
  Shape result;
  for (const Range range : local_ranges(shape, layout, mesh, index)) result.push_back(range.size());
  return result;
}

}  // namespace boxcar::sbp
