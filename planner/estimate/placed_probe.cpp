#include "planner/estimate/placed_probe.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "planner/resolve.h"
#include "sbp/at.h"

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

int in_whole_nodes(int devices, int node) { return (devices + node - 1) / node * node; }

}  // namespace

Neighbours neighbours_of(const planner::Job& job, const Mesh& mesh) {
  const planner::Hints& h = job.parallel;
  const int stages = planner::stages_on_node(mesh, h.pp, job.cluster.node.gpus);
  const int node = job.cluster.node.gpus, all = mesh.stage_stride * h.pp;
  const bool even = node % std::max(1, mesh.stage_stride) == 0 && (all % node == 0 || node % all == 0);
  if (stages == 1 || !even || groups_on_nic(job.cluster.node, mesh) <= 1) return {};
  const double runs = double{1} * planner::micro_batches(job) * h.virtual_stages;
  return {stages, runs / (runs + h.pp - 1)};
}

double groups_on_nic(const backends::Node& node, const Mesh& mesh) {
  double groups = 1;
  const int dp = mesh.dim(MeshDim::dp), replica = mesh.dim(MeshDim::replica);
  for (size_t d = 0; d < mesh.dims(); ++d) {
    if (static_cast<int>(d) == dp || static_cast<int>(d) == replica) continue;
    const int64_t beside = std::max<int64_t>(1, node.gpus / mesh.strides[d]);  // ranks of a group on a node
    if (beside >= mesh.extents[d]) continue;
    groups = std::max(
        groups, static_cast<double>(node.gpus) / static_cast<double>(std::max<int64_t>(beside, node.nics)));
  }
  return groups;
}

double nic_sharing(double groups, const Neighbours& neighbours) {
  const double stages = std::min<double>(neighbours.stages, groups);
  return groups / stages * (1 + neighbours.steady * (stages - 1));
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
