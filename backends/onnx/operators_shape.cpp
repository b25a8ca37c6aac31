// Operators that move elements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/onnx/conversion.h"
#include "sbp/at.h"

namespace boxcar::backends::onnx {
namespace {

using Ints = std::vector<int64_t>;

// 0 stands for the operand's extent, -1 for what is left.
void reshape(Conversion& c) {
  const Value& x = c.in(0);
  ir::Shape shape = c.for_batch(c.known_shape(c.in(1)), x);
  double known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && c.whole("allowzero", 0) == 0) {
      if (i >= x.type.shape.size()) c.refuse("keeps an extent that its operand does not have");
      shape[i] = x.type.shape[i];
    }
    if (shape[i] != -1) known *= static_cast<double>(shape[i]);
  }
  const double left = known > 0 ? static_cast<double>(x.type.elements()) / known : 0;
  for (int64_t& extent : shape)
    if (extent == -1 && left == std::floor(left)) extent = static_cast<int64_t>(left);
  c.out(reshaped(c, x, shape));
}

void flatten(Conversion& c) {
  const Value& x = c.in(0);
  const int64_t given = c.whole("axis", 1), axis = given == rank(x) ? given : axis_of(c, given, rank(x));
  int64_t rows = 1, columns = 1;
  for (int64_t i = 0; i < rank(x); ++i) (i < axis ? rows : columns) *= at(x.type.shape, i);
  c.out(reshaped(c, x, {rows, columns}));
}

// Axes are an attribute before opset 13, an operand from then on.
Ints axes_of(const Conversion& c) {
  return c.has(1) ? c.known_wholes(c.in(1), "axes") : c.wholes("axes", {});
}

void squeeze(Conversion& c) {
  const Value& x = c.in(0);
  Ints axes = axes_of(c);
  for (int64_t& axis : axes) axis = axis_of(c, axis, rank(x));
  ir::Shape shape;
  for (int64_t i = 0; i < rank(x); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (named && at(x.type.shape, i) != 1) c.refuse(fmt::format("drops axis {} of {}", i, to_text(x.type)));
    if (!named && !(axes.empty() && at(x.type.shape, i) == 1)) shape.push_back(at(x.type.shape, i));
  }
  c.out(reshaped(c, x, shape));
}

void unsqueeze(Conversion& c) {
  const Value& x = c.in(0);
  Ints axes = axes_of(c);
  const int64_t all = rank(x) + static_cast<int64_t>(axes.size());
  for (int64_t& axis : axes) axis = axis_of(c, axis, all);
  ir::Shape shape = x.type.shape;
  std::sort(axes.begin(), axes.end());
  for (const int64_t axis : axes) {
    if (axis > static_cast<int64_t>(shape.size())) c.refuse("names an axis twice");
    shape.insert(shape.begin() + axis, 1);
  }
  c.out(reshaped(c, x, shape));
}

void transpose(Conversion& c) {
  const Value& x = c.in(0);
  Ints same(x.type.shape.size());
  std::iota(same.begin(), same.end(), int64_t{0});
  const Ints perm = c.wholes("perm", Ints(same.rbegin(), same.rend()));
  c.out(perm == same ? x : c.emit("transpose", {x}, {{"perm", perm}}));
}

void expand(Conversion& c) {
  const Value& x = c.in(0);
  ir::Shape shape = c.for_batch(c.known_shape(c.in(1)), x);
  if (shape.size() < x.type.shape.size()) shape.insert(shape.begin(), x.type.shape.size() - shape.size(), 1);
  for (size_t i = 0; i < x.type.shape.size(); ++i) {
    int64_t& extent = shape[shape.size() - x.type.shape.size() + i];
    if (extent == 1) extent = x.type.shape[i];
  }
  c.out(shape == x.type.shape ? x : c.emit("broadcast_to", {x}, {{"shape", shape}}));
}

void tile(Conversion& c) { c.out(repeated(c, c.in(0), c.known_wholes(c.in(1), "repeats"), Repeat::whole)); }

Value sliced(const Conversion& c, const Value& x, int64_t axis, int64_t begin, int64_t end,
             const char* what = "") {
  if (begin == 0 && end == at(x.type.shape, axis)) return x;
  Ints starts(x.type.shape.size(), 0), ends = x.type.shape;
  at(starts, axis) = begin;
  at(ends, axis) = end;
  return c.emit("slice", {x}, {{"starts", starts}, {"ends", ends}}, what);
}

int64_t clamped(int64_t place, int64_t extent) {
  if (place < 0) place = place < -extent ? 0 : place + extent;
  return std::min(place, extent);
}

// Every step-th element along an axis of values that are known before data, as ONNX's Slice counts: a
// negative step begins at the last element at most, and its `end` may lie before the first.
Value stepped(Conversion& c, const Value& x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  const int64_t extent = at(x.type.shape, axis);
  if (step == 0) c.refuse("has steps of 0");
  const bool trained = !x.weight.empty() && x.type.dtype == ir::DType::float32;
  if (!x.is_known() || trained) c.refuse(fmt::format("has steps of {}", step));
  step = std::clamp(step, -extent - 1, extent + 1);
  const auto place = [&](int64_t given, int64_t least, int64_t most) {
    return std::clamp(given < 0 && given >= -extent ? given + extent : given, least, most);
  };
  std::vector<double> rows;
  if (step > 0)
    for (int64_t i = place(start, 0, extent), last = place(end, 0, extent); i < last; i += step)
      rows.push_back(static_cast<double>(i));
  else
    for (int64_t i = place(start, 0, extent - 1), last = place(end, -1, extent - 1); i > last; i += step)
      rows.push_back(static_cast<double>(i));
  if (rows.empty()) c.refuse("picks no elements");
  HostTensor places{{{static_cast<int64_t>(rows.size())}, ir::DType::int64}, std::move(rows)};
  return c.emit("gather", {x, c.computed(std::move(places))}, {{"axis", axis}});
}

void slice(Conversion& c) {
  const bool operands = c.has(1);
  const auto list = [&](size_t i, const char* name, Ints absent) {
    return operands ? c.has(i) ? c.known_wholes(c.in(i), name) : absent : c.wholes(name, absent);
  };
  const Ints starts = list(1, "starts", {}), ends = list(2, "ends", {});
  Ints usual(starts.size());
  std::iota(usual.begin(), usual.end(), int64_t{0});
  const Ints axes = list(3, "axes", usual), steps = list(4, "steps", Ints(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.refuse("has lists of several lengths");
  Value x = c.in(0);
  ir::Shape begins(x.type.shape.size(), 0), stops = x.type.shape;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = axis_of(c, axes[i], rank(x)), extent = at(x.type.shape, axis);
    if (steps[i] != 1) {
      x = stepped(c, x, axis, starts[i], ends[i], steps[i]);
      at(stops, axis) = at(x.type.shape, axis);
      continue;
    }
    at(begins, axis) = clamped(starts[i], extent);
    at(stops, axis) = std::max(at(begins, axis), clamped(ends[i], extent));
  }
  c.out(stops == x.type.shape && std::all_of(begins.begin(), begins.end(), [](int64_t b) { return b == 0; })
            ? x
            : c.emit("slice", {x}, {{"starts", begins}, {"ends", stops}}));
}

void split(Conversion& c) {
  const Value& x = c.in(0);
  const int64_t axis = axis_of(c, c.whole("axis", 0), rank(x)), extent = at(x.type.shape, axis);
  const auto parts = static_cast<int64_t>(c.node().outputs.size());
  Ints sizes = c.has(1) ? c.known_wholes(c.in(1), "split") : c.wholes("split", {});
  if (sizes.empty()) {
    const int64_t each = (extent + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::min(each, extent - i * each));
  }
  int64_t begin = 0;
  for (size_t i = 0; i < c.node().outputs.size(); ++i) {
    if (i >= sizes.size() || sizes[i] < 0 || begin + sizes[i] > extent) c.refuse("has parts that do not fit");
    const std::string what = "part" + std::to_string(i);
    if (c.reads_out(i)) c.out(sliced(c, x, axis, begin, begin + sizes[i], what.c_str()), i);
    begin += sizes[i];
  }
}

void concat(Conversion& c) {
  std::vector<Value> parts;
  for (size_t i = 0; i < c.operands(); ++i) parts.push_back(c.in(i));
  if (parts.empty()) c.refuse("has no operands");
  c.out(parts.size() == 1
            ? parts[0]
            : c.emit("concat", parts, {{"axis", axis_of(c, c.whole("axis", 0), rank(parts[0]))}}));
}

// Rows that are known before data: a slice, or several, one behind the other.
Value picked(const Conversion& c, const Value& x, int64_t axis, const Ints& rows) {
  constexpr size_t most_slices = 64;
  std::vector<Value> slices;
  for (size_t i = 0; i < rows.size();) {
    size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    if (slices.size() == most_slices) c.refuse(fmt::format("picks more than {} runs of rows", most_slices));
    const std::string what = "rows" + std::to_string(slices.size());
    slices.push_back(sliced(c, x, axis, rows[i], rows[end - 1] + 1, what.c_str()));
    i = end;
  }
  if (slices.empty()) c.refuse("picks no rows");
  return slices.size() == 1 ? slices[0] : c.emit("concat", slices, {{"axis", axis}}, "rows");
}

// The shape of rows of this shape without repeats, which it removes from `rows`: a first axis along which all
// rows are the same becomes 1.
ir::Shape without_repeats(const ir::Shape& shape, Ints& rows) {
  ir::Shape once = shape;
  for (size_t i = 0; i < shape.size() && shape[i] > 0; ++i) {
    const size_t part = rows.size() / static_cast<size_t>(shape[i]);
    for (size_t j = part; j < rows.size(); ++j)
      if (rows[j] != rows[j - part]) return once;
    rows.resize(part);
    once[i] = 1;
  }
  return once;
}

void gather(Conversion& c) {
  const Value& x = c.in(0);
  const Value& indices = c.in(1);
  const int64_t axis = axis_of(c, c.whole("axis", 0), rank(x));
  if (indices.is_known()) {
    Ints rows = c.known_wholes(indices, "indices");
    const int64_t extent = at(x.type.shape, axis);
    for (int64_t& row : rows) {
      if (row < -extent || row >= extent) c.refuse(fmt::format("picks row {} of {}", row, extent));
      if (row < 0) row += extent;
    }
    if (x.is_known() && x.weight.empty()) {
      HostTensor counted{indices.type, {rows.begin(), rows.end()}};  // from the beginning
      return c.out(c.emit("gather", {x, c.computed(std::move(counted))}, {{"axis", axis}}));
    }
    const ir::Shape& all = indices.type.shape;
    const ir::Shape once = without_repeats(all, rows);
    const auto with_rows = [&](const ir::Shape& of_rows) {
      ir::Shape shape = x.type.shape;
      shape.erase(shape.begin() + axis);
      shape.insert(shape.begin() + axis, of_rows.begin(), of_rows.end());
      return shape;
    };
    Value y = reshaped(c, picked(c, x, axis, rows), with_rows(once), once == all ? "" : "row");
    return c.out(once == all ? y : c.emit("broadcast_to", {y}, {{"shape", with_rows(all)}}));
  }
  if (axis == 0 && x.type.shape.size() == 2) return c.out(c.emit("embedding", {x, indices}));
  c.out(c.emit("gather", {x, indices}, {{"axis", axis}}));
}

}  // namespace

void add_shape_converters(Converters& table) {
  const Converters rows = {
      {"Reshape", reshape},     {"Flatten", flatten}, {"Squeeze", squeeze}, {"Unsqueeze", unsqueeze},
      {"Transpose", transpose}, {"Expand", expand},   {"Slice", slice},     {"Split", split},
      {"Concat", concat},       {"Gather", gather},   {"Tile", tile}};
  table.insert(rows.begin(), rows.end());
}

}  // namespace boxcar::backends::onnx
