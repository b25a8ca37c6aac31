#include "planner/routes.h"

#include <optional>

#include "sbp/error.h"

namespace boxcar::planner {

namespace {

using sbp::MeshRoute;
using sbp::NdSbp;

std::optional<MeshRoute> direct(const sbp::Shape& shape, const Mesh& mesh, const NdSbp& from,
                                const NdSbp& to) {
  return sbp::mesh_route(shape, mesh.extents, from, to, sbp::Aim::steps);
}

// The cheapest route over an intermediate layout that is B in some of the split dimensions. It is for splits
// of one axis in an order that single collectives cannot change.
std::optional<MeshRoute> indirect(const sbp::Shape& shape, const Mesh& mesh, const NdSbp& from,
                                  const NdSbp& to) {
  std::optional<MeshRoute> best;
  for (unsigned gathered = 1; gathered < 1u << mesh.dims(); ++gathered) {
    NdSbp middle = from;
    for (size_t d = 0; d < mesh.dims(); ++d)
      if ((gathered >> d & 1) != 0) middle[d] = sbp::Sbp::B();
    const auto first = direct(shape, mesh, from, middle), second = direct(shape, mesh, middle, to);
    if (!first || !second) continue;
    MeshRoute both = *first;
    both.steps.insert(both.steps.end(), second->steps.begin(), second->steps.end());
    both.elements_moved += second->elements_moved;
    if (!best || both.elements_moved < best->elements_moved) best = std::move(both);
  }
  return best;
}

}  // namespace

const MeshRoute& RouteTable::find(const sbp::Shape& shape, const NdSbp& from, const NdSbp& to) {
  const std::tuple key{shape, from, to};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  auto route = direct(shape, mesh_, from, to);
  if (!route) route = indirect(shape, mesh_, from, to);
  if (!route)
    throw Error::fault(sbp::to_text(from) + " to " + sbp::to_text(to),
                       "no collectives along mesh dimensions do this");
  return known_.emplace(key, std::move(*route)).first->second;
}

}  // namespace boxcar::planner
