#include "planner/routes.h"

#include "sbp/error.h"

namespace boxcar::planner {

const sbp::MeshRoute& RouteTable::find(const sbp::Shape& shape, const sbp::NdSbp& from, const sbp::NdSbp& to) {
  const auto [at, fresh] = known_.try_emplace({shape, from, to});
  if (!fresh) return at->second;
  auto route = sbp::mesh_route(shape, mesh_.extents, from, to, sbp::Aim::steps);
  if (!route)
    throw Error::fault(sbp::to_text(from) + " to " + sbp::to_text(to), "no collectives along mesh dimensions do this");
  at->second = std::move(*route);
  return at->second;
}

}  // namespace boxcar::planner
