// The small plan for a cost's key, on devices that are as far apart as those of the job's stages.
//
// Example: tp 2 x ep 4 on nodes of 8 GPUs, with tp outermost (strides tp 8, ep 1). The probe's stage takes
// two nodes: its ranks of ep are adjacent, and those of tp are on two nodes.
#pragma once

#include "backends/machines/cluster.h"
#include "ir/plan.h"
#include "planner/estimate/estimate.h"
#include "planner/mesh.h"

namespace boxcar::search {

// A plan and the cluster for the times of its acts.
struct PlacedProbe {
  ir::Plan plan;
  backends::Cluster cluster;
};

// The stages that share a node's NICs, if groups inside a stage reach other nodes and nodes have the same
// number of stages; else one stage that always works.
Neighbours neighbours_of(const planner::Job& job, const planner::Mesh& mesh);

// Groups of a node that reach other nodes for each of its NICs, if `mesh` is that of all its stages.
double groups_on_nic(const backends::Node& node, const planner::Mesh& mesh);

// The part of a leaf switch's nodes that the first stage takes, on the leaf where it takes most; 1 if
// bandwidth between leaves cannot be short.
double part_of_leaf(const backends::Cluster& cluster, const planner::Mesh& mesh);

// The factor by which such a group's transfers take longer than alone, on average over a step. Groups of one
// stage always transfer at the same time; those of different stages do while all of these work.
//
//   8 groups on a NIC, of 4 stages, 3/4 of the others at work beside one: 2 x (1 + 3/4 x 3) = 6.5
double nic_sharing(double groups, const Neighbours& neighbours);

// The same of `stages` stages that compute for `computing` seconds and transfer for `on_nic`, if it has the
// NICs to itself. While one computes the others have them. If all together need them for longer than a stage
// needs for both, they are always busy.
//
//   4 stages with 2 s of transfers: without computing 4, with 2 s of it 3, with 8 s 1
double beside_computing(double stages, double on_nic, double computing);

// A stage's mesh whose ranks are as far apart as in the key, on nodes of `node` GPUs. Ranks on other nodes
// are each on the next node.
planner::Mesh placed_mesh(planner::Mesh mesh, const CostKey& key, int node);

// Moves the probe's devices from stages with mesh `from` to stages with `mesh`. Each stage begins on a new
// node, `gpus` or more devices after the previous one. The cluster grows to hold them.
void place_probe(PlacedProbe& probe, const planner::Mesh& from, planner::Mesh mesh, int gpus);

}  // namespace boxcar::search
