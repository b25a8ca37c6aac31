// Clusters and devices as descriptions: what a simulated platform, a cost model and a memory check read.
//
// YAML, in the project under backends/presets/, every number with its source in a comment:
//
//   name: dgx-a100-80g
//   device: a100-sxm-80g            # backends/presets/devices/a100-sxm-80g.yaml
//   nodes: 1
//   node: {gpus: 8, link: nvswitch, link_bandwidth: 300e9, nics: 8, nic_bandwidth: 25e9, ...}
//   fabric: {kind: leaf-spine, nodes_per_leaf: 20, oversubscription: 1, hop_latency: 0.6e-6}
//   slowdown: {12: 1.1}             # device 12 is a straggler
//
// Units are SI: bytes, bytes per second one way, seconds, flop per second. Every key and its bounds:
// docs/clusters.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types.h"

namespace boxcar::backends {

// One accelerator. The curves are what sim/models reads; each is a table of (x, share of peak) points that is
// interpolated in log x and clamped at its ends.
struct Curve {
  std::vector<double> x, y;
  double at(double x) const;  // 1 where the table is empty
  friend bool operator==(const Curve&, const Curve&) = default;
};

// How matrix products run: tiles of the output in waves over the multiprocessors, the operands' bytes beside
// them (sim/models/matmul_time.h has the formula).
struct MatmulModel {
  struct Tile {
    int rows = 0, columns = 0;  // tried both ways round
    double share = 1;           // of a multiprocessor's peak
    friend bool operator==(const Tile&, const Tile&) = default;
  };
  std::vector<Tile> tiles;     // empty: no quantisation, matmul_efficiency alone
  double wave_overlap = 0;     // 0: a wave is whole; 1: a part of a wave costs that part
  double wave_seconds = 0;     // added per wave
  double tile_seconds = 0;     // added per wave, by the tile's elements: of 256 x 128 so much
  double split_seconds = 0;    // added where k is split over multiprocessors
  double start_seconds = 0;    // added once
  double memory_share = 1;     // of peak bandwidth
  double cache_bandwidth = 0;  // bytes/s of the cache that tiles read from and parts meet in; 0: no bound
  double ramp_bytes = 0;       // added to the bytes
  std::map<ir::DType, double>
      type_share;        // further factor on the compute rate by operand type, 1 where absent
  double odd_share = 1;  // further factor in 16 bits where rows of an operand or the result are odd in length
  friend bool operator==(const MatmulModel&, const MatmulModel&) = default;
};

// Constants of the collectives (sim/models/collective_time.h has the formulas), in seconds and shares of a
// link. Defaults: an A100 on NVSwitch and InfiniBand (docs/collectives.md); clusters give what was measured on
// them.
struct CollectiveModel {
  struct Line {        // inside a node
    double base = 0;   // s
    double hop = 0;    // s per step
    double share = 1;  // of the bandwidth of a GPU's links
    friend bool operator==(const Line&, const Line&) = default;
  };
  struct NetLine {  // between nodes
    double base = 0;
    double hop = 0;      // s per step inside a node
    double net_hop = 0;  // s per step between nodes, beside the NIC's latency
    double share = 1;    // of nic_share
    friend bool operator==(const NetLine&, const NetLine&) = default;
  };
  // NCCL's protocols, in this order everywhere.
  static constexpr const char* protocols[] = {"ll", "ll128", "simple"};
  Line node[3] = {{7.99e-6, 0.94e-6, 0.029}, {11.1e-6, 0.995e-6, 0.441}, {35.9e-6, 3.65e-6, 0.795}};
  Line nvls = {0, 0, 0};  // reductions in the switch; share 0: none
  int nvls_ranks = 5;     // from this many on
  // all_to_all and point to point: the first for at most exchange_small_bytes to each rank, the second for
  // more; where that is 0 the least of both
  Line exchange[2] = {{11.6e-6, 0.267e-6, 0.251}, {24.6e-6, 2.24e-6, 0.704}};
  Line transfer[2] = {{11.9e-6, 0, 0.191}, {26.8e-6, 0, 0.535}};
  int exchange_small_bytes = 0;
  double all_reduce_loss = 0.40, gather_loss = 0.77,
         exchange_loss = 0.48;  // n ranks lose loss / n of the rate
  NetLine ring[3] = {
      {12.3e-6, 1.03e-6, 2.45e-6, 0.475}, {14e-6, 2.24e-6, 3.3e-6, 0.92}, {8.4e-6, 4.23e-6, 17.3e-6, 1}};
  NetLine tree[3] = {{18.2e-6, 1.51e-6, 2.32e-6, 0.037},
                     {34.6e-6, 2.22e-6, 5.13e-6, 0.442},
                     {8.4e-6, 3.57e-6, 15.2e-6, 0.838}};
  NetLine net_exchange = {20e-6, 0, 0, 0.9};
  double nic_share = 0.96;  // of the NICs' bandwidth, reached by the best protocol
  double flow_share =
      1;  // of a NIC's bandwidth, what enters or leaves by one device reaches: transfers, trees
  friend bool operator==(const CollectiveModel&, const CollectiveModel&) = default;
};

// What was measured of the machine that devices are in, in place of the cluster's node; 0 or none: not
// measured, as the cluster says.
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
  double input_grad = 1;  // rate of the pass over that of the forward one
  double weight_grad = 1;
  double strided_input_grad = 1;
  double pointwise_weight_grad = 1, pointwise_strided_input_grad = 1;  // in their place for 1x1 windows
  double input_grad_seconds = 0;                                       // added
  double winograd = 0;        // rate of its products over that of others; 0: none
  double winograd_fused = 0;  // the same in one kernel of 2 x 2 outputs
  friend bool operator==(const ConvolutionModel&, const ConvolutionModel&) = default;
};

struct DeviceProfile {
  std::string name;
  int64_t memory_bytes = 0;
  double memory_bandwidth = 0;             // peak, bytes/s
  std::map<ir::DType, double> peak_flops;  // dense peak by type of the operands
  double tf32_flops = 0;                   // dense peak of float32 products in 19 bits; 0: none (use_tf32)
  int multiprocessors = 0;                 // for wave quantisation
  double launch_latency = 0;               // s between dependent kernels on a stream
  double kernel_floor = 0;                 // s, the shortest kernel
  Curve matmul_efficiency;  // share of peak by flops of the product; with tiles, a factor on their shares
  MatmulModel matmul;
  std::map<ir::DType, ConvolutionModel> convolution;  // by type of the operands
  Curve convolution_efficiency;                       // where that has no tiles: share of peak by flops
  Curve memory_efficiency;                            // share of peak bandwidth by bytes
  // A further factor on it by op, 1 where absent; and one more where operands have 16 bits.
  std::map<std::string, double, std::less<>> op_share, half_op_share;
  bool float8_products = false;  // use_float8
  bool pads_channels = false;  // to multiples of 8 in 16 bits, without which convolutions use no tensor cores
  // Fused attention, share of peak by sequence length; causal kernels at a quarter of theirs; and a factor on
  // it by the size of a head.
  Curve attention_forward_efficiency, attention_backward_efficiency, attention_head_share;
  double under_load = 1;  // share of the measured rate that 16-bit products keep up in a step: clocks, power
  // Between devices of this type, of the rate of products, convolutions and attention: the standard
  // deviation. A step waits for the slowest of its devices.
  double speed_spread = 0;
  double overlap_slowdown = 0;   // share of compute speed lost while a collective runs beside
  double library_workspace = 0;  // bytes that a framework gives a matrix product library on this device
  std::optional<HostProfile> host;
  friend bool operator==(const DeviceProfile&, const DeviceProfile&) = default;
};

enum class LinkKind : uint8_t { nvswitch, nvlink_mesh, pcie, none };
enum class FabricKind : uint8_t { single_switch, leaf_spine, fat_tree, torus, dragonfly };

struct Node {
  int gpus = 8;
  LinkKind link = LinkKind::nvswitch;
  double link_bandwidth = 0;                 // per GPU, one way, all its links together
  double link_latency = 0;                   // s, one hop
  std::vector<std::vector<int>> mesh_links;  // for nvlink_mesh: number of links between pairs
  double pcie_bandwidth = 0;                 // per GPU one way, host <-> device
  int nics = 0;
  double nic_bandwidth = 0;  // per NIC, one way
  double nic_latency = 0;    // s, end to end between two nodes under one switch
  // Devices are threads on so many cores of the node, which acts of all kinds share fairly: n threads at once
  // run at min(1, cores / n) of their speed. What was measured, so it need not be whole. 0: every device is
  // hardware of its own.
  double cores = 0;
  // s in which an eager framework's host of speed 1 launches one op: forward and backward passes of smaller
  // kernels wait for it. 0: graphs, or a runtime without such cost.
  double host_per_op = 0;
  double host_speed = 1;  // of one core beside a DGX A100's (EPYC 7742)
  // Samples a second that a node prepares (reads, decodes), shared evenly by its devices. 0: as many as they
  // take.
  double load_rate = 0;
  // Of each device's memory what no tensor has on such nodes: CUDA's context, loaded kernels. With that of a
  // stack it is left out of what plans may take.
  double outside_bytes = 0;
  friend bool operator==(const Node&, const Node&) = default;
};

struct Fabric {
  FabricKind kind = FabricKind::single_switch;
  int nodes_per_leaf = 0;       // leaf_spine
  double oversubscription = 1;  // leaf_spine: down over up
  double hop_latency = 0;       // s added per further switch hop
  std::vector<int> dims;        // torus, fat_tree, dragonfly: SimGrid's own parameters
  friend bool operator==(const Fabric&, const Fabric&) = default;
};

// Which softmaxes of attention a framework's one kernel takes, and what the single kernels take that run
// where it does not: Megatron's wants a multiple of 4 squares (heads x sequences of a device) of at most
// 2,048 keys.
struct FusedSoftmax {
  int64_t multiple = 0;              // of squares; 0: takes all
  int64_t longest = 0;               // keys
  double forward = 1, backward = 1;  // times its bytes
  int kernels = 1;                   // in its place, either way
  friend bool operator==(const FusedSoftmax&, const FusedSoftmax&) = default;
};

// A framework takes memory for a tensor when a kernel writes it and takes it back after its last reader, from
// an allocator that also gives matrix product libraries their workspaces.
struct CachingAllocator {
  int workspaces = 0;           // one for each thread that calls such a library
  double workspace_bytes = 0;   // of one; 0: DeviceProfile::library_workspace
  bool gradients_stay = false;  // what gradients are summed in is never given back
  friend bool operator==(const CachingAllocator&, const CachingAllocator&) = default;
};

// What a training framework adds to a plan's kernels and collectives: backends/presets/stacks/*.yaml, each
// number with its source. Keys and meanings: docs/stacks.md. The default, boxcar's own, adds nothing.
struct Stack {
  std::string name = "boxcar";
  std::optional<double> host_per_op;  // s, in place of Node::host_per_op
  // Of each forward or backward pass, beside its ops: schedule, sends, batch. In a pipeline the host has
  // waited for a transfer before, and the device waits for all of them.
  double pass_launches = 0;
  std::map<std::string, double> op_launches;  // by op: launches that it stands for, 1 where absent
  // By op of a forward or backward pass: launches that the device stands still for, since before them the
  // host has asked it for a number.
  std::map<std::string, double> op_waits;
  // One process launches for all devices of a node, which take turns: a launch takes host_per_op for each.
  // The optimizer's launches, tensor by tensor, count too, as they wait for gradients of other devices.
  bool one_process = false;
  bool update_in_one = false;        // the optimizer takes all tensors of a device in a few kernels
  double piece_seconds = 0;          // s per rank, where gathers and scatters copy every rank's piece apart
  int64_t apart_elements = 0;        // tensors from this size on are gathered and scattered one by one
  bool gather_by_broadcast = false;  // after an update the rank that owns a tensor broadcasts it
  bool pads_channels = false;        // DeviceProfile::pads_channels
  // Products of weights' gradients add to sums in float32 themselves; no kernel adds them up.
  bool sums_in_products = false;
  // By op: times the bytes that boxcar's own kernel moves; and further where operands have 16 bits.
  std::map<std::string, double> op_bytes, half_op_bytes;
  bool reduce_whole = false;       // gradients of sharded states are all-reduced
  bool reduce_in_float32 = false;  // these, whatever their type
  bool ring_attention = false;     // gathered keys and values go round in a ring (sim/ring_attention.h)
  double outside_bytes = 0;        // of a device's memory that no tensor has: context, libraries, NCCL
  double fragmentation = 0;        // beside what comes and goes so much of it more is held in vain
  std::optional<CachingAllocator> allocator;  // none: an arena whose layout is planned
  FusedSoftmax fused_softmax;
  std::map<std::string, double> all_reduces;  // by tensor of a layer: how often tensor parallelism reduces it
  // By op: how often its results are copied where a device has more than one sequence, since positions lie
  // before sequences there; by tensor: how often it is copied where it has been gathered, part by part.
  std::map<std::string, double> batch_copies, gather_copies;
  std::map<std::string, double> op_kept;        // by op: times the bytes of its output that stay with it
  std::map<std::string, std::string> defaults;  // of job keys by path, where a job says nothing
  friend bool operator==(const Stack&, const Stack&) = default;
};

struct Cluster {
  std::string name;
  DeviceProfile device;
  Node node;
  Fabric fabric;
  int nodes = 1;
  std::map<int, double> slowdown;  // device -> factor >= 1 on its kernel times (stragglers)
  CollectiveModel collective;
  Stack stack;                    // put_stack
  double price_per_gpu_hour = 0;  // 0: not known

  int devices() const { return nodes * node.gpus; }
  int node_of(int device) const { return device / node.gpus; }
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// A preset by name, or a YAML file by path, sized to `gpus` devices (0: the file's own number of nodes).
// Where gpus is less than a node holds, the node shrinks. Throws Error naming file, line and column, or the
// nearest preset.
Cluster load_cluster(const std::string& preset_or_path, int gpus = 0);
// The same of a cluster that is there; 0 leaves it as it is.
void resize(Cluster& cluster, int gpus);
DeviceProfile load_device(const std::string& preset_or_path);
// The same from YAML text; `file` stands in messages. A device that is named by path is looked for beside
// `file`.
Cluster parse_cluster(const std::string& yaml, const std::string& file, int gpus = 0);
DeviceProfile parse_device(const std::string& yaml, const std::string& file);
// What parse_device reads back as the same device.
std::string to_yaml(const DeviceProfile& device);
// The same of a cluster, but for its stack. `device`: as what it is named, a preset or a file beside.
std::string to_yaml(const Cluster& cluster, const std::string& device);
std::vector<std::string> cluster_presets();  // names, sorted
std::vector<std::string> device_presets();

// By name, or a YAML file by path. Throws Error (bad input, place "stack") naming the nearest, or of the
// file.
Stack load_stack(const std::string& name);
// Reads back what backends/presets/stacks/ holds; `file` stands in messages.
Stack parse_stack(const std::string& yaml, const std::string& file);
std::vector<std::string> stack_names();  // sorted
// The cluster under a framework: its own host time, and op_bytes in the device's op_share.
void put_stack(Cluster& cluster, const Stack& stack);
// Of a device's memory, what no tensor has: on such nodes, and under the stack.
double outside_bytes(const Cluster& cluster);
// Of all libraries' workspaces that the stack's allocator gives; 0 where it has none.
double library_workspaces(const Cluster& cluster);

// Another device in the cluster's nodes, with what it says of its host.
void put_device(Cluster& cluster, DeviceProfile device);

// float32 products on the tensor cores (19 bits) instead of in full float32, as precision tf32 asks. Leaves
// devices without them as they are.
void use_tf32(DeviceProfile& device);

// Products of layers read 8 bits, as precision fp8 asks: their operands are scaled and cast before each.
void use_float8(DeviceProfile& device);

// Fused attention by FlashAttention 1, or Triton's kernel of its time, instead of 2, which profiles hold.
// REQUIRES version 1 or 2.
void use_flash_version(DeviceProfile& device, int version);

const char* to_text(LinkKind kind);    // "nvlink-mesh"
const char* to_text(FabricKind kind);  // "leaf-spine"
// A table for people: devices, memory, peaks, links, network.
std::string describe(const Cluster& cluster);

}  // namespace boxcar::backends
