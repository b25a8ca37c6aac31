// Routes between two layouts on one mesh, as collectives along mesh dimensions, without naming any device.
//
//   8x6 on mesh 2x4, (P(sum), S(1)) -> (S(0), B):
//     reduce_scatter along 0, axis 0: (S(0), S(1)), 48 elements moved
//     all_gather along 1, axis 1:     (S(0), B),   144 elements moved
//
// The search takes no longer with more devices. box() (boxing.h) adds groups and bytes per device, and uses
// slice transfers if no collectives along mesh dimensions are as cheap.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sbp/sbp.h"

namespace boxcar::sbp {

enum class Collective : uint8_t {
  none,  // local: slice, zero-fill (B -> P), or nothing at all
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  reduce,
  transfer,  // point-to-point slices, given by `slices`
};
const char* to_text(Collective collective);  // "all_reduce"

// Mean bytes that each of `ranks` ranks sends in a ring, an exchange or a chain, which send the fewest.
// `bytes`: the larger of one rank's input and output (ir::Actor::comm_bytes).
//   all_reduce, 100 bytes, 4 ranks: 150      all_gather of 25 bytes each to 100: 75
double sent_bytes(Collective collective, double bytes, double ranks);

enum class Aim : uint8_t {
  traffic,  // the fewest elements moved, over all devices; then the fewest steps
  steps,  // one collective along each mesh dimension that changes, as in published systems, though copies on
          // other mesh dimensions could share the work
};

struct MeshStep {
  Collective collective = Collective::none;
  std::vector<int> dims = {};  // mesh dimensions, the slowest of a group's order first
  int axis = 0, axis2 = 0;     // as in Step
  Reduction reduction = Reduction::sum;
  NdSbp result = {};           // the layout after this step
  int64_t group_size = 1;      // product of the extents of dims
  int64_t elements_moved = 0;  // over all devices
  int latency_steps = 0;
};

struct MeshRoute {
  std::vector<MeshStep> steps;
  int64_t elements_moved = 0;
};

// None if collectives along mesh dimensions cannot do it or, for Aim::traffic, not as cheaply as transfers.
// REQUIRES: the layouts fit shape and mesh (check_layout).
std::optional<MeshRoute> mesh_route(const Shape& shape, const Shape& mesh, const NdSbp& from, const NdSbp& to,
                                    Aim aim = Aim::traffic);

// Reduces every partial dimension and splits every copy, so that each element lies on one device. A transfer
// continues from there.
MeshRoute scatter_route(const Shape& shape, const Shape& mesh, const NdSbp& from);

}  // namespace boxcar::sbp
