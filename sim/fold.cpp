#include "sim/fold.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "backends/machines/cluster.h"
#include "sbp/at.h"
#include "sim/models/collective_time.h"
#include "sim/platform.h"

namespace boxcar::sim {
namespace {

using Colours = std::vector<int>;

// Numbers values in the order in which they are first seen.
template <class Key>
class Numbering {
 public:
  int of(const Key& key) {
    return numbers_.try_emplace(key, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<Key, int> numbers_;
};

class Refinement {
 public:
  Refinement(const ir::Plan& plan, const backends::Cluster& cluster)
      : plan_(plan), cluster_(cluster), platform_(cluster), colour_(static_cast<size_t>(plan.devices), -1) {
    find_used();
    index_groups();
    index_pulls();
    index_links();
    first_colours();
  }

  Colours run() {
    size_t before = 0, colours = std::set<int>(colour_.begin(), colour_.end()).size();
    while (before != colours) {
      before = colours;
      colours = refine_once();
    }
    return colour_;
  }

 private:
  struct Group {
    std::vector<int> devices;
    Span span;
  };
  struct Pull {
    int device = 0;  // the one that pulls
    int path = 0;    // its number in paths_
    int rank = 0;    // among those that pull the same from the same source
  };

  // Comms and peers that the programs' actors name.
  void find_used() {
    comms_.resize(plan_.programs.size());
    peers_.resize(plan_.programs.size());
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      for (const ir::Actor& actor : plan_.programs[p].actors) {
        if (actor.comm >= 0) comms_[p].insert(actor.comm);
        for (const ir::Input& input : actor.inputs) {
          if (input.peers >= 0) peers_[p].insert(input.peers);
        }
      }
    }
  }

  void index_groups() {
    groups_.resize(plan_.comms.size());
    group_of_.assign(plan_.comms.size(), std::vector<int>(static_cast<size_t>(plan_.devices), -1));
    for (size_t c = 0; c < plan_.comms.size(); ++c) {
      for (const auto& devices : plan_.comms[c].groups) {
        for (int device : devices) at(group_of_[c], device) = static_cast<int>(groups_[c].size());
        groups_[c].push_back({devices, span_of(cluster_, devices)});
      }
    }
  }

  // Paths are alike if they have the same place and bandwidth. Pairs of a node differ in a mesh of links.
  int path(int from, int to) {
    enum Place { itself, node, leaf, leaves };
    if (from == to) return paths_.of({itself, 0});
    if (cluster_.node_of(from) == cluster_.node_of(to))
      return paths_.of({node, transfer_time(cluster_, 1, from, to).link_bandwidth});
    const bool crosses = platform_.shares_uplinks() && platform_.leaf_of(from) != platform_.leaf_of(to);
    return paths_.of({crosses ? leaves : leaf, 0});
  }

  void index_pulls() {
    program_.resize(static_cast<size_t>(plan_.devices));
    for (const ir::RankClass& cls : plan_.classes) {
      for (int device : cls.devices) at(program_, device) = cls.program;
    }
    pulls_.resize(plan_.peers.size());
    for (size_t p = 0; p < plan_.peers.size(); ++p) {
      pulls_[p].resize(static_cast<size_t>(plan_.devices));
      const auto& source = plan_.peers[p].source;
      for (int device = 0; device < plan_.devices; ++device) {
        int from = at(source, device);
        if (from < 0 || !at(peers_, at(program_, device)).contains(static_cast<int>(p))) continue;
        auto& from_here = at(pulls_[p], from);
        from_here.push_back({device, path(from, device), static_cast<int>(from_here.size())});
      }
    }
  }

  // Devices by link, for links that several devices share.
  void index_links() {
    on_link_.resize(static_cast<size_t>(platform_.links()));
    shared_links_.resize(static_cast<size_t>(plan_.devices));
    for (int device = 0; device < plan_.devices; ++device) {
      for (int link : platform_.links_of(device)) at(on_link_, link).push_back(device);
    }
    for (int device = 0; device < plan_.devices; ++device) {
      for (int link : platform_.links_of(device)) {
        if (link % 2 == 0 && at(on_link_, link).size() > 1) at(shared_links_, device).push_back(link);
      }
    }
  }

  void first_colours() {
    Numbering<std::pair<int, double>> numbering;
    for (size_t c = 0; c < plan_.classes.size(); ++c) {
      for (int device : plan_.classes[c].devices) {
        auto slow = cluster_.slowdown.find(device);
        double factor = slow == cluster_.slowdown.end() ? 1.0 : slow->second;
        at(colour_, device) = numbering.of({static_cast<int>(c), factor});
      }
    }
  }

  Colours sorted_colours(const std::vector<int>& devices) const {
    Colours colours;
    for (int device : devices) colours.push_back(at(colour_, device));
    std::sort(colours.begin(), colours.end());
    return colours;
  }

  // Splits every colour by what its devices see; returns the number of colours.
  size_t refine_once() {
    std::vector<std::vector<int>> group_sight(groups_.size());
    for (size_t c = 0; c < groups_.size(); ++c) {
      Numbering<std::pair<Span, Colours>> numbering;
      for (const Group& group : groups_[c])
        group_sight[c].push_back(numbering.of({group.span, sorted_colours(group.devices)}));
    }
    std::vector<int> link_sight(on_link_.size(), -1);
    Numbering<Colours> links;
    for (size_t link = 0; link < on_link_.size(); link += 2) {
      if (on_link_[link].size() > 1) link_sight[link] = links.of(sorted_colours(on_link_[link]));
    }
    Numbering<Colours> seen;
    Colours next(colour_.size());
    std::set<int> colours;
    for (size_t device = 0; device < next.size(); ++device) {
      next[device] = seen.of(sight(static_cast<int>(device), group_sight, link_sight));
      colours.insert(next[device]);
    }
    colour_ = std::move(next);
    return colours.size();
  }

  Colours sight(int device, const std::vector<std::vector<int>>& group_sight,
                const std::vector<int>& link_sight) const {
    Colours sight{at(colour_, device)};
    for (int comm : at(comms_, at(program_, device))) {
      int group = at(at(group_of_, comm), device);
      sight.push_back(group < 0 ? -1 : at(at(group_sight, comm), group));
    }
    for (int peers : at(peers_, at(program_, device))) {
      int from = at(at(plan_.peers, peers).source, device);
      sight.insert(sight.end(), {-2, from < 0 ? -1 : at(colour_, from)});
      if (from < 0) continue;
      for (const Pull& pull : at(at(pulls_, peers), from)) {
        if (pull.device == device) sight.insert(sight.end(), {pull.path, pull.rank});
      }
    }
    for (size_t peers = 0; peers < pulls_.size(); ++peers) {
      std::vector<std::tuple<int, int, int>> pulls;
      for (const Pull& pull : at(pulls_[peers], device))
        pulls.emplace_back(at(colour_, pull.device), pull.path, pull.rank);
      std::sort(pulls.begin(), pulls.end());
      sight.push_back(-3);
      for (const auto& [colour, path, rank] : pulls) sight.insert(sight.end(), {colour, path, rank});
    }
    for (int link : at(shared_links_, device)) sight.push_back(at(link_sight, link));
    return sight;
  }

  const ir::Plan& plan_;
  const backends::Cluster& cluster_;
  Platform platform_;
  Colours colour_;                                     // by device
  std::vector<int> program_;                           // by device
  std::vector<std::set<int>> comms_, peers_;           // by program
  std::vector<std::vector<Group>> groups_;             // by comm
  std::vector<std::vector<int>> group_of_;             // by comm, device
  std::vector<std::vector<std::vector<Pull>>> pulls_;  // by peers, source
  Numbering<std::pair<int, double>> paths_;            // by place and bytes/s of pairs in a node
  std::vector<std::vector<int>> on_link_;              // devices by link
  std::vector<std::vector<int>> shared_links_;         // by device
};

bool leaves_a_node(const ir::Plan& plan, const backends::Cluster& cluster) {
  return plan.devices > cluster.node.gpus;
}

}  // namespace

std::vector<ir::RankClass> refine(const ir::Plan& plan, const backends::Cluster& cluster) {
  if (leaves_a_node(plan, cluster) && !Platform(cluster).folds_between_nodes()) return unfold(plan);
  Colours colours = Refinement(plan, cluster).run();
  std::vector<ir::RankClass> refined;
  for (const ir::RankClass& cls : plan.classes) {
    std::map<int, size_t> part;  // by colour; parts of a class are numbered as their first devices come
    for (int device : cls.devices) {
      auto [found, made] = part.try_emplace(at(colours, device), refined.size());
      if (made) refined.push_back({cls.program, {}});
      refined[found->second].devices.push_back(device);
    }
  }
  return refined;
}

std::vector<ir::RankClass> unfold(const ir::Plan& plan) {
  std::vector<ir::RankClass> unfolded(static_cast<size_t>(plan.devices));
  for (const ir::RankClass& cls : plan.classes) {
    for (int device : cls.devices) at(unfolded, device) = {cls.program, {device}};
  }
  return unfolded;
}

}  // namespace boxcar::sim
