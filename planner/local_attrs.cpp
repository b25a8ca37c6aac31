#include "planner/local_attrs.h"

#include <algorithm>

#include "ir/op.h"
#include "ir/rank_attrs.h"

namespace boxcar::planner {

namespace {

// Mesh dimensions in the order in which they split: those that lie inside others after them.
std::vector<size_t> split_order(const OpLayout& layout, size_t dims) {
  std::vector<int8_t> inner(dims);
  for (const auto* operands : {&layout.inputs, &layout.outputs})
    for (const sbp::NdSbp& operand : *operands)
      for (size_t d = 0; d < dims; ++d) inner[d] = std::max(inner[d], operand[d].inner);
  std::vector<size_t> order(dims);
  for (size_t d = 0; d < dims; ++d) order[d] = d;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return inner[a] < inner[b]; });
  return order;
}

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
  for (const size_t d : split_order(layout, mesh.dims())) {
    const sbp::Signature& signature = layout.signatures[d];
    attrs = ir::localize(def, types, attrs, signature, mesh.extents[d], coordinate[d]);
    for (size_t i = 0; i < types.size(); ++i)
      if (signature.inputs[i].is_split()) {
        int64_t& extent = types[i].shape[static_cast<size_t>(signature.inputs[i].axis)];
        extent = sbp::part_range(extent, mesh.extents[d], coordinate[d]).size();
      }
  }
  return attrs;
}

// Whether every part of every operand is as large as the others, on a mesh of which one dimension alone has
// several devices: attributes then grow by the same step from device to device.
bool splits_evenly(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh) {
  if (std::count_if(mesh.extents.begin(), mesh.extents.end(), [](int64_t e) { return e > 1; }) != 1)
    return false;
  const auto even = [&](const std::vector<ir::TensorId>& tensors, const std::vector<sbp::NdSbp>& layouts) {
    for (size_t i = 0; i < tensors.size(); ++i)
      for (size_t d = 0; d < mesh.dims(); ++d)
        if (layouts[i][d].is_split() &&
            graph.tensor(tensors[i]).type.shape[static_cast<size_t>(layouts[i][d].axis)] % mesh.extents[d] !=
                0)
          return false;
    return true;
  };
  return even(op.inputs, layout.inputs) && even(op.outputs, layout.outputs);
}

bool evenly_spaced(const std::vector<int>& places) {
  for (size_t k = 2; k < places.size(); ++k)
    if (places[k] - places[k - 1] != places[1] - places[0]) return false;
  return true;
}

}  // namespace

ir::Attrs class_attrs(const Mesh& mesh, const std::vector<int>& places,
                      const std::function<ir::Attrs(int64_t place)>& at, bool even) {
  ir::Attrs attrs = at(places[0]);
  const auto add = [&](const std::string& dim, const std::vector<ir::Attrs>& all) {
    for (const auto& [name, value] : all.back())
      if (!ir::whole_numbers(value).empty()) ir::add_difference(attrs, name, dim, all);
  };
  if (places.size() == 1) return attrs;
  if (places.size() < static_cast<size_t>(mesh.devices())) {
    std::vector<ir::Attrs> all = {attrs};
    const size_t enough = even && evenly_spaced(places) ? 2 : places.size();
    for (size_t k = 1; k < enough; ++k) all.push_back(at(places[k]));
    add("rank", all);
    return attrs;
  }
  const ir::Attrs first = attrs;  // all ranks are alike, so parts are even and two of them give the step
  int64_t stride = mesh.devices();
  for (size_t d = 0; d < mesh.dims(); ++d) {
    stride /= mesh.extents[d];
    if (mesh.extents[d] > 1) add(mesh.names[d], {first, at(stride)});
  }
  return attrs;
}

ir::Attrs local_attrs(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh,
                      const std::vector<int>& places) {
  if (!ir::op(op.type).localize) return op.attrs;
  const auto at = [&](int64_t place) { return attrs_at(graph, op, layout, mesh, place); };
  return class_attrs(mesh, places, at, splits_evenly(graph, op, layout, mesh));
}

}  // namespace boxcar::planner
