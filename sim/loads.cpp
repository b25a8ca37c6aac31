#include "sim/loads.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sbp/at.h"

namespace boxcar::sim {
namespace {

constexpr double core_rate = 1e9;  // nanoseconds of work in a second

std::vector<int> units_in(const std::vector<int>& devices, const std::vector<int>& unit_of) {
  std::vector<int> units;
  for (int device : devices) units.push_back(at(unit_of, device));
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

}  // namespace

void LoadBuilder::build(bool every_flow) {
  find_alike_links();
  if (platform_.cores() > 0) add_cores();
  for (int actor = 0; actor < static_cast<int>(w_.actors.size()); ++actor) {
    WiredActor& wired = at(w_.actors, actor);
    const ActCost& cost = at(at(costs_, wired.unit), wired.local);
    if (load_cores(actor, cost)) continue;
    const CommTime& comm = cost.comm;
    if (comm.bytes_on_link <= 0 || w_.lead_of(actor) != actor) continue;
    int path = path_of(actor, comm);
    double bandwidth = std::min(comm.link_bandwidth, at(w_.paths, path).bandwidth);
    wired.alone = wired.wait + to_ticks(comm.bytes_on_link / bandwidth);
    wired.load = static_cast<int>(w_.loads.size());
    bool ring = every_flow && w_.actor(actor).kind == ir::ActorKind::collective;
    w_.loads.push_back({path, comm.bytes_on_link, ring ? ring_of(actor, comm) : -1});
  }
  mark_shared();
  if (!every_flow) reduce_weights();  // flows of rings cross each link once
}

void LoadBuilder::add_cores() {
  first_core_ = static_cast<int>(w_.link_capacity.size());
  w_.link_capacity.insert(w_.link_capacity.end(), static_cast<size_t>(platform_.nodes()),
                          core_rate * platform_.cores());
  w_.link_capacity.insert(w_.link_capacity.end(), w_.queues.size(), core_rate);
}

// False if the act does not run on cores that are shared.
bool LoadBuilder::load_cores(int actor, const ActCost& cost) {
  if (platform_.cores() <= 0 || cost.comm.between_nodes) return false;
  WiredActor& wired = at(w_.actors, actor);
  const double work = cost.total() - cost.comm.latency;
  if (work <= 0 || w_.lead_of(actor) != actor) return true;
  wired.wait = to_ticks(cost.comm.latency);
  wired.load = static_cast<int>(w_.loads.size());
  Path path{{}, core_rate, false};
  std::map<int, int> crowd;  // threads by node
  std::vector<int> threads{actor};
  if (wired.joint >= 0) threads = at(w_.joints, wired.joint);
  for (int thread : threads) {
    if (thread >= static_cast<int>(w_.actors.size())) continue;  // a turn: no thread works there
    const WiredActor& member = at(w_.actors, thread);
    const int node = platform_.node_of(at(w_.plan->classes, member.unit).devices.front());
    path.bandwidth = std::min(path.bandwidth, core_rate * platform_.cores() / ++crowd[node]);
    path.links.push_back(first_core_ + node);
    path.links.push_back(first_core_ + platform_.nodes() + member.queue);
  }
  wired.alone = wired.wait + to_ticks(work * core_rate / path.bandwidth);
  w_.loads.push_back({static_cast<int>(w_.paths.size()), work * core_rate});
  w_.paths.push_back(std::move(path));
  return true;
}

// Links at the same place of devices of the same classes are one link.
void LoadBuilder::find_alike_links() {
  auto links = static_cast<size_t>(platform_.links());
  std::vector<std::pair<int, std::vector<int>>> signature(links);  // place, units
  for (int device = 0; device < static_cast<int>(unit_of_.size()); ++device) {
    int place = 0;
    for (int link : platform_.links_of(device)) {
      at(signature, link).first = place++;
      at(signature, link).second.push_back(at(unit_of_, device));
    }
  }
  std::map<std::pair<int, std::vector<int>>, int> first;
  alike_.resize(links);
  for (size_t link = 0; link < links; ++link) {
    std::sort(signature[link].second.begin(), signature[link].second.end());
    if (signature[link].second.empty()) signature[link].first = -1 - static_cast<int>(link);  // like no other
    alike_[link] = first.try_emplace(std::move(signature[link]), static_cast<int>(link)).first->second;
    w_.link_capacity.push_back(platform_.capacity(static_cast<int>(link)));
  }
}

int LoadBuilder::path_of(int actor, const CommTime& comm) {
  const WiredActor& wired = at(w_.actors, actor);
  const ir::Actor& op = w_.actor(actor);
  bool collective = op.kind == ir::ActorKind::collective;
  int peers = -1;
  for (const ir::Input& input : op.inputs) {
    if (peers < 0) peers = input.peers;
  }
  int key = collective ? op.comm : peers;
  auto [path, made] =
      known_.try_emplace({collective ? 0 : 1, key, wired.unit, comm.between_nodes, comm.link_bandwidth});
  if (made)
    path->second = collective ? collective_path(wired.unit, key, comm) : pull_path(wired.unit, key, comm);
  return path->second;
}

int LoadBuilder::collective_path(int unit, int comm_index, const CommTime& comm) {
  const ir::Comm& groups = at(w_.plan->comms, comm_index);
  std::vector<int> own_group = group_of(groups, at(w_.plan->classes, unit).devices.front());
  std::vector<int> units = units_in(own_group, unit_of_);
  std::map<int, int> crossings;
  for (const auto& group : groups.groups) {
    if (units_in(group, unit_of_) != units) continue;
    for (int link : platform_.collective(group, comm.between_nodes)) ++crossings[link];
  }
  return add_path(platform_.collective(own_group, comm.between_nodes), crossings, comm);
}

int LoadBuilder::ring_of(int actor, const CommTime& comm) {
  const ir::Actor& op = w_.actor(actor);
  int unit = at(w_.actors, actor).unit, rounds = op.collective == sbp::Collective::all_reduce ? 2 : 1;
  auto [ring, made] = rings_.try_emplace({op.comm, unit, rounds}, static_cast<int>(w_.rings.size()));
  if (made) {
    std::vector<int> group =
        group_of(at(w_.plan->comms, op.comm), at(w_.plan->classes, unit).devices.front());
    w_.rings.push_back(sim::ring_of(platform_, group, comm.between_nodes, rounds));
  }
  return ring->second;
}

int LoadBuilder::pull_path(int unit, int peers, const CommTime& comm) {
  const auto& source = at(w_.plan->peers, peers).source;
  std::map<int, int> crossings;
  std::vector<int> own;
  for (int device : at(w_.plan->classes, unit).devices) {
    int from = at(source, device);
    if (from < 0 || from == device) continue;
    std::vector<int> links = platform_.transfer(from, device);
    if (own.empty()) own = links;
    for (int link : links) ++crossings[link];
  }
  return add_path(own, crossings, comm);
}

int LoadBuilder::add_path(const std::vector<int>& own, const std::map<int, int>& crossings,
                          const CommTime& comm) {
  std::map<int, int> self, weight;  // by link that stands for its like
  std::map<int, int> times;
  for (int link : own) ++times[link];
  for (const auto& [link, count] : times) {
    int stands = at(alike_, link);
    self[stands] = std::max(self[stands], count);
    auto crossing = crossings.find(stands);
    if (crossing != crossings.end()) weight[stands] = crossing->second;
  }
  Path path;
  path.bandwidth = comm.link_bandwidth;
  for (auto& [link, count] : weight) {
    double capacity = at(w_.link_capacity, link);
    // The members of a group on a node share its NICs evenly, even if one NIC is that of most of them.
    const double fit =
        platform_.is_in_fabric(link) ? 1 : std::min(1.0, capacity / (comm.link_bandwidth * self[link]));
    count = std::max(1, static_cast<int>(std::lround(count * fit)));
    path.bandwidth = std::min(path.bandwidth, capacity / count);
    path.links.insert(path.links.end(), static_cast<size_t>(count), link);
  }
  bool bound = std::all_of(weight.begin(), weight.end(), [&](const auto& entry) {
    return comm.link_bandwidth < at(w_.link_capacity, entry.first) / entry.second * (1 - 1e-9);
  });
  if (bound) {  // the model's limit is not one of the links: add a link for it
    path.links.push_back(static_cast<int>(w_.link_capacity.size()));
    w_.link_capacity.push_back(comm.link_bandwidth);
  }
  w_.paths.push_back(std::move(path));
  return static_cast<int>(w_.paths.size()) - 1;
}

// Flows that all hold the same queue can never run together: a link with only such flows is not shared.
void LoadBuilder::mark_shared() {
  std::vector<std::vector<int>> common(w_.link_capacity.size());  // queues that all flows so far hold
  std::vector<bool> used(w_.link_capacity.size(), false);
  for (int actor = 0; actor < static_cast<int>(w_.actors.size()); ++actor) {
    const WiredActor& wired = at(w_.actors, actor);
    if (wired.load < 0) continue;
    std::vector<int> held{wired.queue};
    if (wired.joint >= 0) {
      held.clear();
      for (int member : at(w_.joints, wired.joint)) {
        int turn = member - static_cast<int>(w_.actors.size());
        held.push_back(turn < 0 ? at(w_.actors, member).queue : at(w_.turns, turn).queue);
      }
    }
    std::sort(held.begin(), held.end());
    for (int link : at(w_.paths, at(w_.loads, wired.load).path).links) {
      std::vector<int>& queues = at(common, link);
      if (!at(used, link)) {
        queues = held;
      } else {
        std::erase_if(queues,
                      [&](int queue) { return !std::binary_search(held.begin(), held.end(), queue); });
      }
      at(used, link) = true;
    }
  }
  for (Path& path : w_.paths) {
    path.shared =
        std::any_of(path.links.begin(), path.links.end(), [&](int link) { return at(common, link).empty(); });
  }
}

// Divides the weights on a link, and its capacity, by the weights' common divisor.
void LoadBuilder::reduce_weights() {
  std::vector<int> divisor(w_.link_capacity.size(), 0);
  for (const Path& path : w_.paths) {
    std::map<int, int> weight;
    for (int link : path.links) ++weight[link];
    for (const auto& [link, count] : weight) at(divisor, link) = std::gcd(at(divisor, link), count);
  }
  for (Path& path : w_.paths) {
    std::map<int, int> weight;
    for (int link : path.links) ++weight[link];
    path.links.clear();
    for (const auto& [link, count] : weight)
      path.links.insert(path.links.end(), static_cast<size_t>(count / at(divisor, link)), link);
  }
  for (size_t link = 0; link < divisor.size(); ++link) {
    if (divisor[link] > 1) w_.link_capacity[link] /= divisor[link];
  }
}

}  // namespace boxcar::sim
