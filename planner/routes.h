// Boxing routes on one mesh, found once per (shape, from, to): collectives along mesh dimensions, one for
// each dimension that changes, as in published systems.
#pragma once

#include <map>
#include <tuple>

#include "planner/mesh.h"
#include "sbp/mesh_route.h"

namespace boxcar::planner {

class RouteTable {
 public:
  explicit RouteTable(Mesh mesh) : mesh_(std::move(mesh)) {}
  // Throws Error (fault) if collectives along mesh dimensions cannot make this change of layout.
  const sbp::MeshRoute& find(const sbp::Shape& shape, const sbp::NdSbp& from, const sbp::NdSbp& to);

 private:
  Mesh mesh_;
  std::map<std::tuple<sbp::Shape, sbp::NdSbp, sbp::NdSbp>, sbp::MeshRoute> known_;
};

}  // namespace boxcar::planner
