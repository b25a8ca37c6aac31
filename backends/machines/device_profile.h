// One accelerator, or one core of a processor, as constants for sim/models.
//
//   DeviceProfile a100 = load_device("a100-sxm-80g");   // backends/presets/devices/a100-sxm-80g.yaml
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/machines/collective_model.h"
#include "backends/machines/curve.h"
#include "backends/machines/float8_recipe.h"
#include "ir/types.h"

namespace boxcar::backends {

// Matrix products run as tiles of the output, in waves over the multiprocessors, while the operands' bytes
// are moved (formula: sim/models/matmul_time.h).
struct MatmulModel {
  struct Tile {
    int rows = 0, columns = 0;  // tried both ways round
    double share = 1;           // of a multiprocessor's peak
    friend bool operator==(const Tile&, const Tile&) = default;
  };
  std::vector<Tile> tiles;     // empty: no quantisation, matmul_efficiency alone
  double wave_overlap = 0;     // 0: a wave is whole; 1: a part of a wave costs that part
  double wave_seconds = 0;     // added per wave
  double tile_seconds = 0;     // added per wave, by the tile's elements: this much for 256 x 128
  double split_seconds = 0;    // added if k is split over multiprocessors
  double start_seconds = 0;    // added once
  double memory_share = 1;     // of peak bandwidth
  double cache_bandwidth = 0;  // bytes/s of the cache that tiles read from and parts meet in; 0: no bound
  double ramp_bytes = 0;       // added to the bytes
  std::map<ir::DType, double>
      type_share;           // further factor on the compute rate by operand type, 1 where absent
  double odd_share = 1;     // further factor in 16 bits if rows of an operand or the result are odd in length
  double float4_share = 1;  // further factor on the compute rate of products in 4 bits
  double full_sum_share = 1;  // further factor in 8 bits if sums move to float32 repeatedly
  friend bool operator==(const MatmulModel&, const MatmulModel&) = default;
};

// Measurements of the devices' machine, in place of the cluster's node; 0 or none: not measured, the
// cluster's value applies.
struct HostProfile {
  double cores = 0;           // Node::cores; 0: each device is hardware of its own
  double link_bandwidth = 0;  // bytes/s of a device to others; of one thread that copies
  double pcie_bandwidth = 0;  // bytes/s from the host; 0: link_bandwidth
  double per_op = 0;          // Node::host_per_op
  std::optional<CollectiveModel> collective;
  friend bool operator==(const HostProfile&, const HostProfile&) = default;
};

// Convolutions of one type (sim/models/convolution_time.h). No tiles: not known.
struct ConvolutionModel {
  MatmulModel waves;      // tiles, wave_overlap, wave_seconds, split_seconds, start_seconds, memory_share
  double input_grad = 1;  // rate of the pass relative to the forward one
  double weight_grad = 1;
  double strided_input_grad = 1;
  double pointwise_weight_grad = 1, pointwise_strided_input_grad = 1;  // instead, for 1x1 windows
  double input_grad_seconds = 0;                                       // added
  double winograd = 0;        // rate of its products relative to others; 0: none
  double winograd_fused = 0;  // the same in one kernel of 2 x 2 outputs
  friend bool operator==(const ConvolutionModel&, const ConvolutionModel&) = default;
};

// A kernel of fused attention: share of peak by sequence length, and a factor on it by head size. Causal
// attention has curves of its own; if they are empty, it counts as full at a quarter of its sequence.
struct AttentionKernel {
  Curve forward, backward, causal_forward, causal_backward, head_share;
  friend bool operator==(const AttentionKernel&, const AttentionKernel&) = default;
};

struct DeviceProfile {
  std::string name;
  int64_t memory_bytes = 0;
  double memory_bandwidth = 0;             // peak, bytes/s
  std::map<ir::DType, double> peak_flops;  // dense peak by type of the operands
  double tf32_flops = 0;                   // dense peak of float32 products in 19 bits; 0: none (use_tf32)
  double float4_flops = 0;                 // dense peak of products in 4 bits; 0: none (use_float8)
  int multiprocessors = 0;                 // for wave quantisation
  double launch_latency = 0;               // s between dependent kernels on a stream
  double kernel_floor = 0;                 // s, the shortest kernel
  Curve matmul_efficiency;  // share of peak by flops of the product; with tiles, a factor on their shares
  MatmulModel matmul;
  std::map<ir::DType, ConvolutionModel> convolution;  // by type of the operands
  Curve convolution_efficiency;                       // if `convolution` has no tiles: share of peak by flops
  Curve memory_efficiency;                            // share of peak bandwidth by bytes
  // A further factor on that share by op, 1 if absent; and one more if operands have 16 bits.
  std::map<std::string, double, std::less<>> op_share, half_op_share;
  std::map<std::string, double, std::less<>> op_seconds;  // added by op: kernels beyond its first
  std::optional<Float8Recipe> float8;                     // use_float8
  bool pads_channels = false;  // to multiples of 8 in 16 bits, without which convolutions use no tensor cores
  AttentionKernel attention;   // the kernel that runs
  std::string attention_kernel;                              // its name: "flash2", "cudnn"
  std::map<std::string, AttentionKernel> attention_kernels;  // others, by name (use_attention_kernel)
  // Share of the measured rate that 16-bit products sustain in a step (clocks, power). Above 1 if single
  // products were measured at lower clocks than a step has.
  double under_load = 1;
  // The most flop/s that 16-bit products sustain for seconds, within the device's power; 0: no bound.
  // Products that stay below are not slowed.
  double sustained_flops = 0;
  // Standard deviation, between devices of this type, of the rate of products, convolutions and attention. A
  // step waits for the slowest of its devices.
  double speed_spread = 0;
  double overlap_slowdown = 0;   // share of compute speed lost while a collective runs beside it
  double library_workspace = 0;  // bytes that a framework gives a matrix product library on this device
  std::optional<HostProfile> host;
  friend bool operator==(const DeviceProfile&, const DeviceProfile&) = default;
};

// A preset by name, or a YAML file by path. Throws Error naming file, line and column, or the nearest preset.
DeviceProfile load_device(const std::string& preset_or_path);
// The same from YAML text; messages name `file`.
DeviceProfile parse_device(const std::string& yaml, const std::string& file);
// YAML that parse_device reads back as the same device.
std::string to_yaml(const DeviceProfile& device);
std::vector<std::string> device_presets();  // names, sorted

// Puts float32 products on the tensor cores (19 bits) instead of full float32, as precision tf32 asks. Leaves
// devices without them as they are.
void use_tf32(DeviceProfile& device);

// Makes products of layers read 8 bits, as precision fp8 asks, or 4; this recipe scales and casts their
// operands. REQUIRES float4_flops if it has four_bits.
void use_float8(DeviceProfile& device, const Float8Recipe& recipe);

// Selects another kernel of fused attention: one that the device's description has, or FlashAttention 1 (or
// Triton's kernel of its time) if it has the second, "flash2". Throws Error (bad input, place
// "attention_kernel") naming those that it has.
void use_attention_kernel(DeviceProfile& device, const std::string& name);
// The names that use_attention_kernel takes, sorted.
std::vector<std::string> attention_kernels(const DeviceProfile& device);

}  // namespace boxcar::backends
