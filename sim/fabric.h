// Networks between nodes as SimGrid models them: fat tree, torus, dragonfly, with SimGrid's parameters and
// routes.
//
//   torus        dims 4, 2, 2: 16 nodes
//   fat-tree     dims 2;  4, 4;  1, 2;  1, 2: 16 nodes
//                levels; by level, nodes down, switches up, parallel links
//   dragonfly    dims 3, 4;  4, 2;  3, 1;  2: 72 nodes
//                groups, chassis, routers, each with its number of links; nodes of a router
//
// Written flat (2, 4, 4, 1, 2, 1, 2). Each way, a link has the bandwidth of all NICs of a node together,
// times the number of parallel links. Like all our links it has no latency.
#pragma once

#include <map>
#include <vector>

#include "backends/machines/forward.h"

namespace boxcar::sim {

class Fabric {
 public:
  // Empty for the fabrics that Platform describes itself. Throws Error (bad input) on dims that do not
  // describe a network or hold fewer nodes than the cluster has.
  explicit Fabric(const backends::Cluster& cluster);

  const std::vector<double>& capacities() const { return capacities_; }  // bytes/s, by link
  // Links from one node to another, from != to.
  std::vector<int> route(int from, int to) const;

 private:
  std::vector<double> capacities_;
  std::map<const void*, int> links_;  // by SimGrid's link
  std::vector<void*> hosts_;          // SimGrid's, by node
};

}  // namespace boxcar::sim
