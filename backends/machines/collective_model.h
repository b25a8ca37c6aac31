// Collectives of a cluster, as constants.
#pragma once

#include <string>

#include "backends/machines/bounds.h"

namespace boxcar::backends {

// Constants of the collectives (sim/models/collective_time.h has the formulas), in seconds and shares of a
// link. Defaults: an A100 on NVSwitch and InfiniBand (docs/collectives.md); clusters give their own
// measurements.
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
  int nvls_ranks = 5;     // from this many ranks on
  // all_to_all and point to point: the first for at most exchange_small_bytes to each rank, the second for
  // more; if that is 0, the faster of the two
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
  double flow_share = 1;    // of a NIC's bandwidth, reached by traffic of one device: transfers, trees
  friend bool operator==(const CollectiveModel&, const CollectiveModel&) = default;
};

// Every constant by its key in a cluster file, with its bounds (constants.h describes visitors). Reading,
// writing, --what-if and calibration use it. A line of share 0 is an algorithm that the cluster does not
// have.
template <class Visitor>
void visit_line(Visitor& v, const std::string& key, CollectiveModel::Line& line) {
  v.line(key, line.share > 0, [&] {
    v.number("base", 0, most_latency, line.base);
    v.number("hop", 0, most_latency, line.hop);
    v.number("share", 1e-4, 2, line.share);
  });
}

template <class Visitor>
void visit_line(Visitor& v, const std::string& key, CollectiveModel::NetLine& line) {
  v.line(key, line.share > 0, [&] {
    v.number("base", 0, most_latency, line.base);
    v.number("hop", 0, most_latency, line.hop);
    v.number("net_hop", 0, most_latency, line.net_hop);
    v.number("share", 1e-4, 2, line.share);
  });
}

template <class Visitor>
void visit(Visitor& v, CollectiveModel& m) {
  for (int i = 0; i < 3; ++i) visit_line(v, CollectiveModel::protocols[i], m.node[i]);
  visit_line(v, "nvls", m.nvls);
  visit_line(v, "exchange_small", m.exchange[0]);
  visit_line(v, "exchange", m.exchange[1]);
  visit_line(v, "transfer_small", m.transfer[0]);
  visit_line(v, "transfer", m.transfer[1]);
  v.whole("exchange_small_bytes", 0, 1 << 30, m.exchange_small_bytes);
  v.whole("nvls_ranks", 2, most_node_gpus, m.nvls_ranks);
  v.line("few_ranks_loss", true, [&] {
    v.number("all_reduce", 0, 1.5, m.all_reduce_loss);
    v.number("gather", 0, 1.5, m.gather_loss);
    v.number("exchange", 0, 1.5, m.exchange_loss);
  });
  v.inside("net", true, [&] {
    for (int i = 0; i < 3; ++i) {
      visit_line(v, std::string("ring_") + CollectiveModel::protocols[i], m.ring[i]);
      visit_line(v, std::string("tree_") + CollectiveModel::protocols[i], m.tree[i]);
    }
    visit_line(v, "exchange", m.net_exchange);
    v.number("nic_share", 1e-3, 1, m.nic_share);
    v.number("flow_share", 1e-3, 1, m.flow_share);
  });
}

}  // namespace boxcar::backends
