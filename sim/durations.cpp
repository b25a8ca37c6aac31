#include "sim/durations.h"

#include <algorithm>
#include <map>

#include "sim/models/kernel_time.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

double slowdown_of(const backends::Cluster& cluster, int device) {
  auto found = cluster.slowdown.find(device);
  return found == cluster.slowdown.end() ? 1.0 : found->second;
}

// A register without bytes although its type has elements is a control edge, no operand.
bool is_operand(const ir::Register& reg) { return reg.bytes > 0 || reg.type.elements() == 0; }

ir::Types input_types(const ir::Program& program, const ir::Actor& actor) {
  ir::Types types;
  for (const ir::Input& input : actor.inputs) {
    const auto& reg = program.registers[static_cast<size_t>(input.reg)];
    if (is_operand(reg)) types.push_back(ir::input_type(reg, input));
  }
  return types;
}

ir::Types output_types(const ir::Program& program, const ir::Actor& actor) {
  ir::Types types;
  for (int output : actor.outputs) {
    const auto& reg = program.registers[static_cast<size_t>(output)];
    if (is_operand(reg)) types.push_back(reg.type);
  }
  return types;
}

double copy_seconds(const ir::Program& program, const ir::Actor& actor, const backends::Cluster& cluster) {
  if (cluster.node.pcie_bandwidth <= 0) return 0;
  double bytes = 0;
  for (int output : actor.outputs) {
    bytes += static_cast<double>(program.registers[static_cast<size_t>(output)].bytes);
  }
  return bytes / cluster.node.pcie_bandwidth;
}

class Costing {
 public:
  Costing(const ir::Plan& plan, const backends::Cluster& cluster, int cls)
      : plan_(plan),
        cluster_(cluster),
        class_(plan.classes[static_cast<size_t>(cls)]),
        program_(plan.programs[static_cast<size_t>(class_.program)]),
        device_(class_.devices.front()) {}

  std::vector<ActCost> all() {
    std::vector<ActCost> costs;
    costs.reserve(program_.actors.size());
    for (const ir::Actor& actor : program_.actors) costs.push_back(cost(actor));
    return costs;
  }

 private:
  ActCost cost(const ir::Actor& actor) {
    auto fixed = actor.attrs.find("seconds");
    if (fixed != actor.attrs.end()) return {ir::attr_float(actor.attrs, "seconds"), {}};
    switch (actor.kind) {
      case ir::ActorKind::kernel:
        return {kernel(actor), {}};
      case ir::ActorKind::collective:
        return {0, collective(actor)};
      case ir::ActorKind::pull:
        return {0, pull(actor)};
      case ir::ActorKind::copy:
        return {copy_seconds(program_, actor, cluster_), {}};
      case ir::ActorKind::host:
        return {};
    }
    return {};
  }

  double kernel(const ir::Actor& actor) const {
    if (!ir::has_op(actor.op)) return 0;
    return slowdown_of(cluster_, device_) * kernel_seconds(cluster_.device, ir::op(actor.op),
                                                           input_types(program_, actor),
                                                           output_types(program_, actor), actor.attrs);
  }

  CommTime collective(const ir::Actor& actor) {
    if (actor.comm < 0) return {};
    auto [span, made] = spans_.try_emplace(actor.comm);
    if (made)
      span->second = span_of(cluster_, group_of(plan_.comms[static_cast<size_t>(actor.comm)], device_));
    return collective_time(cluster_, actor.collective, actor.comm_bytes, span->second);
  }

  CommTime pull(const ir::Actor& actor) const {
    for (const ir::Input& input : actor.inputs) {
      if (input.peers < 0) continue;
      int from = plan_.peers[static_cast<size_t>(input.peers)].source[static_cast<size_t>(device_)];
      return transfer_time(cluster_, actor.comm_bytes, from, device_);
    }
    return {};
  }

  const ir::Plan& plan_;
  const backends::Cluster& cluster_;
  const ir::RankClass& class_;
  const ir::Program& program_;
  int device_;
  std::map<int, Span> spans_;  // by comm
};

}  // namespace

std::vector<ActCost> act_costs(const ir::Plan& plan, const backends::Cluster& cluster, int cls) {
  return Costing(plan, cluster, cls).all();
}

std::vector<int> group_of(const ir::Comm& comm, int device) {
  for (const auto& group : comm.groups) {
    if (std::find(group.begin(), group.end(), device) != group.end()) return group;
  }
  return {device};
}

bool is_communication(const ir::Actor& actor) {
  return actor.kind == ir::ActorKind::collective || actor.kind == ir::ActorKind::pull ||
         actor.kind == ir::ActorKind::copy;
}

std::vector<double> act_seconds(const ir::Plan& plan, const backends::Cluster& cluster, int cls) {
  std::vector<double> seconds;
  for (const ActCost& cost : act_costs(plan, cluster, cls)) seconds.push_back(cost.total());
  return seconds;
}

}  // namespace boxcar::sim
