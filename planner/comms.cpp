#include "planner/comms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {

namespace {

std::vector<int64_t> coordinate_of(const Mesh& mesh, int place) {
  std::vector<int64_t> result(mesh.dims());
  int64_t left = place;
  for (size_t d = mesh.dims(); d-- > 0; left /= mesh.extents[d]) result[d] = left % mesh.extents[d];
  return result;
}

// Groups of places with equal coordinates in the dimensions not in `dims`. Members are ordered by the
// coordinates in `dims`, the first of which varies slowest.
std::vector<std::vector<int>> group_by_rest(const Mesh& mesh, const std::vector<int>& dims) {
  std::map<std::vector<int64_t>, std::map<std::vector<int64_t>, int>> groups;
  for (int place = 0; place < mesh.devices(); ++place) {
    std::vector<int64_t> rest = coordinate_of(mesh, place), own;
    for (int d : dims) own.push_back(std::exchange(at(rest, d), 0));
    groups[rest][own] = place;
  }
  std::vector<std::vector<int>> result;
  for (const auto& [rest, members] : groups) {
    result.emplace_back();
    for (const auto& [own, place] : members) result.back().push_back(place);
  }
  return result;
}

std::string joined_names(const Mesh& mesh, const std::vector<int>& dims) {
  std::string name;
  for (int d : dims) name += (name.empty() ? "" : "_") + at(mesh.names, d);
  return name;
}

constexpr const char* world_queue = "net.world";  // for groups over several stages

}  // namespace

int CommTable::find(const std::string& name) const {
  for (size_t i = 0; i < comms.size(); ++i)
    if (comms[i].name == name) return static_cast<int>(i);
  return -1;
}

int CommTable::add(std::string name, std::vector<std::vector<int>> groups, std::string queue) {
  comms.push_back({std::move(name), std::move(groups)});
  queues_.push_back(std::move(queue));
  return static_cast<int>(comms.size()) - 1;
}

int CommTable::along(const std::vector<int>& dims) {
  const std::string name = joined_names(mesh_, dims);
  if (const int known = find(name); known >= 0) return known;
  const std::vector<std::vector<int>> first = group_by_rest(mesh_, dims);
  std::vector<std::vector<int>> all;
  for (int s = 0; s < stages_; ++s)
    for (std::vector<int> group : first) {
      for (int& member : group) member = mesh_.device(member, s);
      all.push_back(std::move(group));
    }
  const std::string& first_dim = at(mesh_.names, dims.front());
  return add(name, std::move(all), "net." + (first_dim == "replica" ? "dp" : first_dim));
}

int CommTable::across_stages(const std::vector<int>& dims) {
  const bool all = dims.size() == mesh_.dims();
  const std::string name = all ? "world" : "pp" + (dims.empty() ? "" : "_" + joined_names(mesh_, dims));
  if (const int known = find(name); known >= 0) return known;
  std::vector<std::vector<int>> groups = group_by_rest(mesh_, dims);
  for (std::vector<int>& group : groups) {
    const std::vector<int> places = std::exchange(group, {});
    for (int s = 0; s < stages_; ++s)
      for (int place : places) group.push_back(mesh_.device(place, s));
  }
  return add(name, std::move(groups), world_queue);
}

int CommTable::between(const std::vector<int>& stages) {
  const std::string name = fmt::format("stages{}", fmt::join(stages, "_"));
  if (const int known = find(name); known >= 0) return known;
  std::vector<std::vector<int>> groups;
  for (int place = 0; place < mesh_.devices(); ++place) {
    groups.emplace_back();
    for (const int stage : stages) groups.back().push_back(mesh_.device(place, stage));
  }
  return add(name, std::move(groups), world_queue);
}

int CommTable::peers(int offset) {
  const std::string name = offset == -1  ? "pp.forward"
                           : offset == 1 ? "pp.backward"
                                         : fmt::format("pp.{}", offset);
  for (size_t i = 0; i < pulls.size(); ++i)
    if (pulls[i].name == name) return static_cast<int>(i);
  ir::Peers peers{name, std::vector<int>(static_cast<size_t>(stages_ * mesh_.devices()))};
  for (int s = 0; s < stages_; ++s)
    for (int place = 0; place < mesh_.devices(); ++place)
      at(peers.source, mesh_.device(place, s)) =
          mesh_.device(place, ((s + offset) % stages_ + stages_) % stages_);
  pulls.push_back(std::move(peers));
  return static_cast<int>(pulls.size()) - 1;
}

int CommTable::replicas(int offset) {
  const std::string name = fmt::format("servers.{}", offset);
  for (size_t i = 0; i < pulls.size(); ++i)
    if (pulls[i].name == name) return static_cast<int>(i);
  ir::Peers peers{name, std::vector<int>(static_cast<size_t>(stages_ * mesh_.devices()))};
  const int around = mesh_.devices(), step = around / static_cast<int>(at(mesh_.extents, 0)) * offset;
  for (int s = 0; s < stages_; ++s)
    for (int place = 0; place < around; ++place)
      at(peers.source, mesh_.device(place, s)) = mesh_.device((place + step) % around, s);
  pulls.push_back(std::move(peers));
  return static_cast<int>(pulls.size()) - 1;
}

}  // namespace boxcar::planner
