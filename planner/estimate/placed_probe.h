// The small plan of a cost's key on devices that stand as far apart as those of the job's stages.
//
// Example: tp 2 x ep 4 on nodes of 8 GPUs, with tp outermost (strides tp 8, ep 1). The probe's stage takes
// two nodes: its ranks of ep are beside each other, and those of tp on two nodes.
#pragma once

#include "backends/machines/cluster.h"
#include "ir/plan.h"
#include "planner/estimate/estimate.h"
#include "planner/mesh.h"

namespace boxcar::search {

// A plan and the cluster that its acts' times are asked on.
struct PlacedProbe {
  ir::Plan plan;
  backends::Cluster cluster;
};

// The stages that share a node's NICs, where groups inside a stage reach other nodes and nodes have the same
// number of stages; else all counts as one stage, always at work.
Neighbours neighbours_of(const planner::Job& job, const planner::Mesh& mesh);

// Groups of a node that reach other nodes for each of its NICs, if `mesh` is that of all its stages.
double groups_on_nic(const backends::Node& node, const planner::Mesh& mesh);

// How many times as long such a group's transfers take as alone, on average over a step. Groups of one stage
// always transfer at the same time, those of different stages while all of these are at work.
//
//   8 groups on a NIC, of 4 stages that are all at work for 3/4 of the step: 2 x (1 + 3/4 x 3) = 6.5
double nic_sharing(double groups, const Neighbours& neighbours);

// A stage's mesh whose ranks stand as far apart as the key says, on nodes of `node` GPUs; ranks on other
// nodes each stand on the next node.
planner::Mesh standing_as(planner::Mesh mesh, const CostKey& key, int node);

// Moves the probe's devices from stages with mesh `from` to stages with `mesh`. Each stage begins on a node
// of its own, `gpus` or more devices after the one before; the cluster grows to hold them.
void stand_as(PlacedProbe& probe, const planner::Mesh& from, planner::Mesh mesh, int gpus);

}  // namespace boxcar::search
