#include "planner/local_attrs.h"

#include <algorithm>

#include "ir/op.h"

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

std::vector<int64_t> numbers(const ir::Attr& attr) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) return *list;
  return {std::get<int64_t>(attr)};
}

bool is_number(const ir::Attr& attr) {
  return std::holds_alternative<int64_t>(attr) || std::holds_alternative<std::vector<int64_t>>(attr);
}

// How attribute `name` differs along a mesh dimension, given its value at every coordinate.
void add_difference(ir::Attrs& attrs, const std::string& name, const std::string& dim,
                    const std::vector<ir::Attrs>& at) {
  const std::vector<int64_t> first = numbers(at[0].find(name)->second),
                             second = numbers(at[1].find(name)->second);
  std::vector<int64_t> step(first.size()), all;
  bool even = true;
  for (size_t i = 0; i < first.size(); ++i) step[i] = second[i] - first[i];
  for (size_t k = 0; k < at.size(); ++k) {
    const std::vector<int64_t> value = numbers(at[k].find(name)->second);
    for (size_t i = 0; i < first.size(); ++i) {
      even = even && value[i] == first[i] + step[i] * static_cast<int64_t>(k);
      all.push_back(value[i]);
    }
  }
  const bool list = std::holds_alternative<std::vector<int64_t>>(attrs.find(name)->second);
  if (!even)
    attrs[name + "_by_" + dim] = all;
  else if (list)
    attrs[name + "_step_" + dim] = step;
  else
    attrs[name + "_step_" + dim] = step[0];
}

}  // namespace

ir::Attrs local_attrs(const ir::Graph& graph, const ir::Op& op, const OpLayout& layout, const Mesh& mesh,
                      int64_t place) {
  const ir::OpDef& def = ir::op(op.type);
  ir::Attrs attrs = op.attrs;
  if (!def.localize) return attrs;
  const std::vector<int64_t> coordinate = coordinate_of(mesh, place);
  ir::Types types;
  for (ir::TensorId t : op.inputs) types.push_back(graph.tensor(t).type);
  for (const size_t d : split_order(layout, mesh.dims())) {
    const sbp::Signature& signature = layout.signatures[d];
    const int64_t parts = mesh.extents[d];
    const auto part = [&](int64_t k) { return ir::localize(def, types, attrs, signature, parts, k); };
    ir::Attrs local = part(coordinate[d]);
    const ir::Attrs other = part(coordinate[d] == 0 ? parts - 1 : 0);
    std::vector<ir::Attrs> all;
    for (const auto& [name, value] : other) {
      if (value == local[name] || !is_number(value)) continue;
      for (int64_t k = static_cast<int64_t>(all.size()); k < parts; ++k) all.push_back(part(k));
      add_difference(local, name, mesh.names[d], all);
    }
    attrs = std::move(local);
    for (size_t i = 0; i < types.size(); ++i)
      if (signature.inputs[i].is_split()) {
        int64_t& extent = types[i].shape[static_cast<size_t>(signature.inputs[i].axis)];
        extent = sbp::part_range(extent, parts, coordinate[d]).size();
      }
  }
  return attrs;
}

}  // namespace boxcar::planner
