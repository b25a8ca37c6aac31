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

// A factor that makes numbers whole: exactly if all are whole, otherwise within 1 % of each, or of the
// largest over as many parts.
double whole_scale(const std::vector<double>& numbers) {
  int64_t divisor = 0;
  double least = numbers.front(), most = least;
  bool whole = true;
  for (double number : numbers) {
    whole = whole && number == std::floor(number);
    if (whole) divisor = std::gcd(divisor, static_cast<int64_t>(number));
    least = std::min(least, number), most = std::max(most, number);
  }
  if (whole) return 1 / static_cast<double>(divisor);
  constexpr int most_parts = 64;
  for (int parts = 1; parts <= most_parts; ++parts) {
    const double scale = parts / least;
    const bool fits = std::all_of(numbers.begin(), numbers.end(), [&](double number) {
      return std::abs(std::round(number * scale) - number * scale) <= 0.01 * number * scale;
    });
    if (fits) return scale;
  }
  return most_parts / most;
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
  make_weights_whole(every_flow);  // the flows of a ring cross each link once
  mark_shared();
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
  Weights weights;
  std::map<int, int> crowd;  // threads by node
  std::vector<int> threads{actor};
  if (wired.joint >= 0) threads = at(w_.joints, wired.joint);
  for (int thread : threads) {
    if (thread >= static_cast<int>(w_.actors.size())) continue;  // a turn: no thread works there
    const WiredActor& member = at(w_.actors, thread);
    const int node = platform_.node_of(at(w_.plan->classes, member.unit).devices.front());
    path.bandwidth = std::min(path.bandwidth, core_rate * platform_.cores() / ++crowd[node]);
    ++weights[first_core_ + node];
    ++weights[first_core_ + platform_.nodes() + member.queue];
  }
  wired.alone = wired.wait + to_ticks(work * core_rate / path.bandwidth);
  w_.loads.push_back({static_cast<int>(w_.paths.size()), work * core_rate});
  w_.paths.push_back(std::move(path));
  weights_.push_back(std::move(weights));
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
  auto [path, made] = known_.try_emplace({!collective, collective ? op.comm : peers, op.collective,
                                          wired.unit, comm.between_nodes, comm.link_bandwidth});
  if (made)
    path->second = collective ? collective_path(op, wired.unit, comm) : pull_path(wired.unit, peers, comm);
  return path->second;
}

int LoadBuilder::collective_path(const ir::Actor& op, int unit, const CommTime& comm) {
  const ir::Comm& groups = at(w_.plan->comms, op.comm);
  const std::vector<int> own_group = group_of(groups, at(w_.plan->classes, unit).devices.front());
  const std::vector<int> units = units_in(own_group, unit_of_);
  const Weights own = platform_.collective(op.collective, own_group, comm.between_nodes);
  Weights crossings;
  for (const auto& group : groups.groups) {
    if (units_in(group, unit_of_) != units) continue;
    for (const auto& [link, flows] :
         group == own_group ? own : platform_.collective(op.collective, group, comm.between_nodes))
      crossings[link] += flows;
  }
  return add_path(own, crossings, comm);
}

int LoadBuilder::ring_of(int actor, const CommTime& comm) {
  const ir::Actor& op = w_.actor(actor);
  const int unit = at(w_.actors, actor).unit;
  auto [ring, made] = rings_.try_emplace({op.comm, unit, op.collective}, static_cast<int>(w_.rings.size()));
  if (made) {
    std::vector<int> group =
        group_of(at(w_.plan->comms, op.comm), at(w_.plan->classes, unit).devices.front());
    w_.rings.push_back(sim::ring_of(platform_, op.collective, group, comm.between_nodes));
  }
  return ring->second;
}

int LoadBuilder::pull_path(int unit, int peers, const CommTime& comm) {
  const auto& source = at(w_.plan->peers, peers).source;
  Weights own, crossings;
  for (int device : at(w_.plan->classes, unit).devices) {
    const int from = at(source, device);
    if (from < 0 || from == device) continue;
    const bool first = crossings.empty();
    for (int link : platform_.transfer(from, device)) {
      ++crossings[link];
      if (first) ++own[link];
    }
  }
  return add_path(own, crossings, comm);
}

int LoadBuilder::add_path(const Weights& own, const Weights& crossings, const CommTime& comm) {
  Weights weights;  // by link that stands for its like
  for (const auto& [link, flows] : own)
    if (const auto crossing = crossings.find(at(alike_, link)); crossing != crossings.end())
      weights.insert(*crossing);
  Path path;
  path.bandwidth = comm.link_bandwidth;
  for (const auto& [link, flows] : weights)
    path.bandwidth = std::min(path.bandwidth, at(w_.link_capacity, link) / flows);
  const bool bound = std::all_of(weights.begin(), weights.end(), [&](const auto& entry) {
    return comm.link_bandwidth < at(w_.link_capacity, entry.first) / entry.second * (1 - 1e-9);
  });
  if (bound) {  // the model's limit is not one of the links: add a link for it
    weights[static_cast<int>(w_.link_capacity.size())] = 1;
    w_.link_capacity.push_back(comm.link_bandwidth);
  }
  w_.paths.push_back(std::move(path));
  weights_.push_back(std::move(weights));
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

// The links of each path. A link's capacity is scaled with its weights, unless it is to be kept.
void LoadBuilder::make_weights_whole(bool keep_capacities) {
  std::vector<std::vector<double>> on_link(w_.link_capacity.size());
  for (const Weights& weights : weights_)
    for (const auto& [link, flows] : weights) at(on_link, link).push_back(flows);
  std::vector<double> scale(on_link.size(), 1);
  for (size_t link = 0; link < on_link.size() && !keep_capacities; ++link) {
    if (on_link[link].empty()) continue;
    scale[link] = whole_scale(on_link[link]);
    w_.link_capacity[link] *= scale[link];
  }
  for (size_t path = 0; path < w_.paths.size(); ++path)
    for (const auto& [link, flows] : weights_[path]) {
      const double whole = std::max(1.0, std::round(flows * at(scale, link)));
      w_.paths[path].links.insert(w_.paths[path].links.end(), static_cast<size_t>(whole), link);
    }
}

}  // namespace boxcar::sim
