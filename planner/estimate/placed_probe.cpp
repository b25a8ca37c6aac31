#include "planner/estimate/placed_probe.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "planner/resolve.h"
#include "sbp/at.h"
#include "sim/models/collective_time.h"

namespace boxcar::search {
namespace {

using planner::Mesh;
using planner::MeshDim;

int stride_of(const CostKey& key, const Mesh& mesh, size_t dim) {
  const std::array<MeshDim, 3> with_stride{MeshDim::tp, MeshDim::cp, MeshDim::ep};
  for (size_t i = 0; i < with_stride.size(); ++i)
    if (mesh.dim(with_stride[i]) == static_cast<int>(dim)) return key.strides[i];
  return 1;
}

// The part of the other stages that work beside a stage, on average over its work: `runs` runs pass through
// `stages` stages one after the other. First one stage works, then two, up to the fewer of both, and back.
double at_work_beside(double runs, double stages) {
  const double most = std::min(runs, stages), sum = runs * stages;
  const double squares =
      (most - 1) * most * (2 * most - 1) / 3 + most * most * (std::max(runs, stages) - most + 1);
  return (squares / sum - 1) / (stages - 1);
}

// Whether groups along a dimension communicate inside layers.
bool is_inside_layers(const Mesh& mesh, size_t dim) {
  const auto is = [&](MeshDim kind) { return mesh.dim(kind) == static_cast<int>(dim); };
  return !is(MeshDim::dp) && !is(MeshDim::replica);
}

int64_t ranks_on_node(const backends::Node& node, const Mesh& mesh, size_t dim) {
  return std::max<int64_t>(1, node.gpus / mesh.strides[dim]);
}

bool reaches_other_nodes(const backends::Node& node, const Mesh& mesh) {
  for (size_t d = 0; d < mesh.dims(); ++d)
    if (is_inside_layers(mesh, d) && ranks_on_node(node, mesh, d) < mesh.extents[d]) return true;
  return false;
}

int in_whole_nodes(int devices, int node) { return (devices + node - 1) / node * node; }

}  // namespace

Neighbours neighbours_of(const planner::Job& job, const Mesh& mesh) {
  const planner::Hints& h = job.parallel;
  const int stages = planner::stages_on_node(mesh, h.pp, job.cluster.node.gpus);
  const int node = job.cluster.node.gpus, all = mesh.stage_stride * h.pp;
  const bool even = node % std::max(1, mesh.stage_stride) == 0 && (all % node == 0 || node % all == 0);
  const double of_leaf = reaches_other_nodes(job.cluster.node, mesh) ? part_of_leaf(job.cluster, mesh) : 1;
  if (stages == 1 || !even || groups_on_nic(job.cluster.node, mesh) <= 1) return {1, 1, of_leaf};
  const double runs = double{1} * planner::micro_batches(job) * h.virtual_stages;
  return {stages, at_work_beside(runs, h.pp), of_leaf};
}

double groups_on_nic(const backends::Node& node, const Mesh& mesh) {
  double groups = 1;
  for (size_t d = 0; d < mesh.dims(); ++d)
    if (const int64_t beside = ranks_on_node(node, mesh, d);
        beside < mesh.extents[d] && is_inside_layers(mesh, d))
      groups = std::max(
          groups, static_cast<double>(node.gpus) / static_cast<double>(std::max<int64_t>(beside, node.nics)));
  return groups;
}

double part_of_leaf(const backends::Cluster& cluster, const Mesh& mesh) {
  const int under_leaf = sim::nodes_per_leaf(cluster);
  if (under_leaf == 0 || cluster.fabric.oversubscription <= 1) return 1;
  std::set<int> nodes;
  for (int place = 0; place < mesh.devices(); ++place) nodes.insert(cluster.node_of(mesh.device(place, 0)));
  std::map<int, int> on_leaf;
  int most = 0;
  for (const int node : nodes) most = std::max(most, ++on_leaf[node / under_leaf]);
  return static_cast<double>(most) / under_leaf;
}

double nic_sharing(double groups, const Neighbours& neighbours) {
  const double stages = std::min<double>(neighbours.stages, groups);
  return groups / stages * (1 + neighbours.steady * (stages - 1));
}

double beside_computing(double stages, double on_nic, double computing) {
  return on_nic > 0 ? std::max(1.0, stages - computing / on_nic) : stages;
}

Mesh placed_mesh(Mesh mesh, const CostKey& key, int node) {
  std::vector<size_t> dims(mesh.dims());
  std::iota(dims.begin(), dims.end(), size_t{0});
  const auto stride = [&](size_t d) { return stride_of(key, mesh, d); };
  std::stable_sort(dims.begin(), dims.end(), [&](size_t a, size_t b) { return stride(a) < stride(b); });
  int taken = 1;  // devices of the dimensions before
  for (const size_t d : dims) {
    mesh.strides[d] = stride(d) < node ? stride(d) : in_whole_nodes(taken, node);
    taken += static_cast<int>(mesh.extents[d] - 1) * mesh.strides[d];
  }
  mesh.stage_stride = in_whole_nodes(taken, node);
  return mesh;
}

void place_probe(PlacedProbe& probe, const Mesh& from, Mesh mesh, int gpus) {
  const int node = probe.cluster.node.gpus, stages = probe.plan.devices / from.devices();
  const int apart = std::max(mesh.stage_stride, in_whole_nodes(gpus, node));
  mesh.stage_stride = apart;
  const auto place = [&](int& device) {
    device = mesh.device(device % from.devices(), device / from.devices());
  };
  probe.plan.devices = stages * apart;
  for (ir::RankClass& cls : probe.plan.classes) {
    for (int& device : cls.devices) place(device);
    std::sort(cls.devices.begin(), cls.devices.end());
  }
  for (ir::Comm& comm : probe.plan.comms)
    for (std::vector<int>& group : comm.groups)
      for (int& device : group) place(device);
  for (ir::Peers& peers : probe.plan.peers) {
    const std::vector<int> sources =
        std::exchange(peers.source, std::vector<int>(static_cast<size_t>(stages * apart), -1));
    for (int device = 0; device < static_cast<int>(sources.size()); ++device) {
      int there = device, source = at(sources, device);
      place(there);
      if (source >= 0) place(source);
      at(peers.source, there) = source;
    }
  }
  probe.cluster.nodes = std::max(probe.cluster.nodes, stages * apart / node);
}

}  // namespace boxcar::search
