#include "sim/chakra/chakra.h"

#include <algorithm>
#include <set>

#include "sbp/at.h"

namespace boxcar::chakra {

ChakraGroups::ChakraGroups(const ir::Plan& plan) {
  std::set<int> used;
  for (const ir::Program& program : plan.programs)
    for (const ir::Actor& actor : program.actors)
      if (actor.kind == ir::ActorKind::collective && actor.comm >= 0) used.insert(actor.comm);
  for (const int comm : used)
    for (const std::vector<int>& members : at(plan.comms, comm).groups) {
      if (members.size() < 2) continue;
      for (const int device : members) of_[{comm, device}] = groups_.size();
      groups_.push_back({static_cast<int>(groups_.size()) + 1, at(plan.comms, comm).name, members});
    }
}

const ChakraGroups::Group* ChakraGroups::of(int comm, int device) const {
  const auto found = of_.find({comm, device});
  return found == of_.end() ? nullptr : &groups_[found->second];
}

int64_t chakra_bytes(sbp::Collective collective, int64_t bytes, int ranks) {
  return collective == sbp::Collective::all_gather ? (bytes + ranks - 1) / ranks : bytes;
}

std::vector<Unsaid> unsaid_in_chakra(const ir::Plan& plan) {
  bool pulls = false, updates = false;
  std::set<std::string> open;  // queues
  for (const ir::Program& program : plan.programs) {
    for (const ir::Queue& queue : program.queues)
      if (!queue.ordered) open.insert(queue.name);
    for (const ir::Actor& actor : program.actors) pulls = pulls || actor.kind == ir::ActorKind::pull;
    for (const ir::Register& reg : program.registers) updates = updates || reg.initial > 0;
  }
  std::vector<Unsaid> unsaid;
  if (pulls)
    unsaid.push_back({"pulls", "",
                      "a receiver whose slots are full does not hold its sender back there; every block is "
                      "sent as soon as it is made"});
  if (updates)
    unsaid.push_back({"steps", "",
                      "a trace has one step, the first, whose weights are there from the start; what of the "
                      "next step overlaps with it is not there"});
  for (const std::string& queue : open)
    unsaid.push_back({"queue", queue,
                      "its acts come one at a time in any order; there those of one actor are in order, and "
                      "those of two may overlap"});
  return unsaid;
}

}  // namespace boxcar::chakra
