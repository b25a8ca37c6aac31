#include "sim/explain/link_traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "backends/machines/cluster.h"
#include "sbp/at.h"
#include "sim/durations.h"

namespace boxcar::explain {
namespace {

enum class Reach : uint8_t { host, node, network };

struct Link {
  Reach reach = Reach::node;
  std::string over;
};

// The devices between which an actor moves data, seen from one of them.
Link link_of(const ir::Plan& plan, const backends::Cluster& cluster, const ir::Actor& actor, int device) {
  if (actor.kind == ir::ActorKind::copy) return {Reach::host, ""};
  std::vector<int> devices{device};
  Link link;
  if (actor.comm >= 0) {
    const ir::Comm& comm = at(plan.comms, actor.comm);
    devices = sim::group_of(comm, device);
    link.over = fmt::format("{} {}", comm.name, devices.size());
  }
  for (const ir::Input& input : actor.inputs)
    if (input.peers >= 0) devices.push_back(at(at(plan.peers, input.peers).source, device));
  std::set<int> nodes;
  for (const int one : devices) nodes.insert(cluster.node_of(one));
  link.reach = nodes.size() > 1 ? Reach::network : Reach::node;
  return link;
}

void describe_link(const backends::Cluster& cluster, Reach reach, LinkTraffic& row) {
  const backends::Node& node = cluster.node;
  switch (reach) {
    case Reach::host:
      row.link = "PCIe, host and device", row.link_bandwidth = node.pcie_bandwidth;
      break;
    case Reach::node:
      row.link = fmt::format("{}, in a node", backends::to_text(node.link));
      row.link_bandwidth = node.link_bandwidth;
      break;
    case Reach::network:
      row.link = fmt::format("network between nodes, {}", backends::to_text(cluster.fabric.kind));
      row.link_bandwidth = node.nics * node.nic_bandwidth / node.gpus;
      break;
  }
}

}  // namespace

std::vector<LinkTraffic> link_traffic(const ir::Plan& plan, const backends::Cluster& cluster,
                                      const sim::StepTimeline& timeline) {
  std::vector<LinkTraffic> all;
  std::vector<char> seen(plan.programs.size(), 0);
  sim::ActCosts act_costs(plan, cluster);
  for (const ir::RankClass& cls : plan.classes) {
    if (std::exchange(at(seen, cls.program), 1)) continue;
    const ir::Program& program = at(plan.programs, cls.program);
    const int device = cls.devices.front();
    const sim::ClassTimeline* simulated = nullptr;
    for (size_t c = 0; c < timeline.classes().size(); ++c)
      if (!simulated && timeline.classes()[c].program == &program && timeline.kept(c))
        simulated = &timeline.classes()[c];
    std::vector<int64_t> runs(program.phases.size());
    for (const ir::PhaseRun& run : program.schedule) ++at(runs, run.phase);
    const std::vector<sim::ActCost> costs = act_costs.of(cls.program, device);
    std::map<std::tuple<Reach, std::string, std::string>, LinkTraffic> rows;
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const ir::Actor& actor = program.actors[a];
      if (!sim::is_communication(actor)) continue;
      const Link link = link_of(plan, cluster, actor, device);
      const std::string what =
          actor.kind == ir::ActorKind::collective ? sbp::to_text(actor.collective) : to_text(actor.kind);
      LinkTraffic& row = rows[{link.reach, what, link.over}];
      row.stage = program.name, row.what = what, row.over = link.over;
      describe_link(cluster, link.reach, row);
      const int64_t acts = at(runs, actor.phase);
      row.acts += acts;
      row.bytes += static_cast<double>(acts) * sim::moved_bytes(plan, cluster, program, actor, device).size;
      row.alone_seconds += static_cast<double>(acts) * costs[a].total();
      if (simulated)
        for (const sim::Act& act : simulated->last[a]) row.simulated_seconds += act.end - act.start;
    }
    for (auto& [key, row] : rows) all.push_back(std::move(row));
  }
  return all;
}

}  // namespace boxcar::explain
