#include "actors/groups.h"

#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "actors/layout.h"
#include "actors/links.h"
#include "sbp/at.h"

namespace boxcar::actors {

std::vector<DeviceGroups> groups_of(const RunState& state) {
  const Layout& layout = state.layout;
  const int devices = layout.plan().devices;
  if (!state.backend.sends()) return std::vector<DeviceGroups>(static_cast<size_t>(devices));
  std::vector<std::set<std::string>> groups(static_cast<size_t>(devices));
  std::vector<std::set<int>> queues(groups.size());
  std::set<std::tuple<int, int, int>> links;  // owner, puller, the puller's queue
  for (int d = 0; d < devices; ++d) {
    const std::vector<ir::Actor>& actors = layout.program(d).actors;
    for (int a = 0; a < static_cast<int>(actors.size()); ++a) {
      const ir::Actor& actor = at(actors, a);
      at(queues, d).insert(actor.queue);
      if (actor.kind == ir::ActorKind::collective) at(groups, d).insert(layout.communicator(d, actor));
      if (Links::has(state, d, a)) links.emplace(layout.source(d, actor.inputs[0]), d, actor.queue);
    }
  }
  std::vector<DeviceGroups> result;
  for (size_t d = 0; d < groups.size(); ++d)
    result.push_back({static_cast<int>(groups[d].size()), static_cast<int>(queues[d].size())});
  for (const auto& [owner, puller, queue] : links) {
    ++at(result, owner).groups, ++at(result, owner).queues;
    ++at(result, puller).groups;
  }
  return result;
}

}  // namespace boxcar::actors
