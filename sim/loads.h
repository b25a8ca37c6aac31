// The links that the communication acts of a wiring load, and with what multiplicity.
//
//   folded, 16 nodes of 8 GPUs with a NIC each, all-reduce over groups of 16 (one rank a node): one flow over
//   the NIC of the class's first device, up and down, weight 1; with 4 NICs a node, weight 2: two groups'
//   flows on each
//
// A link stands for all links of the same classes. A flow counts on a link as often as flows of its kind
// cross it in reality. SimGrid takes whole weights: on each link the smallest ones in the same ratios.
//
// If devices are threads on shared cores, an act inside a node is a flow too. It carries the nanoseconds of
// work of its threads over their queues' own links, 1e9 a second each, and over the node's cores, once for
// every thread.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "sim/wiring.h"

namespace boxcar::sim {

class LoadBuilder {
 public:
  LoadBuilder(Wiring& wiring, const Platform& platform, const std::vector<int>& unit_of,
              const std::vector<std::vector<ActCost>>& costs)
      : w_(wiring), platform_(platform), unit_of_(unit_of), costs_(costs) {}

  // Fills in loads, paths and link capacities, and each actor's load; with `every_flow` rings for
  // collectives.
  void build(bool every_flow);

 private:
  using Weights = std::map<int, double>;  // by link

  void find_alike_links();
  void add_cores();
  bool load_cores(int actor, const ActCost& cost);
  int path_of(int actor, const CommTime& comm);
  int collective_path(const ir::Actor& op, int unit, const CommTime& comm);
  int pull_path(int unit, int peers, const CommTime& comm);
  int add_path(const Weights& own, const Weights& crossings, const CommTime& comm);
  int ring_of(int actor, const CommTime& comm);
  void mark_shared();
  void make_weights_whole(bool keep_capacities);

  Wiring& w_;
  const Platform& platform_;
  const std::vector<int>& unit_of_;  // by device
  const std::vector<std::vector<ActCost>>& costs_;
  int first_core_ = 0;  // links: the cores of every node, then one of every queue
  std::map<std::tuple<int, int, sbp::Collective>, int> rings_;  // by comm, unit, collective
  std::vector<Weights> weights_;                                // by path of the wiring
  std::vector<int> alike_;  // by link of the platform: the first link with the same classes on it
  // By whether it is a pull, comm or peers, collective, unit, between nodes, bandwidth.
  std::map<std::tuple<bool, int, sbp::Collective, int, bool, double>, int> known_;
};

}  // namespace boxcar::sim
