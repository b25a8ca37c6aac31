#include "planner/mesh.h"

#include <algorithm>

namespace boxcar::planner {

int Mesh::devices() const {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return static_cast<int>(count);
}

int Mesh::dim(const std::string& name) const {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

Mesh mesh_of(const Hints& hints) {
  const int group = hints.fsdp_group > 0 && hints.zero > 0 ? hints.fsdp_group : hints.dp;
  const std::pair<const char*, int> dims[] = {{"replica", hints.dp / group},
                                              {"dp", group / hints.ep},
                                              {"ep", hints.ep},
                                              {"cp", hints.cp},
                                              {"tp", hints.tp}};
  Mesh mesh;
  for (const auto& [name, extent] : dims) {
    if (extent == 1) continue;
    mesh.names.emplace_back(name);
    mesh.extents.push_back(extent);
  }
  if (mesh.names.empty()) mesh = {{"dp"}, {1}};
  return mesh;
}

sbp::Placement stage_placement(const Mesh& mesh, int stage) {
  return sbp::Placement::grid(mesh.extents, stage * mesh.devices());
}

sbp::NdSbp broadcast(const Mesh& mesh) { return sbp::NdSbp(mesh.dims(), sbp::Sbp::B()); }

}  // namespace boxcar::planner
