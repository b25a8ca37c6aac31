// Element-wise ops: of two or three operands that broadcast as in NumPy, identity, cast, scale; ops of one
// operand are rows of pointwise_rows.h.
#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/ops.h"

namespace boxcar::ir {
namespace {

using sbp::IndexMap;
using Flags = void (*)(IndexMap& map);  // sets the operands in which the op is linear and monotone

Types same_as_first(const Types& in, const Attrs&) { return {in[0]}; }

// --- broadcasting

// The common shape of operands whose extents, aligned at the end, are equal or 1.
Shape broadcast_shape(const OpDef& def, const Types& in) {
  Shape shape;
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape& other = in[i].shape;
    if (other.size() > shape.size()) shape.insert(shape.begin(), other.size() - shape.size(), 1);
    for (size_t j = 0; j < other.size(); ++j) {
      int64_t& extent = shape[shape.size() - other.size() + j];
      if (other[j] == extent || other[j] == 1) continue;
      if (extent != 1)
        refuse(def.name, def.inputs[i], in[i], "extents that are equal or 1", def.inputs[0], in[0]);
      extent = other[j];
    }
  }
  return shape;
}

Shape broadcast_shape(const Types& in) {
  return broadcast_shape({.name = "broadcast", .inputs = {"a", "b", "c"}}, in);
}

// i0 i1, 1 i1 -> i0 i1
IndexMap broadcast_map(const Types& in) {
  Shape shape = broadcast_shape(in);
  Indices names = indices("i", shape.size());
  IndexMap map;
  for (const TensorType& type : in) {
    Indices own;
    size_t skipped = shape.size() - type.shape.size();
    for (size_t j = 0; j < type.shape.size(); ++j) {
      bool stretched = type.shape[j] == 1 && shape[skipped + j] != 1;
      own.push_back(stretched ? "1" : names[skipped + j]);
    }
    map.inputs.push_back(std::move(own));
  }
  map.outputs = {names};
  return map;
}

// Operands of one element type that broadcast.
std::function<Types(const Types&, const Attrs&)> infer_broadcast(std::string name,
                                                                 std::vector<std::string> operands) {
  OpDef def{.name = std::move(name), .inputs = std::move(operands)};
  return [def](const Types& in, const Attrs&) -> Types {
    for (size_t i = 1; i < in.size(); ++i) {
      if (in[i].dtype != in[0].dtype) {
        refuse(def.name, def.inputs[i], in[i], "the same element type", def.inputs[0], in[0]);
      }
    }
    return {{broadcast_shape(def, in), in[0].dtype}};
  };
}

std::vector<Sample> binary_samples(const Extent& n, Domain second) {
  int64_t a = n(), b = n();
  return {{.inputs = {f32({a, b}), f32({a, b})}, .domains = {{}, second}},
          {.inputs = {f32({a, b}), f32({b})}, .domains = {{}, second}},
          {.inputs = {f32({a, 1}), f32({1, b})}, .domains = {{}, second}},
          {.inputs = {f32({}), f32({a, b})}, .domains = {{}, second}}};
}

void add_binary(std::vector<OpDef>& out, const char* name, Flags flags, Domain second = {},
                double tolerance = 0) {
  out.push_back({.name = name,
                 .inputs = {"a", "b"},
                 .outputs = {"y"},
                 .infer = infer_broadcast(name, {"a", "b"}),
                 .index_map =
                     [flags](const Types& in, const Attrs&) {
                       IndexMap map = broadcast_map(in);
                       flags(map);
                       return map;
                     },
                 .work = per_element(1),
                 .tolerance = tolerance,
                 .samples = [second](const Extent& n) { return binary_samples(n, second); }});
}

void add_binary_ops(std::vector<OpDef>& out) {
  add_binary(out, "add", [](IndexMap& map) {
    map.linear = {{0, 1}};
    map.increasing = {0, 1};
  });
  add_binary(out, "sub", [](IndexMap& map) {
    map.linear = {{0, 1}};
    map.increasing = {0};
    map.decreasing = {1};
  });
  add_binary(out, "mul", [](IndexMap& map) { map.linear = {{0}, {1}}; });
  // Values end in .5, so that nothing is divided by zero.
  add_binary(
      out, "div", [](IndexMap& map) { map.linear = {{0}}; }, {-3.5, 3.5, 1}, 1e-12);
}

// --- identity, scale, cast, where

void linear_increasing(IndexMap& map) {
  map.linear = {{0}};
  map.increasing = {0};
}
void linear_decreasing(IndexMap& map) {
  map.linear = {{0}};
  map.decreasing = {0};
}

void add_identity(std::vector<OpDef>& out) {
  auto index_map = [](const Types& in, const Attrs&) {
    IndexMap map = pointwise_map(in);
    linear_increasing(map);
    return map;
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n(), c = n();
    return {{.inputs = {f32({a, b})}}, {.inputs = {f32({a, b, c})}}};
  };
  out.push_back({.name = "identity",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .infer = same_as_first,
                 .index_map = index_map,
                 .work = per_element(0),
                 .samples = samples});
}

void add_scale(std::vector<OpDef>& out) {
  auto index_map = [](const Types& in, const Attrs& attrs) {
    IndexMap map = pointwise_map(in);
    attr_float(attrs, "factor") < 0 ? linear_decreasing(map) : linear_increasing(map);
    return map;
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n();
    return {{.inputs = {f32({a, b})}, .attrs = {{"factor", 3.0}}},
            {.inputs = {f32({a, b})}, .attrs = {{"factor", -2.0}}}};
  };
  out.push_back({.name = "scale",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .attrs = {{"factor", 1.0}},
                 .infer = same_as_first,
                 .index_map = index_map,
                 .work = per_element(1),
                 .samples = samples});
}

Types infer_cast(const Types& in, const Attrs& attrs) {
  return {{in[0].shape, parse_dtype(attr_text(attrs, "to"))}};
}

// Between integers and floats a cast is linear, up to rounding; to integers it truncates, which is monotone;
// to boolean it tests elements for zero, which is neither.
IndexMap cast_map(const Types& in, const Attrs& attrs) {
  DType to = parse_dtype(attr_text(attrs, "to"));
  IndexMap map = pointwise_map(in);
  if (to == in[0].dtype || to != DType::boolean) map.increasing = {0};
  bool truncates = is_float(in[0].dtype) && !is_float(to);
  if (!truncates && in[0].dtype != DType::boolean && to != DType::boolean) map.linear = {{0}};
  return map;
}

std::vector<Sample> cast_samples(const Extent& n) {
  int64_t a = n(), b = n();
  return {{.inputs = {f32({a, b})}, .attrs = {{"to", "float16"}}},
          {.inputs = {f32({a, b})}, .attrs = {{"to", "int32"}}, .domains = {{-4, 4, 0.25}}},
          {.inputs = {i64({a, b})}, .attrs = {{"to", "float32"}}},
          {.inputs = {f32({a, b})}, .attrs = {{"to", "boolean"}}, .domains = {{-1, 1, 1}}},
          {.inputs = {{{a, b}, DType::boolean}}, .attrs = {{"to", "float32"}}, .domains = {{0, 1, 1}}}};
}

Types infer_where(const Types& in, const Attrs&) {
  static const OpDef def{.name = "where", .inputs = {"condition", "a", "b"}};
  if (in[0].dtype != DType::boolean) refuse("where", "condition", in[0], "element type boolean");
  if (in[2].dtype != in[1].dtype) refuse("where", "b", in[2], "the same element type", "a", in[1]);
  return {{broadcast_shape(def, in), in[1].dtype}};
}

IndexMap where_map(const Types& in, const Attrs&) {
  IndexMap map = broadcast_map(in);
  map.linear = {{1, 2}};
  map.increasing = {1, 2};
  return map;
}

std::vector<sbp::Signature> where_extra(const Types&, const Attrs&, int64_t) {
  using sbp::Sbp;
  auto max = Sbp::P(sbp::Reduction::max), min = Sbp::P(sbp::Reduction::min);
  return {{{Sbp::B(), max, max}, {max}}, {{Sbp::B(), min, min}, {min}}};
}

std::vector<Sample> where_samples(const Extent& n) {
  int64_t a = n(), b = n();
  Domain bit{0, 1, 1};
  return {{.inputs = {{{a, b}, DType::boolean}, f32({a, b}), f32({a, b})}, .domains = {bit}},
          {.inputs = {{{b}, DType::boolean}, f32({a, b}), f32({a, 1})}, .domains = {bit}}};
}

}  // namespace

void add_elementwise_ops(std::vector<OpDef>& out) {
  add_binary_ops(out);
  add_pointwise_ops(out);
  add_identity(out);
  add_scale(out);
  out.push_back({.name = "cast",
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .attrs = {{"to", "float32"}},
                 .infer = infer_cast,
                 .index_map = cast_map,
                 .samples = cast_samples});
  out.push_back(
      {.name = "where",
       .inputs = {"condition", "a", "b"},
       .outputs = {"y"},
       .infer = infer_where,
       .index_map = where_map,
       .extra = where_extra,
       .extra_reason = "each element comes from one of a and b, so both may be P(max), or both P(min)",
       .work = per_element(1),
       .samples = where_samples});
}

}  // namespace boxcar::ir
