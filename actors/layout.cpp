#include "actors/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/op.h"
#include "ir/rank_attrs.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

const std::string& joint_name(const ir::Actor& actor) {
  return actor.joint.empty() ? actor.name : actor.joint;
}

int out_port(const ir::Actor& producer, int reg) {
  return static_cast<int>(std::find(producer.outputs.begin(), producer.outputs.end(), reg) -
                          producer.outputs.begin());
}

}  // namespace

Layout::Layout(const ir::Plan& plan, const std::function<int(int device)>& process_of)
    : plan_(plan),
      process_of_(process_of),
      program_(static_cast<size_t>(plan.devices)),
      first_(program_),
      rank_(program_),
      thread_(program_.size()) {
  for (const ir::RankClass& cls : plan.classes)
    for (size_t i = 0; i < cls.devices.size(); ++i) {
      at(program_, cls.devices[i]) = cls.program;
      at(first_, cls.devices[i]) = cls.devices[0];
      at(rank_, cls.devices[i]) = static_cast<int>(i);
    }
  for (const ir::Program& program : plan.programs) {
    std::vector<int> used(program.queues.size()), numbers;
    std::vector<std::vector<Place>> readers(program.registers.size());
    std::map<std::pair<int, std::string>, int> joint;
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const ir::Actor& actor = program.actors[a];
      numbers.push_back(at(used, actor.queue)++);
      if (actor.comm >= 0) joint[{actor.comm, joint_name(actor)}] = static_cast<int>(a);
      int port = 0;
      for (const ir::Input& input : actor.inputs) {
        if (input.program >= 0) ++port;
        if (input.program >= 0 || at(program.registers, input.reg).producer == static_cast<int>(a)) continue;
        at(readers, input.reg).push_back({-1, static_cast<int>(a), port++});
      }
    }
    number_.push_back(std::move(numbers));
    local_readers_.push_back(std::move(readers));
    joint_.push_back(std::move(joint));
  }
  std::map<int, int> threads;  // by process
  for (int d = 0; d < plan.devices; ++d) {
    std::vector<bool> used(program(d).queues.size());
    for (size_t a = 0; a < program(d).actors.size(); ++a) {
      const ir::Actor& actor = program(d).actors[a];
      at(used, actor.queue) = true;
      if (actor.kind == ir::ActorKind::pull)
        pulls_[{source(d, actor.inputs[0]), actor.inputs[0].reg}].push_back({d, static_cast<int>(a), 0});
    }
    for (const bool one : used) at(thread_, d).push_back(one ? threads[process_of(d)]++ : -1);
  }
}

std::vector<Layout::Thread> Layout::threads(int process) const {
  std::vector<Thread> result;
  for (int d = 0; d < plan_.devices; ++d) {
    if (process_of_(d) != process) continue;
    for (size_t q = 0; q < program(d).queues.size(); ++q) {
      if (at(thread_, d)[q] < 0) continue;
      Thread thread{d, static_cast<int>(q), {}, {}};
      for (size_t a = 0; a < program(d).actors.size(); ++a)
        if (program(d).actors[a].queue == thread.queue) thread.actors.push_back(static_cast<int>(a));
      for (const ir::PhaseRun& run : program(d).schedule)
        for (size_t n = 0; n < thread.actors.size(); ++n)
          if (at(program(d).actors, thread.actors[n]).phase == run.phase)
            thread.order.push_back(static_cast<int>(n));
      result.push_back(std::move(thread));
    }
  }
  return result;
}

Address Layout::address(int device, int actor) const {
  const int queue = at(program(device).actors, actor).queue;
  return Address::make(process_of_(device), at(at(thread_, device), queue), queue,
                       at(at(number_, program_index(device)), actor));
}

int Layout::in_port(int device, int actor, size_t input) const {
  const ir::Program& p = program(device);
  const ir::Actor& x = at(p.actors, actor);
  const auto own = [&](const ir::Input& in) {
    return in.program < 0 && at(p.registers, in.reg).producer == actor;
  };
  if (own(x.inputs[input])) return -1;
  int port = 0;
  for (size_t i = 0; i < input; ++i) port += own(x.inputs[i]) ? 0 : 1;
  return port;
}

bool Layout::in_place(int device, int reg) const {
  const ir::Program& p = program(device);
  for (const ir::Input& in : at(p.actors, at(p.registers, reg).producer).inputs)
    if (in.program < 0 && in.reg == reg) return true;
  return false;
}

std::vector<Layout::Place> Layout::readers(int device, int reg) const {
  std::vector<Place> result = at(at(local_readers_, program_index(device)), reg);
  for (Place& place : result) place.device = device;
  if (const auto pulls = pulls_.find({device, reg}); pulls != pulls_.end())
    result.insert(result.end(), pulls->second.begin(), pulls->second.end());
  return result;
}

size_t Layout::reader(int device, int reg, const Place& place) const {
  const std::vector<Place> all = readers(device, reg);
  return static_cast<size_t>(std::find(all.begin(), all.end(), place) - all.begin());
}

Layout::Place Layout::producer(int device, int actor, size_t input) const {
  const ir::Input& in = at(program(device).actors, actor).inputs[input];
  const int from = source(device, in);
  const int producer = at(program(from).registers, in.reg).producer;
  return {from, producer, out_port(at(program(from).actors, producer), in.reg)};
}

int Layout::source(int device, const ir::Input& input) const {
  return input.program < 0 ? device : at(at(plan_.peers, input.peers).source, device);
}

ir::Attrs Layout::attrs(int device, const ir::Actor& actor) const {
  ir::Attrs own = ir::rank_attrs(actor.attrs, [&](const std::string& dim) -> ir::Coordinates {
    if (dim == "rank") return {at(rank_, device), 0};
    return {coordinate(dim, device), coordinate(dim, at(first_, device))};
  });
  return ir::has_op(actor.op) ? ir::complete(ir::op(actor.op), own) : own;
}

// The place of a device in its group of the comm of this name.
int64_t Layout::coordinate(const std::string& dim, int device) const {
  for (const ir::Comm& comm : plan_.comms) {
    if (comm.name != dim) continue;
    for (const std::vector<int>& group : comm.groups)
      if (const auto found = std::find(group.begin(), group.end(), device); found != group.end())
        return found - group.begin();
  }
  throw Error::fault("comm " + dim,
                     fmt::format("attributes differ along it, and device {} is in no group of it", device));
}

const std::vector<int>& Layout::group(int device, const ir::Actor& actor) const {
  for (const std::vector<int>& group : at(plan_.comms, actor.comm).groups)
    if (std::find(group.begin(), group.end(), device) != group.end()) return group;
  throw Error::fault(actor.name,
                     fmt::format("device {} is in no group of {}", device, at(plan_.comms, actor.comm).name));
}

std::vector<std::pair<int, int>> Layout::members(int device, const ir::Actor& actor) const {
  std::vector<std::pair<int, int>> result;
  for (int member : group(device, actor))
    result.emplace_back(member,
                        at(joint_, program_index(member)).find({actor.comm, joint_name(actor)})->second);
  return result;
}

std::string Layout::communicator(int device, const ir::Actor& actor) const {
  std::vector<std::string> queues;
  for (const auto& [member, a] : members(device, actor)) {
    const ir::Program& p = program(member);
    queues.push_back(at(p.queues, at(p.actors, a).queue).name);
  }
  if (std::all_of(queues.begin(), queues.end(), [&](const std::string& q) { return q == queues[0]; }))
    queues.resize(1);
  return fmt::format("{} of {} on {}", at(plan_.comms, actor.comm).name, group(device, actor)[0],
                     fmt::join(queues, "+"));
}

}  // namespace boxcar::actors
