#include "sim/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "ir/plan_roles.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/loads.h"

namespace boxcar::sim {
namespace {

class Builder {
 public:
  Builder(const ir::Plan& plan, const Platform& platform, const std::vector<std::vector<ActCost>>& costs,
          const std::vector<Merging>& mergings)
      : plan_(plan),
        platform_(platform),
        costs_(costs),
        mergings_(mergings),
        unit_of_(static_cast<size_t>(plan.devices), -1) {
    w_.plan = &plan;
  }

  Wiring build(bool every_flow, bool gradients_stay) {
    read_programs(gradients_stay);
    add_units();
    add_inputs();
    add_outputs();
    add_joints();
    add_turns();
    order_queues();
    add_groups();
    LoadBuilder(w_, platform_, unit_of_, costs_).build(every_flow);
    return std::move(w_);
  }

 private:
  void read_programs(bool gradients_stay) {
    for (const ir::Program& program : plan_.programs) {
      std::vector<int> runs(program.phases.size(), 0);
      auto& occurrence = w_.occurrence.emplace_back();
      for (const ir::PhaseRun& run : program.schedule) occurrence.push_back(at(runs, run.phase)++);
      runs_.push_back(std::move(runs));
      auto& updated = updated_.emplace_back(program.registers.size(), 0);
      for (size_t a = 0; a < program.actors.size(); ++a) {
        for (const ir::Input& input : program.actors[a].inputs) {
          const bool sum = gradients_stay && ir::is_sum_of_gradients(program, program.actors[a], input);
          if (sum || in_place(program, static_cast<int>(a), input)) at(updated, input.reg) = 1;
        }
      }
    }
  }

  void add_units() {
    for (size_t c = 0; c < plan_.classes.size(); ++c) {
      const ir::RankClass& cls = plan_.classes[c];
      for (int device : cls.devices) at(unit_of_, device) = static_cast<int>(c);
      add_unit(static_cast<int>(c), cls.program);
    }
  }

  void add_unit(int cls, int program_index) {
    const ir::Program& program = at(plan_.programs, program_index);
    Unit unit{
        cls, program_index, count(w_.actors), count(program.actors), count(w_.queues), count(program.queues)};
    const Merging& merging = at(mergings_, program_index);
    for (size_t q = 0; q < program.queues.size(); ++q) {
      bool compute = program.queues[q].kind == ir::QueueKind::compute;
      if (compute && unit.compute_queue < 0) unit.compute_queue = count(w_.queues);
      w_.queues.push_back({cls, static_cast<int>(q), program.queues[q].ordered, compute, 0});
    }
    const std::vector<ActCost>& costs = at(costs_, cls);
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const ir::Actor& actor = program.actors[a];
      WiredActor wired{cls, static_cast<int>(a), unit.first_queue + actor.queue};
      wired.per_step = at(at(runs_, program_index), actor.phase);
      wired.wait = to_ticks(costs[a].seconds + costs[a].comm.latency);
      wired.alone = to_ticks(costs[a].total());
      wired.communication = is_communication(actor);
      wired.slows = actor.kind == ir::ActorKind::collective;
      w_.actors.push_back(wired);
    }
    for (size_t r = 0; r < program.registers.size(); ++r) {
      const ir::Register& reg = program.registers[r];
      if (at(updated_, program_index)[r]) {
        unit.held_bytes += reg.bytes;
      } else if (merging.implied[r] && merging.last_reader[r] >= 0) {
        unit.held_bytes += reg.bytes * reg.initial;
      }
    }
    w_.units.push_back(unit);
  }

  // The unit that writes an input's register, and the register of its program.
  std::pair<int, int> source_of(const Unit& unit, const ir::Input& input) const {
    if (input.program < 0 && input.peers < 0) return {unit.cls, input.reg};
    int device = at(plan_.classes, unit.cls).devices.front();
    int from = at(at(plan_.peers, input.peers).source, device);
    int source = from < 0 ? -1 : at(unit_of_, from);
    if (source < 0 || at(w_.units, source).program != input.program) {
      throw Error::input(
          at(plan_.programs, unit.program).name,
          fmt::format("device {} pulls register {} of {}, but its peer in {} is {}", device, input.reg,
                      at(plan_.programs, input.program).name, at(plan_.peers, input.peers).name, from));
    }
    return {source, input.reg};
  }

  void add_inputs() {
    w_.in_begin.push_back(0);
    w_.out_begin.push_back(0);
    w_.hold_begin.push_back(0);
    for (size_t index = 0; index < w_.actors.size(); ++index) {
      const WiredActor& wired = w_.actors[index];
      const Unit& unit = at(w_.units, wired.unit);
      const ir::Program& program = w_.program(unit);
      for (const ir::Input& input : at(program.actors, wired.local).inputs)
        add_input(unit, wired.local, input);
      for (int output : at(program.actors, wired.local).outputs) add_output(unit, output);
      w_.in_begin.push_back(count(w_.producers));
      w_.out_begin.push_back(count(w_.out_register));
      w_.hold_begin.push_back(count(w_.holds));
    }
  }

  void add_input(const Unit& unit, int actor, const ir::Input& input) {
    if (in_place(w_.program(unit), actor, input)) return;
    const Merging& merging = at(mergings_, unit.program);
    bool local = input.program < 0 && input.peers < 0;
    if (local && at(merging.implied, input.reg)) {
      bool gives = at(merging.last_reader, input.reg) == actor && !at(at(updated_, unit.program), input.reg);
      if (gives) w_.holds.push_back({at(w_.program(unit).registers, input.reg).bytes, input.repeat, false});
      return;
    }
    auto [source, reg] = source_of(unit, input);
    const ir::Register& from = at(w_.program(at(w_.units, source)).registers, reg);
    w_.producers.push_back({at(w_.units, source).first_actor + from.producer, reg});  // reg until add_outputs
    w_.in_register.push_back(reg);
    w_.in_repeat.push_back(input.repeat);
  }

  void add_output(const Unit& unit, int output) {
    const ir::Register& reg = at(w_.program(unit).registers, output);
    const Merging& merging = at(mergings_, unit.program);
    int64_t bytes = at(at(updated_, unit.program), output) ? 0 : reg.bytes;
    if (at(merging.implied, output)) {
      if (bytes > 0) w_.holds.push_back({bytes, reg.every, true});
      if (bytes > 0 && at(merging.last_reader, output) < 0) w_.holds.push_back({bytes, reg.every, false});
      return;
    }
    w_.out_register.push_back(output);
    w_.out_bytes.push_back(bytes);
    w_.out_every.push_back(reg.every);
  }

  // Turns producers' registers into ports, and lists the readers of every output port.
  void add_outputs() {
    std::vector<int> readers(w_.out_register.size() + 1, 0);
    for (Port& producer : w_.producers) {
      int begin = at(w_.out_begin, producer.actor), end = at(w_.out_begin, producer.actor + 1);
      int port = begin;
      while (port < end && at(w_.out_register, port) != producer.port) ++port;
      if (port == end) throw Error::fault(w_.name_of(producer.actor), "is not the producer of its register");
      producer.port = port - begin;
      ++at(readers, port + 1);
    }
    for (size_t i = 1; i < readers.size(); ++i) readers[i] += readers[i - 1];
    w_.reader_begin = readers;
    w_.readers.resize(w_.producers.size());
    for (int actor = 0; actor < count(w_.actors); ++actor) {
      for (int i = at(w_.in_begin, actor); i < at(w_.in_begin, actor + 1); ++i) {
        const Port& producer = at(w_.producers, i);
        int port = at(w_.out_begin, producer.actor) + producer.port;
        at(w_.readers, at(readers, port)++) = {actor, i - at(w_.in_begin, actor)};
      }
    }
  }

  // Collective actors of one group: all members' actors with the same comm and joint name.
  void add_joints() {
    std::map<std::tuple<int, int, std::string_view>, std::vector<int>>
        joints;  // by comm, group's first unit, name
    std::vector<std::map<int, std::vector<int>>> units_of(
        w_.units.size());  // by unit and comm: the group's units
    for (int index = 0; index < count(w_.actors); ++index) {
      const WiredActor& wired = at(w_.actors, index);
      const ir::Actor& actor = w_.actor(index);
      if (actor.kind != ir::ActorKind::collective || actor.comm < 0) continue;
      auto [units, made] = at(units_of, wired.unit).try_emplace(actor.comm);
      if (made) units->second = group_units(wired.unit, actor.comm);
      if (units->second.size() < 2) continue;
      const std::string& name = actor.joint.empty() ? actor.name : actor.joint;
      joints[{actor.comm, units->second.front(), name}].push_back(index);
    }
    for (auto& [key, members] : joints) {
      int unit = at(w_.actors, members.front()).unit;
      size_t classes = at(units_of, unit)[std::get<0>(key)].size();
      if (members.size() != classes) {
        throw Error::input(
            w_.name_of(members.front()),
            fmt::format("acts jointly as {} over {}, where {} of its group's {} classes do", std::get<2>(key),
                        at(plan_.comms, std::get<0>(key)).name, members.size(), classes));
      }
      add_joint(members);
    }
  }

  std::vector<int> group_units(int unit, int comm) const {
    std::vector<int> units;  // ascending
    for (int device : group_of(at(plan_.comms, comm), at(plan_.classes, unit).devices.front())) {
      units.push_back(at(unit_of_, device));
    }
    std::sort(units.begin(), units.end());
    units.erase(std::unique(units.begin(), units.end()), units.end());
    return units;
  }

  void add_joint(const std::vector<int>& members) {
    for (int member : members) {
      if (member < count(w_.actors)) at(w_.actors, member).joint = count(w_.joints);
    }
    w_.joints.push_back(members);
  }

  // A pull with a source queue acts jointly with its turn there.
  void add_turns() {
    for (int index = 0; index < count(w_.actors); ++index) {
      const ir::Actor& actor = w_.actor(index);
      if (actor.kind != ir::ActorKind::pull || actor.source_queue < 0) continue;
      const Unit& unit = at(w_.units, at(w_.actors, index).unit);
      for (const ir::Input& input : actor.inputs) {
        if (input.peers < 0) continue;
        const Unit& source = at(w_.units, source_of(unit, input).first);
        int every = at(w_.program(source).registers, input.reg).every;
        add_joint({index, count(w_.actors) + count(w_.turns)});
        w_.turns.push_back({index, source.first_queue + actor.source_queue, every});
        break;
      }
    }
  }

  struct Placed {
    int phase, producer, is_turn, program, actor, device;  // the order inside a queue
    int item;
    auto key() const { return std::tie(phase, producer, is_turn, program, actor, device); }
  };

  void order_queues() {
    std::vector<std::vector<Placed>> placed(w_.queues.size());
    for (int index = 0; index < count(w_.actors); ++index) {
      const WiredActor& wired = at(w_.actors, index);
      at(placed, wired.queue).push_back({w_.actor(index).phase, wired.local, 0, 0, 0, 0, index});
    }
    for (size_t turn = 0; turn < w_.turns.size(); ++turn) {
      at(placed, w_.turns[turn].queue).push_back(place(static_cast<int>(turn)));
    }
    for (size_t q = 0; q < w_.queues.size(); ++q) {
      std::sort(placed[q].begin(), placed[q].end(),
                [](const Placed& a, const Placed& b) { return a.key() < b.key(); });
      w_.queues[q].items = count(w_.item_begin);
      auto phases = static_cast<int>(w_.program(at(w_.units, w_.queues[q].unit)).phases.size());
      auto next = placed[q].begin();
      for (int phase = 0; phase <= phases; ++phase) {
        w_.item_begin.push_back(count(w_.items));
        for (; next != placed[q].end() && next->phase == phase; ++next) w_.items.push_back(next->item);
      }
    }
  }

  Placed place(int turn) const {
    int pull = at(w_.turns, turn).pull;
    const WiredActor& wired = at(w_.actors, pull);
    const ir::Actor& actor = w_.actor(pull);
    auto input =
        std::find_if(actor.inputs.begin(), actor.inputs.end(), [](const auto& in) { return in.peers >= 0; });
    const Unit& source = at(w_.units, at(w_.queues, at(w_.turns, turn).queue).unit);
    const ir::Program& program = w_.program(source);
    int producer = at(program.registers, input->reg).producer;
    int from = at(plan_.classes, source.cls).devices.front();
    const auto& sources = at(plan_.peers, input->peers).source;
    int device = at(plan_.classes, wired.unit).devices.front();
    for (int member : at(plan_.classes, wired.unit).devices) {
      if (at(sources, member) == from) {
        device = member;
        break;
      }
    }
    return {at(program.actors, producer).phase,
            producer,
            1,
            at(w_.units, wired.unit).program,
            wired.local,
            device,
            count(w_.actors) + turn};
  }

  void add_groups() {
    w_.group_at.assign(w_.items.size(), -1);
    std::vector<int> item_of(w_.actors.size(), -1);
    for (size_t item = 0; item < w_.items.size(); ++item) {
      if (w_.items[item] < count(w_.actors)) at(item_of, w_.items[item]) = static_cast<int>(item);
    }
    for (const Unit& unit : w_.units) {
      for (const Group& group : at(mergings_, unit.program).groups) {
        WiredGroup wired{-1, 0, 0, group.moduli, {}};
        for (int local : group.actors) {
          int actor = unit.first_actor + local, item = at(item_of, actor);
          if (wired.size > 0 && item != wired.first_item + wired.size)
            add_group(wired);  // a turn lies between
          add_member(wired, actor, item);
        }
        add_group(wired);
      }
    }
  }

  void add_member(WiredGroup& group, int actor, int item) const {
    if (group.size++ == 0) group.first_item = item;
    group.total += at(w_.actors, actor).alone;
    bool ported = at(w_.in_begin, actor) < at(w_.in_begin, actor + 1) ||
                  at(w_.out_begin, actor) < at(w_.out_begin, actor + 1);
    if (ported) group.ported.push_back(actor);
  }

  void add_group(WiredGroup& group) {
    if (group.size > 1) {
      at(w_.group_at, group.first_item) = count(w_.groups);
      w_.groups.push_back(group);
    }
    group = {-1, 0, 0, group.moduli, {}};
  }

  template <class T>
  static int count(const std::vector<T>& values) {
    return static_cast<int>(values.size());
  }

  const ir::Plan& plan_;
  const Platform& platform_;
  const std::vector<std::vector<ActCost>>& costs_;
  const std::vector<Merging>& mergings_;
  std::vector<int> unit_of_;                // by device
  std::vector<std::vector<int>> runs_;      // by program, phase: in one step
  std::vector<std::vector<char>> updated_;  // by program, register: always held
  Wiring w_;
};

}  // namespace

const ir::Actor& Wiring::actor(int index) const {
  const WiredActor& wired = at(actors, index);
  return at(program(at(units, wired.unit)).actors, wired.local);
}

std::string Wiring::name_of(int index) const {
  const WiredActor& wired = at(actors, index);
  const Unit& unit = at(units, wired.unit);
  return fmt::format("{}[{}].{}", program(unit).name, unit.cls, actor(index).name);
}

bool in_place(const ir::Program& program, int actor, const ir::Input& input) {
  return input.program < 0 && input.peers < 0 && at(program.registers, input.reg).producer == actor;
}

Wiring wire(const ir::Plan& plan, const Platform& platform, const std::vector<std::vector<ActCost>>& costs,
            const std::vector<Merging>& mergings, bool every_flow, bool gradients_stay) {
  return Builder(plan, platform, costs, mergings).build(every_flow, gradients_stay);
}

}  // namespace boxcar::sim
