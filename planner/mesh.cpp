#include "planner/mesh.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "planner/sharding.h"
#include "sbp/at.h"

namespace boxcar::planner {

int Mesh::devices() const {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return static_cast<int>(count);
}

int Mesh::dim_named(std::string_view name) const {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

int Mesh::device(int place, int stage) const {
  if (!stage_order.empty()) stage = at(stage_order, stage);
  if (strides.empty()) return stage * devices() + place;
  int result = stage * stage_stride;
  for (size_t d = dims(); d-- > 0; place /= static_cast<int>(extents[d]))
    result += place % static_cast<int>(extents[d]) * strides[d];
  return result;
}

int Mesh::stage_of(int device, int stages) const {
  const int stands = device / stage_stride % stages;
  if (stage_order.empty()) return stands;
  return static_cast<int>(std::find(stage_order.begin(), stage_order.end(), stands) - stage_order.begin());
}

Mesh mesh_of(const Hints& hints) {
  const int group = inner_replicas(hints), ep = ep_in_dp(hints);
  const struct {
    MeshDim dim;
    MeshAxis axis;
    int extent;
  } dims[] = {{MeshDim::replica, MeshAxis::dp, hints.dp / group},
              {MeshDim::dp, MeshAxis::dp, group / ep},
              {MeshDim::ep, MeshAxis::dp, ep},
              {MeshDim::cp, MeshAxis::cp, hints.cp},
              {MeshDim::tp, MeshAxis::tp, hints.tp}};
  // By dimension: the stride from one index to the next, which is the product of the extents inside.
  std::map<MeshDim, int> stride;
  int inside = 1;
  Mesh mesh;
  mesh.stage_order = hints.stage_order;
  for (auto axis = hints.mesh_order.rbegin(); axis != hints.mesh_order.rend(); ++axis) {
    if (*axis == MeshAxis::pp) mesh.stage_stride = std::exchange(inside, inside * hints.pp);
    for (auto row = std::rbegin(dims); row != std::rend(dims); ++row)
      if (row->axis == *axis) stride[row->dim] = std::exchange(inside, inside * row->extent);
  }
  for (const auto& row : dims) {
    if (row.extent == 1) continue;
    mesh.names.push_back(name_of(row.dim));
    mesh.extents.push_back(row.extent);
    mesh.strides.push_back(stride[row.dim]);
  }
  if (mesh.names.empty()) return {{"dp"}, {1}, {1}, mesh.stage_stride, mesh.stage_order};
  return mesh;
}

int stages_on_node(const Mesh& mesh, int stages, int node) {
  const int stride = std::max(1, mesh.stage_stride);
  return std::min((node + stride - 1) / stride, stages);
}

sbp::NdSbp broadcast(const Mesh& mesh) { return sbp::NdSbp(mesh.dims(), sbp::Sbp::B()); }

}  // namespace boxcar::planner
