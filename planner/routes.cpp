#include "planner/routes.h"

#include <optional>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

namespace {

using sbp::MeshRoute;
using sbp::NdSbp;

// Two gathers in a row, of different axes, in the other order. `from`: the layout before them.
void swap_gathers(const NdSbp& from, sbp::MeshStep& one, sbp::MeshStep& next) {
  one.elements_moved *= next.group_size;
  next.elements_moved /= one.group_size;
  NdSbp end = std::exchange(next.result, from);
  for (const int d : next.dims) at(next.result, d) = sbp::Sbp::B();
  one.result = std::move(end);
  std::swap(one, next);
}

// Gathers begin where ranks stand farthest apart: those links are the slowest, and parts are smallest before
// any other gather. The route itself knows no devices.
MeshRoute from_the_outside(MeshRoute route, const Mesh& mesh, const NdSbp& from) {
  if (mesh.strides.empty()) return route;
  const auto gathers = [](const sbp::MeshStep& step) {
    return step.collective == sbp::Collective::all_gather;
  };
  for (bool swaps = true; swaps;) {
    swaps = false;
    for (size_t s = 0; s + 1 < route.steps.size(); ++s) {
      sbp::MeshStep &one = route.steps[s], &next = route.steps[s + 1];
      if (!gathers(one) || !gathers(next) || one.axis == next.axis) continue;
      if (at(mesh.strides, one.dims.front()) >= at(mesh.strides, next.dims.front())) continue;
      swap_gathers(s == 0 ? from : route.steps[s - 1].result, one, next);
      swaps = true;
    }
  }
  return route;
}

std::optional<MeshRoute> direct(const sbp::Shape& shape, const Mesh& mesh, const NdSbp& from,
                                const NdSbp& to) {
  auto route = sbp::mesh_route(shape, mesh.extents, from, to, sbp::Aim::steps);
  if (route) route = from_the_outside(*std::move(route), mesh, from);
  return route;
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
