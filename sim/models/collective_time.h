// How long a collective or a transfer runs on a cluster, and which links it loads: NCCL's algorithms in
// closed form.
//
//   all_reduce of n bytes over 8 GPUs of one DGX A100: latency + n / bandwidth, the least over (ring, tree) x
//   (LL, LL128, Simple); the flow then crosses each member's NVLink port.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cluster.h"
#include "sbp/boxing.h"

namespace boxcar::sim {

// How a group lies on a cluster.
struct Span {
  int ranks = 1;
  int nodes = 1;
  int ranks_per_node = 1;  // the most on one node
  int leaves = 1;          // leaf switches reached
  friend auto operator<=>(const Span&, const Span&) = default;
};
Span span_of(const backends::Cluster& cluster, const std::vector<int>& devices);

// time = latency + bytes_on_link / link_bandwidth when nothing else uses the links.
struct CommTime {
  double latency = 0;  // s, during which no link is loaded
  double bytes_on_link =
      0;  // what crosses each member's bottleneck link, one way, inflated by protocol overhead
  double link_bandwidth = 0;   // bytes/s of that link
  bool between_nodes = false;  // the bottleneck is a NIC, else the link inside a node
  const char* algorithm = "";  // "ring/simple", for reports
  double seconds() const { return latency + (bytes_on_link > 0 ? bytes_on_link / link_bandwidth : 0); }
};

// `bytes`: the larger of one rank's input and output (nccl-tests' size). Groups of one take nothing.
CommTime collective_time(const backends::Cluster& cluster, sbp::Collective collective, int64_t bytes,
                         const Span& span);
// Point to point between two devices.
CommTime transfer_time(const backends::Cluster& cluster, int64_t bytes, int from, int to);

}  // namespace boxcar::sim
