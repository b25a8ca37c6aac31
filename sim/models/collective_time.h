// The time of a collective or a transfer on a cluster, and the links that it loads: NCCL's algorithms in
// closed form.
//
//   all_reduce of 64 MiB over the 8 GPUs of a DGX A100, protocol simple: 14 steps
//   latency       = 32.8 us + 14 x 4.29 us
//   bytes_on_link = 2 x 7/8 x 64 MiB / (0.786 x (1 - 0.37/8)), over links of 300 GB/s:   0.616 ms
//   and the least of that over (ring, tree, NVLS) x (LL, LL128, simple), which NCCL would choose
//
// Between nodes a ring enters and leaves a node once per NIC: each member's NIC carries the bus bytes divided
// by the members in its node, and the node with the fewest takes longest; a tree sends the bytes once to the
// other of two nodes and twice from a node inside the tree. A ring's steps inside nodes and between them have
// latencies of their own. Slower links inside the nodes limit the rate on NICs.
//
// A ring leaves a leaf switch once. In an exchange each member sends to each, so most bytes leave it: of 4
// nodes with a member each, 2 of them under each leaf, a member sends a third of its bytes to its neighbour
// and the rest to the other leaf.
//
// Constants: backends::CollectiveModel, fitted to published nccl-tests (docs/collectives.md).
#pragma once

#include <cstdint>
#include <vector>

#include "backends/machines/forward.h"
#include "sbp/boxing.h"

namespace boxcar::sim {

// 0 if the fabric has no leaf switches.
int nodes_per_leaf(const backends::Cluster& cluster);
int leaves_of(const backends::Cluster& cluster);  // 1 if it has none

// The placement of a group on a cluster.
struct Span {
  int ranks = 1;
  int nodes = 1;
  int ranks_per_node = 1;  // the most on one node
  int leaves = 1;          // leaf switches reached
  int fewest_on_node = 0;  // 0: as many as the most
  int fewest() const { return fewest_on_node > 0 ? fewest_on_node : ranks_per_node; }
  friend auto operator<=>(const Span&, const Span&) = default;
};
Span span_of(const backends::Cluster& cluster, const std::vector<int>& devices);

// Bytes/s one way of a device's links to the others of its node; over PCIe if it has no links.
double device_bandwidth(const backends::Node& node);

// time = latency + bytes_on_link / link_bandwidth when nothing else uses the links.
struct CommTime {
  double latency = 0;  // s, during which no link is loaded
  double bytes_on_link =
      0;  // bytes over each member's bottleneck link, one way, inflated by protocol overhead
  double link_bandwidth = 0;   // bytes/s of that link, or of what limits it; if members share NICs, of a part
  double nic_part = 0;         // bytes/s of a member's part of the NICs, if between nodes
  bool between_nodes = false;  // the bottleneck is a NIC, otherwise the link inside a node
  double leaving = 0;          // of bytes_on_link, the part that leaves a member's leaf switch, on average
  const char* algorithm = "";  // "ring/simple", for reports
  double seconds() const { return latency + (bytes_on_link > 0 ? bytes_on_link / link_bandwidth : 0); }
};

// `bytes`: the larger of one rank's input and output (nccl-tests' size). Groups of one take nothing. A group
// inside a node with an NVLink mesh is assumed to be the node's first GPUs, which decides how many links they
// have.
CommTime collective_time(const backends::Cluster& cluster, sbp::Collective collective, int64_t bytes,
                         const Span& span);
// What one rank sends in an exchange: over NICs to other nodes, and to other GPUs of a node.
struct ExchangedBytes {
  double between_nodes = 0, in_node = 0;
};
// An exchange in which both go at once: NICs wait for links inside nodes if these take longer.
CommTime exchange_time(const backends::Cluster& cluster, const ExchangedBytes& sent, const Span& span);
// How often bytes_on_link pass the uplink of a leaf switch with `in_leaf` of the group's `ranks` members, if
// it has up to `on_node` on a node: once for each ring or tree, or for what each member sends to other
// leaves.
double flows_from_leaf(sbp::Collective collective, int ranks, int on_node, double in_leaf);
// A collective of many tensors if they go one by one: each waits for its own latency, and its pieces are
// copied rank by rank, `piece_seconds` each.
CommTime one_by_one(CommTime all, double tensors, int ranks, double piece_seconds);
// Traffic of other groups beside one group's.
struct Beside {
  double on_nic = 1;   // bytes over a NIC for each byte of the group's
  double of_leaf = 1;  // the part of a leaf switch's nodes whose devices all send as much
};
// Seconds of a communication beside others: between nodes they share NICs and the uplinks of leaf switches.
// The algorithm is that of the group alone.
double seconds_beside(const backends::Cluster& cluster, const CommTime& alone, const Beside& others);
// The same if `devices` devices of each node do as much at once, each in its own group or several in one.
double seconds_beside(const backends::Cluster& cluster, const CommTime& alone, int devices,
                      double of_leaf = 1);
// Bytes/s of the host's memory for each device of a node. Throws Error (bad input) if it is not known.
double host_bandwidth(const backends::Cluster& cluster);
// Point to point between two devices. Between nodes of a cluster with several leaf switches the latency is
// that between leaves, even inside one leaf. The difference, a microsecond, would make devices of a stage
// differ (sim/fold.h).
CommTime transfer_time(const backends::Cluster& cluster, int64_t bytes, int from, int to);
// The same between memory of two devices' hosts: no kernel of a device starts it, and inside a node the bytes
// are read and written in the host's memory, of which each device has an equal share.
CommTime host_transfer_time(const backends::Cluster& cluster, int64_t bytes, int from, int to);

}  // namespace boxcar::sim
