// The device mesh of one pipeline stage, and which global ids stand on it: tensor fastest, then context, then
// data, then pipeline slowest, as Megatron ranks its processes.
//
//   dp 2, tp 4, pp 2: mesh {2, 4} named {"dp", "tp"}; stage 0 is devices 0-7, stage 1 devices 8-15;
//   device 13 is stage 1, dp 1, tp 1
//
// Extents of 1 are left out; a stage of one device has the mesh {1} named {"dp"}. A sharding group smaller
// than dp (fsdp_group) splits dp in two: "replica" outside, "dp" inside.
// Expert parallelism takes its ranks out of dp: "ep" inside of it.
#pragma once

#include <string>
#include <vector>

#include "planner/planner.h"
#include "sbp/sbp.h"

namespace boxcar::planner {

struct Mesh {
  std::vector<std::string> names;
  sbp::Shape extents;

  int devices() const;
  int dim(const std::string& name) const;  // -1 where its extent is 1
  size_t dims() const { return names.size(); }
};

Mesh mesh_of(const Hints& hints);
sbp::Placement stage_placement(const Mesh& mesh, int stage);
sbp::NdSbp broadcast(const Mesh& mesh);  // B in every dimension

}  // namespace boxcar::planner
