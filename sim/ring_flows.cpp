#include "sim/ring_flows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sbp/at.h"

namespace boxcar::sim {
namespace {

void add_ring(const Platform& platform, const std::vector<int>& devices, Ring& ring) {
  auto first = static_cast<int>(ring.hops.size()), ranks = static_cast<int>(devices.size());
  for (int i = 0; i < ranks; ++i) {
    int next = (i + 1) % ranks;
    ring.hops.push_back({platform.transfer(at(devices, i), at(devices, next)), first + next});
  }
}

Ring exchange_of(const Platform& platform, const std::vector<int>& devices, bool between_nodes) {
  Ring exchange;
  exchange.rounds = 1;
  int most = 0;  // ranks that one sends to
  for (int from : devices) {
    int receivers = 0;
    for (int to : devices) {
      if (to == from || (between_nodes && platform.node_of(to) == platform.node_of(from))) continue;
      exchange.hops.push_back({platform.transfer(from, to), static_cast<int>(exchange.hops.size())});
      ++receivers;
    }
    most = std::max(most, receivers);
  }
  exchange.part = 1.0 / most;
  return exchange;
}

}  // namespace

Ring ring_of(const Platform& platform, sbp::Collective collective, const std::vector<int>& devices,
             bool between_nodes) {
  if (collective == sbp::Collective::all_to_all) return exchange_of(platform, devices, between_nodes);
  std::map<int, std::vector<int>> by_node;
  for (int device : devices) by_node[platform.node_of(device)].push_back(device);
  const size_t members = by_node.begin()->second.size();
  const bool even =
      std::all_of(by_node.begin(), by_node.end(), [&](const auto& n) { return n.second.size() == members; });
  Ring ring;
  int ranks = static_cast<int>(devices.size());
  double carries = 1;  // times the bytes on a member's link
  if (!between_nodes || !even) {
    add_ring(platform, devices, ring);
    if (between_nodes)
      for (carries = ranks; const auto& [node, on_node] : by_node)
        carries = std::min(carries, static_cast<double>(on_node.size()));
  } else {
    for (size_t rank = 0; rank < members; ++rank) {
      std::vector<int> there;
      for (const auto& [node, on_node] : by_node) there.push_back(on_node[rank]);
      add_ring(platform, there, ring);
    }
    ranks = static_cast<int>(by_node.size());
  }
  const int times_around = collective == sbp::Collective::all_reduce ? 2 : 1;
  ring.rounds = times_around * (ranks - 1);
  ring.part = carries / ring.rounds;
  return ring;
}

void RingFlows::start(int lead, const Ring& ring, double bytes) {
  auto free = std::find_if(runs_.begin(), runs_.end(), [](const Run& run) { return run.lead < 0; });
  auto index = static_cast<int>(free - runs_.begin());
  if (free == runs_.end()) runs_.emplace_back();
  Run& run = at(runs_, index);
  size_t hops = ring.hops.size();
  run = {lead,
         &ring,
         bytes * ring.part,
         std::vector<int>(hops, 0),
         std::vector<int>(hops, 0),
         static_cast<int>(hops) * ring.rounds};
  for (int hop = 0; hop < static_cast<int>(hops); ++hop) begin(index, hop);
}

void RingFlows::begin(int run_index, int hop) {
  auto free = std::find_if(flows_.begin(), flows_.end(), [](const Flow& flow) { return flow.run < 0; });
  auto index = static_cast<int>(free - flows_.begin());
  if (free == flows_.end()) flows_.emplace_back();
  at(flows_, index) = {run_index, hop};
  Run& run = at(runs_, run_index);
  ++at(run.begun, hop);
  time_.flow(at(run.ring->hops, hop).links, run.bytes, first_tag_ + index);
}

std::optional<int> RingFlows::ended(int tag) {
  Flow flow = std::exchange(at(flows_, tag - first_tag_), Flow{});
  Run& run = at(runs_, flow.run);
  ++at(run.sent, flow.hop);
  if (--run.left == 0) {
    int lead = std::exchange(run.lead, -1);
    return lead;
  }
  try_begin(flow.run, flow.hop);
  try_begin(flow.run, at(run.ring->hops, flow.hop).next);
  return std::nullopt;
}

// A hop's next round needs its own last round sent, and the previous hop's last round received.
void RingFlows::try_begin(int run_index, int hop) {
  const Run& run = at(runs_, run_index);
  int round = at(run.begun, hop);
  if (round == run.ring->rounds || at(run.sent, hop) < round) return;
  for (size_t before = 0; before < run.ring->hops.size(); ++before) {
    if (run.ring->hops[before].next == hop && run.sent[before] < round) return;
  }
  begin(run_index, hop);
}

std::vector<int64_t> RingFlows::state() const {
  std::vector<int64_t> state;
  for (const Run& run : runs_) {
    if (run.lead < 0) continue;
    state.push_back(run.lead);
    state.insert(state.end(), run.sent.begin(), run.sent.end());
    state.insert(state.end(), run.begun.begin(), run.begun.end());
  }
  for (size_t flow = 0; flow < flows_.size(); ++flow) {
    if (flows_[flow].run < 0) continue;
    state.push_back(std::llround(time_.bytes_left(first_tag_ + static_cast<int>(flow)) / 4));
  }
  return state;
}

}  // namespace boxcar::sim
