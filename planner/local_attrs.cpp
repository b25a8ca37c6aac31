#include "planner/local_attrs.h"

#include <algorithm>

#include "ir/op.h"
#include "ir/rank_attrs.h"
#include "planner/key_writer.h"
#include "sbp/at.h"

namespace boxcar::planner {

namespace {

std::vector<int64_t> coordinate_of(const Mesh& mesh, int64_t place) {
  std::vector<int64_t> result(mesh.dims());
  for (size_t d = mesh.dims(); d-- > 0; place /= mesh.extents[d]) result[d] = place % mesh.extents[d];
  return result;
}

// The attributes at one place.
ir::Attrs attrs_at(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh,
                   int64_t place) {
  const ir::OpDef& def = ir::op(op.type);
  ir::Attrs attrs = op.attrs;
  const std::vector<int64_t> coordinate = coordinate_of(mesh, place);
  ir::Types types;
  for (ir::TensorId t : op.inputs) types.push_back(graph.tensor(t).type);
  for (const size_t d : split_order(layout)) {
    const sbp::Signature& signature = layout.signatures[d];
    attrs = ir::localize(def, types, attrs, signature, mesh.extents[d], coordinate[d]);
    take_part(types, signature.inputs, mesh.extents[d], coordinate[d]);
  }
  return attrs;
}

// Whether all parts of each operand have the same size, on a mesh of which only one dimension has several
// devices. Then attributes grow by the same step from device to device.
bool splits_evenly(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh) {
  if (std::count_if(mesh.extents.begin(), mesh.extents.end(), [](int64_t e) { return e > 1; }) != 1)
    return false;
  const auto even = [&](const std::vector<ir::TensorId>& tensors, const std::vector<sbp::NdSbp>& layouts) {
    for (size_t i = 0; i < tensors.size(); ++i)
      for (size_t d = 0; d < mesh.dims(); ++d)
        if (layouts[i][d].is_split() &&
            at(graph.tensor(tensors[i]).type.shape, layouts[i][d].axis) % mesh.extents[d] != 0)
          return false;
    return true;
  };
  return even(op.inputs, layout.inputs) && even(op.outputs, layout.outputs);
}

void add_differences(ir::Attrs& attrs, const std::string& dim, const std::vector<ir::Attrs>& all) {
  for (const auto& [name, value] : all[0]) ir::add_difference(attrs, name, dim, all);
}

// Whether the class's attributes give `own` for its k-th place.
bool says(const ir::Attrs& attrs, const Mesh& mesh, const std::vector<int>& places, size_t k,
          const ir::Attrs& own) {
  const std::vector<int64_t> coordinate = coordinate_of(mesh, places[k]);
  return ir::rank_attrs(attrs, [&](const std::string& dim) -> ir::Coordinates {
           return {dim == "rank" ? static_cast<int64_t>(k) : at(coordinate, mesh.dim_named(dim)), 0};
         }) == own;
}

std::string key_of(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout) {
  KeyWriter key;
  key.text(op.type);
  key.attrs(op.attrs);
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const ir::TensorId t : *operands) key.type(graph.tensor(t).type);
  for (const auto* operands : {&layout.inputs, &layout.outputs})
    for (const sbp::NdSbp& operand : *operands) key.layout(operand);
  for (const sbp::Signature& signature : layout.signatures)
    key.layout(signature.inputs), key.layout(signature.outputs);
  return key.take();
}

// Whether a fused op's program says which dropout it has.
bool has_numbered_dropout(const ir::Op& op) {
  const auto program = op.attrs.find("program");
  return program != op.attrs.end() &&
         std::get<std::string>(program->second).find("{op=") != std::string::npos;
}

bool evenly_spaced(const std::vector<int>& places) {
  for (size_t k = 2; k < places.size(); ++k)
    if (places[k] - places[k - 1] != places[1] - places[0]) return false;
  return true;
}

}  // namespace

ir::Attrs class_attrs(const Mesh& mesh, const std::vector<int>& places,
                      const std::function<ir::Attrs(int64_t place)>& at, bool even) {
  const ir::Attrs first = at(places[0]);
  if (places.size() == 1) return first;
  const bool all = places.size() == static_cast<size_t>(mesh.devices());
  ir::Attrs attrs = first;
  if (all) {  // usually parts are even, and two of them give the step
    int64_t stride = mesh.devices();
    for (size_t d = 0; d < mesh.dims(); ++d) {
      stride /= mesh.extents[d];
      if (mesh.extents[d] > 1) add_differences(attrs, mesh.names[d], {first, at(stride)});
    }
  } else if (even && evenly_spaced(places)) {
    add_differences(attrs, "rank", {first, at(places[1])});
  }
  if ((all || even) && says(attrs, mesh, places, places.size() - 1, at(places.back()))) return attrs;
  std::vector<ir::Attrs> every;
  for (const int place : places) every.push_back(at(place));
  attrs = first;
  add_differences(attrs, "rank", every);
  return attrs;
}

ir::Attrs local_attrs(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh,
                      const std::vector<int>& places) {
  if (!ir::op(op.type).localize) return op.attrs;
  const auto at = [&](int64_t place) { return attrs_at(graph, op, layout, mesh, place); };
  return class_attrs(mesh, places, at, splits_evenly(graph, op, layout, mesh));
}

ir::Attrs LocalAttrs::of(const ir::Op& op, const OpLayout& layout) {
  if (!ir::op(op.type).localize) return op.attrs;
  if (has_numbered_dropout(op)) return local_attrs(graph_, op, layout, mesh_, places_);
  const auto [known, is_new] = known_.try_emplace(key_of(graph_, op, layout));
  if (is_new) known->second = local_attrs(graph_, op, layout, mesh_, places_);
  ir::Attrs attrs = known->second;
  if (const auto number = op.attrs.find("op"); number != op.attrs.end()) attrs["op"] = number->second;
  return attrs;
}

}  // namespace boxcar::planner
