#include "planner/placed.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/op.h"
#include "planner/device_lowering.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

std::vector<const sbp::Placement*> op_placements(const ir::Graph& graph) {
  std::vector<const sbp::Placement*> result;
  for (const ir::Op& op : graph.ops) {
    const sbp::Placement* own = op.placement >= 0 ? &at(graph.placements, op.placement) : nullptr;
    for (ir::TensorId t : op.inputs) {
      const sbp::Placement* from = at(result, graph.tensor(t).producer);
      if (!own) own = from;
      if (!op.is(ir::OpKind::to_global) && *from != *own)
        throw Error::input(op.name,
                           fmt::format("runs on {} and reads %{} on {} (use to_global)", sbp::to_text(*own),
                                       graph.tensor(t).name, sbp::to_text(*from)));
    }
    if (!own) throw Error::input(op.name, "has no placement (place it, or one of its inputs)");
    result.push_back(own);
  }
  return result;
}

namespace {

Mesh named_mesh(const sbp::Placement& placement) {
  Mesh mesh{{}, placement.mesh};
  for (size_t d = 0; d < placement.mesh.size(); ++d) mesh.names.push_back(fmt::format("dim{}", d));
  return mesh;
}

Pins given_pins(const ir::Graph& graph, const std::vector<Mesh>& meshes) {
  Pins pins;
  pins.used.resize(graph.tensors.size());
  for (const ir::Tensor& tensor : graph.tensors) {
    const size_t dims = at(meshes, tensor.producer).dims();
    PartialSbp pin(dims);
    if (tensor.sbp && tensor.sbp->size() != dims)
      throw Error::input("%" + tensor.name,
                         fmt::format("{} on a mesh of {} dimensions", sbp::to_text(*tensor.sbp), dims));
    if (tensor.sbp) pin.assign(tensor.sbp->begin(), tensor.sbp->end());
    pins.stored.push_back(std::move(pin));
  }
  return pins;
}

std::string devices_text(const std::vector<int>& devices) {
  return "devices" + sbp::to_text(sbp::Placement{{static_cast<int64_t>(devices.size())}, devices});
}

// The coarsest partition of devices in which devices of one part have equal programs and pull from the same
// parts.
std::vector<int> alike(const std::map<int, DeviceLowering>& lowered, int devices) {
  std::vector<int> cls(static_cast<size_t>(devices), -1);
  for (size_t count = 0;;) {
    std::map<std::pair<std::string, std::vector<int>>, int> known;
    std::vector<int> next(cls.size(), -1);
    for (const auto& [device, program] : lowered) {
      std::vector<int> sources;
      for (const DeviceLink& link : program.links) sources.push_back(at(cls, link.from));
      at(next, device) =
          known.try_emplace({program.shape(), sources}, static_cast<int>(known.size())).first->second;
    }
    cls = std::move(next);
    if (known.size() == count) return cls;
    count = known.size();
  }
}

void drop_empty_phases(ir::Program& program) {
  std::vector<int> renamed(program.phases.size(), -1);
  std::vector<ir::PlanPhase> phases;
  for (size_t p = 0; p < program.phases.size(); ++p) {
    const bool used = std::any_of(program.actors.begin(), program.actors.end(),
                                  [&](const ir::Actor& a) { return a.phase == static_cast<int>(p); });
    if (!used) continue;
    renamed[p] = static_cast<int>(phases.size());
    phases.push_back(program.phases[p]);
  }
  std::erase_if(program.schedule, [&](const ir::PhaseRun& run) { return at(renamed, run.phase) < 0; });
  for (ir::PhaseRun& run : program.schedule) run.phase = at(renamed, run.phase);
  for (ir::Actor& actor : program.actors) actor.phase = at(renamed, actor.phase);
  program.phases = std::move(phases);
}

// Fills in the source of every pull: one peers entry per pull of a program.
void link(ir::Plan& plan, std::map<int, DeviceLowering>& lowered, const std::vector<int>& cls) {
  std::map<std::pair<int, std::string>, int> peers;
  for (auto& [device, own] : lowered)
    for (const DeviceLink& link : own.links) {
      ir::Actor& pull = at(own.builder.program.actors, link.actor);
      DeviceLowering& source = lowered.at(link.from);
      const auto [entry, fresh] =
          peers.try_emplace({at(cls, device), pull.name}, static_cast<int>(plan.peers.size()));
      const bool taken = std::any_of(plan.peers.begin(), plan.peers.end(),
                                     [&](const ir::Peers& p) { return p.name == pull.name; });
      const std::string name = taken ? fmt::format("{}.{}", pull.name, at(cls, device)) : pull.name;
      if (fresh) plan.peers.push_back({name, std::vector<int>(static_cast<size_t>(plan.devices), -1)});
      at(at(plan.peers, entry->second).source, device) = link.from;
      const int reg = source.register_of(link, pull.attrs);
      source.builder.read_remotely(reg);
      pull.inputs[0] = {reg, 1, at(cls, link.from), entry->second, {}};
      pull.source_queue = source.builder.queue("net.out");
    }
}

}  // namespace

ir::Plan lower_placed(const ir::Graph& graph, int micro_batches) {
  const std::vector<const sbp::Placement*> placements = op_placements(graph);
  std::vector<Mesh> meshes;
  std::set<int> devices;
  for (const sbp::Placement* placement : placements) {
    meshes.push_back(named_mesh(*placement));
    devices.insert(placement->devices.begin(), placement->devices.end());
  }
  std::vector<const Mesh*> mesh_of_op;
  for (const Mesh& mesh : meshes) mesh_of_op.push_back(&mesh);
  const Deduction layouts = deduce(graph, given_pins(graph, meshes), mesh_of_op);

  ir::Plan plan;
  plan.name = graph.name;
  plan.micro_batches = micro_batches;
  plan.devices = *devices.rbegin() + 1;
  if (static_cast<int>(devices.size()) != plan.devices)
    throw Error::input("placement",
                       fmt::format("{} of the devices 0 to {} have nothing to do (number them without gaps)",
                                   plan.devices - static_cast<int>(devices.size()), plan.devices - 1));
  std::map<int, DeviceLowering> lowered;
  for (int device : devices) {
    auto [at, fresh] =
        lowered.try_emplace(device, graph, placements, meshes, layouts, device, micro_batches, plan.comms);
    at->second.run();
  }
  for (auto& [device, own] : lowered)
    for (const DeviceLink& link : own.links)
      lowered.at(link.from).register_of(link, at(own.builder.program.actors, link.actor).attrs);
  const std::vector<int> cls = alike(lowered, plan.devices);
  link(plan, lowered, cls);
  for (auto& [device, own] : lowered) {
    const auto c = static_cast<size_t>(at(cls, device));
    if (c < plan.programs.size()) {
      plan.classes[c].devices.push_back(device);
      continue;
    }
    own.builder.finish();
    drop_empty_phases(own.builder.program);
    plan.programs.push_back(std::move(own.builder.program));
    plan.classes.push_back({static_cast<int>(c), {device}});
  }
  for (size_t c = 0; c < plan.programs.size(); ++c)
    plan.programs[c].name = devices_text(plan.classes[c].devices);
  return plan;
}

}  // namespace boxcar::planner
