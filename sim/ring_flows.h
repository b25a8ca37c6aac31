// Collectives as all their flows: each rank's transfer to its neighbour in each round is its own flow.
//
//   all_reduce over ranks 0 1 2 3 of a node: 6 rounds of 4 flows, 0 -> 1, 1 -> 2, 2 -> 3, 3 -> 0
//   over 2 nodes of 4: 4 rings, rank k of one node to rank k of the other, 2 rounds each way
//   all_to_all over 2 nodes of 4: one round of 32 flows, from each rank to each on the other node
//
// A rank sends its part of a round once it has sent its part of the round before and received its
// neighbour's. All flows together carry the bytes that the one-flow form puts on each member's link, so that
// without contention both take the same time. For small tests: events grow with the square of the ring.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/platform.h"
#include "sim/virtual_time.h"

namespace boxcar::sim {

struct Ring {
  struct Hop {
    std::vector<int> links;
    int next = 0;  // the hop that its receiver sends
  };
  std::vector<Hop> hops;
  int rounds = 0;
  double part = 1;  // of the bytes on a member's link, in one hop of a round
};

// Rings over `devices` in rank order: one inside a node, otherwise one for each rank of a node. For an
// all-to-all, hops from each rank to each, without those inside nodes if the exchange is between nodes.
Ring ring_of(const Platform& platform, sbp::Collective collective, const std::vector<int>& devices,
             bool between_nodes);

// Runs rings; tags of its flows are numbers from `first_tag`.
class RingFlows {
 public:
  RingFlows(VirtualTime& time, int first_tag) : time_(time), first_tag_(first_tag) {}

  // `bytes` over each hop, in all rounds together.
  void start(int lead, const Ring& ring, double bytes);
  bool owns(int tag) const { return tag >= first_tag_; }
  // A flow of ours has ended; returns the lead of its collective if that is over.
  std::optional<int> ended(int tag);
  // The flows in flight, as numbers to compare.
  std::vector<int64_t> state() const;

 private:
  struct Run {
    int lead = -1;  // -1: free
    const Ring* ring = nullptr;
    double bytes = 0;              // of one flow
    std::vector<int> sent, begun;  // rounds, by hop
    int left = 0;                  // flows
  };
  struct Flow {
    int run = -1, hop = 0;
  };
  void begin(int run, int hop);
  void try_begin(int run, int hop);

  VirtualTime& time_;
  int first_tag_;
  std::vector<Run> runs_;
  std::vector<Flow> flows_;  // by tag - first_tag_
};

}  // namespace boxcar::sim
