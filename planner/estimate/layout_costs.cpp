#include "planner/estimate/layout_costs.h"

#include <algorithm>

#include "backends/machines/device_profile.h"
#include "ir/op.h"
#include "planner/estimate/placed_probe.h"
#include "planner/key_writer.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/models/float8_casts.h"
#include "sim/models/kernel_time.h"

namespace boxcar::search {
namespace {

using planner::Mesh;
using sbp::NdSbp;
using sbp::Sbp;

constexpr Boxing never{0, std::numeric_limits<double>::infinity()};

// Whether a product reads a weight or makes the gradient of one.
bool is_of_weight(const ir::Graph& graph, const ir::Op& op) {
  const auto has = [&graph](const std::vector<ir::TensorId>& tensors, ir::Role role) {
    return std::ranges::any_of(tensors, [&](ir::TensorId t) { return graph.tensor(t).role == role; });
  };
  return has(op.inputs, ir::Role::parameter) || has(op.outputs, ir::Role::gradient);
}

// Whether no part is empty.
bool fills(const ir::Types& types, const std::vector<Sbp>& layout, int64_t parts) {
  for (size_t i = 0; i < types.size(); ++i)
    if (layout[i].is_split() && at(types[i].shape, layout[i].axis) < parts) return false;
  return true;
}

void split(ir::Types& types, const std::vector<Sbp>& layout, int64_t parts) {
  for (size_t i = 0; i < types.size(); ++i)
    if (layout[i].is_split()) {
      int64_t& extent = at(types[i].shape, layout[i].axis);
      extent = sbp::part_range(extent, parts, 0).size();
    }
}

// The most devices of the first stage on one node.
int most_on_node(const backends::Cluster& cluster, const Mesh& mesh) {
  std::map<int, int> on_node;
  for (int place = 0; place < mesh.devices(); ++place) ++on_node[mesh.device(place, 0) / cluster.node.gpus];
  int most = 0;
  for (const auto& [node, devices] : on_node) most = std::max(most, devices);
  return most;
}

// The devices of the first group along mesh dimensions.
std::vector<int> first_group(const Mesh& mesh, const std::vector<int>& dims) {
  std::vector<int> group{0};  // by place
  for (int dim : dims) {
    int stride = 1;
    for (size_t d = static_cast<size_t>(dim) + 1; d < mesh.dims(); ++d)
      stride *= static_cast<int>(mesh.extents[d]);
    std::vector<int> wider;
    for (int place : group)
      for (int i = 0; i < at(mesh.extents, dim); ++i) wider.push_back(place + i * stride);
    group = std::move(wider);
  }
  for (int& member : group) member = mesh.device(member, 0);
  return group;
}

// Only whole tensors are made partial, and only as sums. Each of n devices then has an n-th.
bool can_be(const NdSbp& from, const NdSbp& to) {
  for (size_t d = 0; d < from.size(); ++d)
    if (to[d].is_partial() && from[d] != to[d] && (!from[d].is_broadcast() || to[d] != Sbp::P()))
      return false;
  return true;
}

}  // namespace

// An op whose signatures on the first mesh dimensions are chosen.
struct LayoutCosts::Making {
  const ir::OpDef& def;
  ir::Types inputs, outputs;
  ir::Attrs attrs;
  planner::OpLayout layout;
  const Given& given;
  const ir::Op& op;
  const ir::Types& whole;  // its inputs
  const bool float8;       // a product that reads 8 bits

  double seconds(const backends::DeviceProfile& device) const;
};

// Assumes that operands of 8 bits were made in 16 bits by other kernels, and that weights are cast for each
// product.
double LayoutCosts::Making::seconds(const backends::DeviceProfile& device) const {
  if (!float8) return sim::kernel_seconds(device, def, inputs, outputs, attrs);
  const auto operand = [&](size_t i) {
    return sim::Float8Operand{.elements = static_cast<double>(at(inputs, i).elements())};
  };
  return sim::float8_product_seconds(device, def, inputs, outputs, attrs) +
         sim::float8_casts(device, ir::role_of(def, attrs), {operand(0), operand(1)}).seconds;
}

LayoutCosts::LayoutCosts(const backends::Cluster& cluster, const Mesh& mesh)
    : cluster_(cluster),
      mesh_(mesh),
      devices_on_node_(most_on_node(cluster, mesh)),
      part_of_leaf_(part_of_leaf(cluster, mesh)),
      routes_(mesh) {}

const std::vector<OpChoice>& LayoutCosts::choices(const ir::Graph& graph, const ir::Op& op,
                                                  const Given& given) {
  ir::Types whole;
  const ir::OpDef& def = ir::op(op.type);
  const bool float8 =
      cluster_.device->float8 && sim::has_float8(def, is_of_weight(graph, op)) && graph.in_layer(op);
  Making making{def, {}, {}, op.attrs, {}, given, op, whole, float8};
  planner::KeyWriter key;
  key.text(op.type);
  key.attrs(op.attrs);
  key.raw(float8);
  key.raw(op.inputs.size());
  for (ir::TensorId t : op.inputs) key.type(making.inputs.emplace_back(graph.tensor(t).type));
  for (ir::TensorId t : op.outputs) key.type(making.outputs.emplace_back(graph.tensor(t).type));
  for (const sbp::Signature* signature : given) {
    key.raw(signature != nullptr);
    if (signature) key.layout(signature->inputs), key.layout(signature->outputs);
  }
  std::string text = key.take();
  if (const auto known = choices_.find(text); known != choices_.end()) return known->second;
  whole = making.inputs;
  making.layout.inputs.resize(making.inputs.size());
  making.layout.outputs.resize(making.outputs.size());
  std::vector<OpChoice> all;
  extend(making, all);
  return choices_.emplace(std::move(text), std::move(all)).first->second;
}

void LayoutCosts::extend(const Making& making, std::vector<OpChoice>& all) const {
  const size_t d = making.layout.signatures.size();
  if (d == mesh_.dims()) {
    if (!planner::is_legal(making.def, making.whole, making.op.attrs, making.layout, mesh_.extents)) return;
    all.push_back({making.layout, making.seconds(cluster_.device), making.outputs});
    return;
  }
  const int64_t parts = mesh_.extents[d];
  // Gradients have the layouts of sharded states, which have empty parts if there are fewer elements than
  // ranks.
  const bool follows = making.op.is(ir::OpKind::accumulate) || making.op.is(ir::OpKind::cast);
  for (const sbp::Signature& signature :
       planner::offered(making.def, making.inputs, making.attrs, mesh_, d)) {
    const sbp::Signature* given = d < making.given.size() ? making.given[d] : nullptr;
    if (given && *given != signature) continue;
    if (!given && !follows &&
        (!fills(making.inputs, signature.inputs, parts) || !fills(making.outputs, signature.outputs, parts)))
      continue;
    Making next = making;
    next.attrs = ir::localize(making.def, making.inputs, making.attrs, signature, parts, 0);
    split(next.inputs, signature.inputs, parts);
    split(next.outputs, signature.outputs, parts);
    for (size_t i = 0; i < next.inputs.size(); ++i) next.layout.inputs[i].push_back(signature.inputs[i]);
    for (size_t o = 0; o < next.outputs.size(); ++o) next.layout.outputs[o].push_back(signature.outputs[o]);
    next.layout.signatures.push_back(signature);
    extend(next, all);
  }
}

Boxing LayoutCosts::boxing(const ir::TensorType& type, const NdSbp& from, const NdSbp& to) {
  return boxing_in_bucket(type, from, to, 0);
}

Boxing LayoutCosts::boxing_in_bucket(const ir::TensorType& type, const NdSbp& from, const NdSbp& to,
                                     double bucket) {
  if (from == to) return {};
  const std::tuple key{type, from, to, bucket};
  if (const auto known = boxings_.find(key); known != boxings_.end()) return known->second;
  return boxings_.emplace(key, work_out(type, from, to, bucket)).first->second;
}

Boxing LayoutCosts::work_out(const ir::TensorType& type, const NdSbp& from, const NdSbp& to, double bucket) {
  if (!can_be(from, to)) return never;
  const sbp::MeshRoute* route = nullptr;
  try {
    route = &routes_.find(type.shape, from, to);
  } catch (const Error&) {
    return never;
  }
  Boxing cost;
  ir::TensorType now = local(type, from);
  const NdSbp* before = &from;
  for (const sbp::MeshStep& step : route->steps) {
    const ir::TensorType next = local(type, step.result);
    if (step.collective != sbp::Collective::none) {
      cost.communication += collective(step, std::max(now.bytes(), next.bytes()), bucket);
    } else {
      bool share = false;
      for (size_t d = 0; d < mesh_.dims(); ++d)
        share = share || (step.result[d].is_partial() && !(*before)[d].is_partial());
      cost.compute += kernel(share ? "scale" : "slice", {now}, {next});
    }
    now = next;
    before = &step.result;
  }
  return cost;
}

double LayoutCosts::collective(const sbp::MeshStep& step, int64_t bytes, double bucket) {
  const auto [span, fresh] = spans_.try_emplace(step.dims);
  if (fresh) span->second = sim::span_of(cluster_, first_group(mesh_, step.dims));
  const double share = bucket > 0 ? std::min(1.0, static_cast<double>(bytes) / bucket) : 1;
  const auto size = share < 1 ? static_cast<int64_t>(bucket) : bytes;
  const sim::CommTime alone = sim::collective_time(cluster_, step.collective, size, span->second);
  return share * sim::seconds_beside(cluster_, alone, devices_on_node_, part_of_leaf_);
}

double LayoutCosts::kernel(const std::string& op, const ir::Types& inputs, const ir::Types& outputs,
                           const ir::Attrs& attrs) const {
  const ir::OpDef& def = ir::op(op);
  return sim::kernel_seconds(cluster_.device, def, inputs, outputs, ir::complete(def, attrs));
}

ir::TensorType LayoutCosts::local(const ir::TensorType& type, const NdSbp& layout) const {
  return {sbp::local_shape(type.shape, layout, mesh_.extents, 0), type.dtype};
}

int64_t LayoutCosts::bytes(const ir::TensorType& type, const NdSbp& layout) const {
  return local(type, layout).bytes();
}

}  // namespace boxcar::search
