// The device mesh of one pipeline stage, and the global ids of its devices, in the order of the hints. The
// default is the order of Megatron's ranks: tensor fastest, then context, then data, then pipeline slowest.
//
//   dp 2, tp 4, pp 2: mesh {2, 4} named {"dp", "tp"}; stage 0 is devices 0-7, stage 1 devices 8-15;
//   device 13 is stage 1, dp 1, tp 1
//   the same with mesh_order "dp,pp,cp,tp": stage 0 is devices 0-3 and 8-11, device 13 is stage 1, dp 1, tp 1
//   and with "pp,tp,cp,dp": device 13 is stage 1, tp 2, dp 1
//   with stage_order {1, 0} stage 0 is devices 8-15
//
// The mesh and its layouts are the same in every order. A *place* on the mesh is a row-major index. Extents
// of 1 are left out; a stage of one device has the mesh {1} named {"dp"}. A sharding group smaller than dp
// (fsdp_group), or a parameter server for some of dp, splits dp in two: "replica" outside, "dp" inside.
// Expert parallelism takes its ranks out of dp: "ep" lies inside "dp". With etp 1 all ranks of tp are among
// its ranks too, and "ep" has the others:
//
//   dp 8, tp 2, ep 8, etp 1: mesh {2, 4, 2} named {"dp", "ep", "tp"}; experts are split along "ep" and "tp"
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/planner.h"
#include "sbp/sbp.h"

namespace boxcar::planner {

// The dimensions that a mesh may have, outermost first, and their names.
enum class MeshDim : uint8_t { replica, dp, ep, cp, tp };
inline constexpr std::array<const char*, 5> mesh_dim_names{"replica", "dp", "ep", "cp", "tp"};
inline const char* name_of(MeshDim dim) { return mesh_dim_names[static_cast<size_t>(dim)]; }

struct Mesh {
  std::vector<std::string> names;
  sbp::Shape extents;
  // Steps in global ids from a place to the next along each dimension, and from a stage to the next. Empty:
  // row-major, stage after stage.
  std::vector<int> strides = {};
  int stage_stride = 0;
  std::vector<int> stage_order = {};  // as in the hints

  int devices() const;
  int device(int place, int stage) const;  // its global id
  int stage_of(int device, int stages) const;
  int dim(MeshDim dim) const { return dim_named(name_of(dim)); }  // its index; -1 if its extent is 1
  int dim_named(std::string_view name) const;
  size_t dims() const { return names.size(); }
};

Mesh mesh_of(const Hints& hints);
// Whether experts are dealt out over tp too, instead of being cut by it.
inline bool deals_experts_over_tp(const Hints& hints) { return hints.etp == 1 && hints.tp > 1; }
// Ranks of dp over which experts are dealt out. REQUIRES that tp divides ep if experts are dealt out over tp.
inline int ep_in_dp(const Hints& hints) {
  return deals_experts_over_tp(hints) ? hints.ep / hints.tp : hints.ep;
}
// The number of stages that have devices on the first node, which has `node` GPUs. On other nodes it is less
// if stages do not divide nodes.
int stages_on_node(const Mesh& mesh, int stages, int node);
sbp::NdSbp broadcast(const Mesh& mesh);  // B in every dimension

}  // namespace boxcar::planner
