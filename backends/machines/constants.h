// Every number of a device and of a cluster, with its YAML key and its bounds, in one place. The numbers of
// collectives are in collective_model.h. Readers, writers and modifiers are visitors:
//
//   struct Sum {
//     double all = 0;
//     void number(const std::string& key, double least, double most, double& value) { all += value; }
//     ...
//   } sum;
//   visit(sum, device);
//
// number, whole        one number under `key`
// curve, tiles, names  a table, a list of tiles, a mapping from names to numbers
// types                numbers by type in the mapping where it is called
// inside               fields that `work` visits, in a mapping; `written`: whether there are any
// line                 the same, in one line
// by_type, by_name     a mapping by type, by name: `work` takes each described value
// optional             one that may be missing
// text                 a word
// require              a key that must be there
#pragma once

#include <cstdint>
#include <string>

#include "backends/machines/bounds.h"
#include "backends/machines/cluster.h"
#include "backends/machines/collective_model.h"
#include "backends/machines/device_profile.h"

namespace boxcar::backends {

template <class Visitor>
void visit_waves(Visitor& v, MatmulModel& m) {
  v.tiles("tiles", m.tiles);
  v.number("wave_overlap", 0, 1, m.wave_overlap);
  v.number("wave_seconds", 0, most_latency, m.wave_seconds);
  v.number("tile_seconds", 0, most_latency, m.tile_seconds);
  v.number("split_seconds", 0, most_latency, m.split_seconds);
  v.number("start_seconds", 0, most_latency, m.start_seconds);
  v.number("memory_share", 1e-3, 1, m.memory_share);
}

template <class Visitor>
void visit(Visitor& v, MatmulModel& m) {
  visit_waves(v, m);
  v.number("cache_bandwidth", 0, most_rate, m.cache_bandwidth);
  v.number("ramp_bytes", 0, 1e12, m.ramp_bytes);
  v.inside("type_share", !m.type_share.empty(), [&] { v.types(1e-3, 1.5, m.type_share); });
  v.number("odd_share", 1e-3, 1, m.odd_share);
  v.number("float4_share", 1e-3, 1.5, m.float4_share);
  v.number("full_sum_share", 1e-3, 1, m.full_sum_share);
}

template <class Visitor>
void visit(Visitor& v, ConvolutionModel& m) {
  v.require("tiles");
  visit_waves(v, m.waves);
  v.number("input_grad", 1e-3, 10, m.input_grad);
  v.number("weight_grad", 1e-3, 10, m.weight_grad);
  v.number("strided_input_grad", 1e-3, 10, m.strided_input_grad);
  v.number("pointwise_weight_grad", 1e-3, 10, m.pointwise_weight_grad);
  v.number("pointwise_strided_input_grad", 1e-3, 10, m.pointwise_strided_input_grad);
  v.number("input_grad_seconds", 0, most_latency, m.input_grad_seconds);
  v.number("winograd", 0, 1.5, m.winograd);
  v.number("winograd_fused", 0, 1.5, m.winograd_fused);
}

// All but its name.
template <class Visitor>
void visit(Visitor& v, DeviceProfile& d) {
  v.whole("memory_bytes", least_memory, most_memory, d.memory_bytes);
  v.number("memory_bandwidth", least_rate, most_rate, d.memory_bandwidth);
  v.inside("peak_flops", true, [&] {
    v.types(1e6, most_flops, d.peak_flops);
    if (d.tf32_flops > 0 || v.reads) v.number("tf32", 1e6, most_flops, d.tf32_flops);
    if (d.float4_flops > 0 || v.reads) v.number("float4", 1e6, most_flops, d.float4_flops);
  });
  v.whole("multiprocessors", 1, 100000, d.multiprocessors);
  v.number("launch_latency", 0, most_latency, d.launch_latency);
  v.number("kernel_floor", 0, most_latency, d.kernel_floor);
  v.curve("matmul_efficiency", d.matmul_efficiency);
  v.inside("matmul", true, [&] { visit(v, d.matmul); });
  v.by_type("convolution", d.convolution, [&](ConvolutionModel& model) { visit(v, model); });
  v.curve("convolution_efficiency", d.convolution_efficiency);
  v.curve("memory_efficiency", d.memory_efficiency);
  v.names("op_share", 1e-3, 10, d.op_share);
  v.names("half_op_share", 1e-3, 10, d.half_op_share);
  v.names("op_seconds", 0, most_latency, d.op_seconds);
  v.text("attention_kernel", d.attention_kernel);
  v.curve("attention_forward_efficiency", d.attention.forward);
  v.curve("attention_backward_efficiency", d.attention.backward);
  v.curve("attention_causal_forward_efficiency", d.attention.causal_forward);
  v.curve("attention_causal_backward_efficiency", d.attention.causal_backward);
  v.curve("attention_head_share", d.attention.head_share);
  v.by_name("attention_kernels", d.attention_kernels, [&](AttentionKernel& kernel) {
    v.require("forward"), v.require("backward");
    v.curve("forward", kernel.forward);
    v.curve("backward", kernel.backward);
    v.curve("causal_forward", kernel.causal_forward);
    v.curve("causal_backward", kernel.causal_backward);
    v.curve("head_share", kernel.head_share);
  });
  v.number("under_load", 0.1, 1.1, d.under_load);
  if (d.sustained_flops > 0 || v.reads) v.number("sustained_flops", 1e6, most_flops, d.sustained_flops);
  v.number("speed_spread", 0, 0.2, d.speed_spread);
  v.number("overlap_slowdown", 0, 0.99, d.overlap_slowdown);
  if (d.library_workspace > 0 || v.reads) v.number("library_workspace", 0, 1e12, d.library_workspace);
  v.optional("host", d.host, [&](HostProfile& host) {
    v.number("cores", least_cores, most_cores, host.cores);
    v.number("link_bandwidth", least_rate, most_rate, host.link_bandwidth);
    v.number("pcie_bandwidth", least_rate, most_rate, host.pcie_bandwidth);
    if (host.per_op > 0 || v.reads) v.number("per_op", 0, most_latency, host.per_op);
    v.optional("collective", host.collective, [&](CollectiveModel& model) { visit(v, model); });
  });
}

// All but gpus, link and mesh_links.
template <class Visitor>
void visit(Visitor& v, Node& node) {
  v.number("link_bandwidth", least_rate, most_rate, node.link_bandwidth);
  v.number("link_latency", 0, most_latency, node.link_latency);
  v.number("pcie_bandwidth", least_rate, most_rate, node.pcie_bandwidth);
  v.number("host_bandwidth", least_rate, most_rate, node.host_bandwidth);
  v.whole("nics", 0, most_node_gpus, node.nics);
  v.number("nic_bandwidth", least_rate, most_rate, node.nic_bandwidth);
  v.number("nic_latency", 0, most_latency, node.nic_latency);
  v.number("cores", least_cores, most_cores, node.cores);
  v.number("host_per_op", 0, most_latency, node.host_per_op);
  v.number("host_speed", 0.01, 100, node.host_speed);
  v.number("load_rate", 0, most_rate, node.load_rate);
  v.number("outside_bytes", 0, 1e12, node.outside_bytes);
}

// All but its kind and shape.
template <class Visitor>
void visit(Visitor& v, Fabric& fabric) {
  v.number("hop_latency", 0, most_latency, fabric.hop_latency);
  if (fabric.kind == FabricKind::leaf_spine) v.number("oversubscription", 1, 1000, fabric.oversubscription);
}

}  // namespace boxcar::backends
