// Boxing: moving a tensor from one layout to another, on the same, overlapping or disjoint devices.
//
//   8x6 float32, S(0) on 0-3 -> B on 0-3:   all_gather over {0,1,2,3}, 48 bytes a rank to 192
//   P(sum) on 0-3 -> S(0) on 0-3:           reduce_scatter
//   S(0) on 0-3 -> S(0) on 4-7:             slices: device 4 pulls from 0, ...
//
// A route is a list of steps; each step is local, one collective over disjoint groups, or a set of slice
// transfers. Bytes are those of Table 2 of the paper if extents divide evenly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sbp/mesh_route.h"
#include "sbp/sbp.h"

namespace boxcar::sbp {

struct Layout {
  Shape shape;  // global
  NdSbp sbp;
  Placement placement;
};
std::string to_text(const Layout& layout);  // "(S(0), B) on 0-3:2x2"
void check_layout(const Layout& layout);    // throws Error (bad input); checks sbp, shape, mesh and devices

// One contiguous block that `to` pulls from `from`, in global coordinates. from == to: the block stays on its
// device.
struct Slice {
  int from = 0, to = 0;
  std::vector<Range> block;
  bool add = false;  // combined with the values of `to` by `reduction`
};

// A block on `device` filled with the identity of `reduction`.
struct Fill {
  int device = 0;
  std::vector<Range> block;
  Reduction reduction = Reduction::sum;
};

// A transfer lists everything that its result holds. Elements that no slice writes are the identity of
// `reduction`, or of the reductions in `fills` if the result is partial in several.
struct Step {
  Collective collective = Collective::none;
  int mesh_dim = -1;           // dimension that it runs along, in the mesh before the step; -1: none
  std::vector<int> mesh_dims;  // all of them, for a collective along several
  int axis = 0;                // tensor axis gathered or scattered; for all_to_all the axis it gathers
  int axis2 = 0;               // for all_to_all: the axis it splits
  Reduction reduction = Reduction::sum;
  std::vector<std::vector<int>>
      groups;                  // global device ids; disjoint; the root of broadcast and reduce first
  std::vector<Slice> slices;   // for transfer
  std::vector<Fill> fills;     // for transfer
  Layout result;               // the layout after this step; no sbp: blocks lie where `slices` put them
  int64_t elements_moved = 0;  // between devices, summed over all devices, bandwidth-optimal
  int latency_steps = 0;       // serial message rounds of a ring or direct algorithm
};

struct Route {
  std::vector<Step> steps;  // none if from and to are the same
  int64_t elements_moved = 0;
  std::vector<int64_t> received;  // elements received per device, indexed like the union of placements
  std::vector<int> devices;       // that union, ascending
};

// The cheapest route from `from` to `to` by elements moved, then by steps (or by `aim` if both are on the
// same mesh). from.shape == to.shape.
Route box(const Layout& from, const Layout& to, Aim aim = Aim::traffic);

// Table 2 of the paper, in elements: the closed form, if extents divide evenly. 1-D layouts.
int64_t table2(Sbp from, Sbp to, int64_t elements, int from_devices, int to_devices, bool same_devices);

}  // namespace boxcar::sbp
