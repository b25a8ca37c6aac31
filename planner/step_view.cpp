#include "planner/step_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "ir/plan_notation.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

class Builder {
 public:
  Builder(const ir::Plan& plan, bool classes, bool issue_order) : plan_(plan), issue_order_(issue_order) {
    view_.plan = &plan;
    view_.classes = classes;
  }

  StepView build() {
    instances();
    nodes();
    read_pulls();
    units();
    for (int i = 0; i < view_.instances(); ++i) {
      for (int n = at(view_.first_node, i); n < at(view_.first_node, i + 1); ++n) needs(i, n);
    }
    for (int i = 0; i < view_.instances(); ++i) stations(i);
    return std::move(view_);
  }

 private:
  // A pull from the view of its source.
  struct Puller {
    int node = 0;
    int reg = 0;
    int repeat = 1;
    int queue = -1;  // the queue of the source on which it takes a turn
  };

  void instances() {
    instance_of_.resize(static_cast<size_t>(plan_.devices));
    for (size_t c = 0; c < plan_.classes.size(); ++c) {
      for (int d : plan_.classes[c].devices) {
        at(instance_of_, d) = view_.classes ? static_cast<int>(c) : d;
      }
    }
    view_.program.resize(view_.classes ? plan_.classes.size() : static_cast<size_t>(plan_.devices));
    devices_.resize(view_.program.size());
    for (const ir::RankClass& cls : plan_.classes) {
      for (int d : cls.devices) {
        at(view_.program, at(instance_of_, d)) = cls.program;
        at(devices_, at(instance_of_, d)).push_back(d);
      }
    }
  }

  void nodes() {
    for (const ir::Program& program : plan_.programs) {
      std::vector<int> runs(program.phases.size());
      for (const ir::PhaseRun& run : program.schedule) ++at(runs, run.phase);
      runs_.push_back(runs);
    }
    for (int i = 0; i < view_.instances(); ++i) {
      view_.first_node.push_back(static_cast<int>(view_.nodes.size()));
      const ir::Program& program = view_.program_of(i);
      for (size_t a = 0; a < program.actors.size(); ++a) {
        StepNode node;
        node.instance = i;
        node.actor = static_cast<int>(a);
        node.acts = at(at(runs_, at(view_.program, i)), program.actors[a].phase);
        view_.nodes.push_back(node);
      }
    }
    view_.first_node.push_back(static_cast<int>(view_.nodes.size()));
  }

  // The instances from which instance `i` pulls by list `peers`.
  const std::vector<int>& sources(int i, int peers) {
    auto [found, added] = sources_.try_emplace({i, peers});
    if (!added) return found->second;
    std::set<int> from, pulled;
    for (int d : at(devices_, i)) {
      int source = at(at(plan_.peers, peers).source, d);
      from.insert(at(instance_of_, source));
      pulled.insert(source);
    }
    found->second.assign(from.begin(), from.end());
    size_t there = 0;
    for (int s : from) there += at(devices_, s).size();
    view_.exact &= from.size() == 1 && pulled.size() == there;
    return found->second;
  }

  void read_pulls() {
    pullers_.resize(view_.program.size());
    for (int n = 0; n < static_cast<int>(view_.nodes.size()); ++n) {
      const ir::Actor& actor = view_.actor_of(n);
      if (actor.kind != ir::ActorKind::pull) continue;
      const ir::Input& in = actor.inputs[0];
      for (int s : sources(at(view_.nodes, n).instance, in.peers)) {
        at(pullers_, s).push_back({n, in.reg, in.repeat, actor.source_queue});
      }
    }
  }

  void units() {
    std::map<std::pair<int, int>, std::unordered_map<std::string_view, int>>
        joint;  // by comm and set of instances
    for (size_t n = 0; n < view_.nodes.size(); ++n) {
      StepNode& node = view_.nodes[n];
      const ir::Actor& actor = view_.actor_of(static_cast<int>(n));
      int unit = static_cast<int>(view_.units.size());
      if (actor.comm >= 0) {
        auto& names = joint[{actor.comm, at(members(actor.comm), node.instance)}];
        unit = names.emplace(actor.joint.empty() ? actor.name : actor.joint, unit).first->second;
      }
      if (static_cast<size_t>(unit) == view_.units.size()) view_.units.emplace_back();
      at(view_.units, unit).nodes.push_back(static_cast<int>(n));
      at(view_.units, unit).acts = node.acts;
      node.unit = unit;
    }
  }

  // By instance: its set of instances, joined by the communicator's groups.
  const std::vector<int>& members(int comm) {
    auto [found, added] = members_.try_emplace(comm);
    if (!added) return found->second;
    std::vector<int>& set = found->second;
    set.resize(view_.program.size());
    std::iota(set.begin(), set.end(), 0);
    auto root = [&](int i) {
      while (at(set, i) != i) i = at(set, i) = at(set, at(set, i));
      return i;
    };
    std::vector<std::vector<int>> held;  // by group: its instances
    for (const auto& group : at(plan_.comms, comm).groups) {
      std::vector<int> in;
      for (int d : group) in.push_back(at(instance_of_, d));
      std::sort(in.begin(), in.end());
      in.erase(std::unique(in.begin(), in.end()), in.end());
      for (int i : in) at(set, root(i)) = root(in[0]);
      held.push_back(std::move(in));
    }
    std::vector<size_t> sizes(set.size());
    for (int i = 0; i < view_.instances(); ++i) ++at(sizes, at(set, i) = root(i));
    for (const auto& in : held) view_.exact &= in.size() == at(sizes, at(set, in[0]));
    return set;
  }

  void needs(int i, int n) {
    StepNode& node = at(view_.nodes, n);
    const ir::Program& program = view_.program_of(i);
    const ir::Actor& actor = at(program.actors, node.actor);
    node.needs_begin = static_cast<int>(view_.needs.size());
    for (const ir::Input& in : actor.inputs) {
      if (in.program < 0) {
        need_data(i, at(program.registers, in.reg), in, node.actor, true);
        continue;
      }
      const ir::Register& reg = at(at(plan_.programs, in.program).registers, in.reg);
      for (int s : sources(i, in.peers)) need_data(s, reg, in, node.actor, false);
    }
    for (int out : actor.outputs) need_slot(i, program, out, node.actor);
    node.needs_end = static_cast<int>(view_.needs.size());
  }

  void need_data(int source, const ir::Register& reg, const ir::Input& in, int actor, bool local) {
    bool in_place = local && reg.producer == actor;
    if (in_place) return;
    view_.needs.push_back(
        {at(view_.first_node, source) + reg.producer, in.repeat, 1 - reg.initial, reg.every, in.reg, true});
  }

  void need_slot(int i, const ir::Program& program, int out, int actor) {
    const ir::Register& reg = at(program.registers, out);
    auto add = [&](int node, int repeat) {
      view_.needs.push_back({node, reg.every, reg.initial - reg.count + 1, repeat, out, false});
    };
    for (const auto& [reader, repeat] : readers(at(view_.program, i), out)) {
      if (reader != actor) add(at(view_.first_node, i) + reader, repeat);
    }
    for (const Puller& puller : at(pullers_, i)) {
      if (puller.reg == out) add(puller.node, puller.repeat);
    }
  }

  // The local readers of a register: actor, repeat.
  const std::vector<std::pair<int, int>>& readers(int program, int reg) {
    if (readers_.empty()) readers_.resize(plan_.programs.size());
    auto& lists = at(readers_, program);
    if (lists.empty()) {
      const ir::Program& p = at(plan_.programs, program);
      lists.resize(p.registers.size());
      for (size_t a = 0; a < p.actors.size(); ++a) {
        for (const ir::Input& in : p.actors[a].inputs) {
          if (in.program < 0) at(lists, in.reg).push_back({static_cast<int>(a), in.repeat});
        }
      }
    }
    return at(lists, reg);
  }

  int add_station(StationKind kind, int instance, int queue) {
    view_.stations.push_back({kind, instance, queue, {}});
    view_.stations.back().phases.resize(view_.program_of(instance).phases.size());
    return static_cast<int>(view_.stations.size()) - 1;
  }

  void enter(int station, int phase, int unit, int turn_every) {
    at(at(view_.stations, station).phases, phase).push_back({unit, turn_every});
    at(view_.units, unit).stations.push_back(station);
  }

  void stations(int i) {
    const ir::Program& program = view_.program_of(i);
    std::vector<int> queues;
    for (size_t q = 0; q < program.queues.size(); ++q) {
      bool ordered = program.queues[q].ordered;
      queues.push_back(ordered ? add_station(StationKind::queue, i, static_cast<int>(q)) : -1);
    }
    std::vector<std::vector<Puller>> turns(program.registers.size());
    for (const Puller& puller : at(pullers_, i)) {
      if (puller.queue >= 0 && at(queues, puller.queue) >= 0) at(turns, puller.reg).push_back(puller);
    }
    int issue = -1;
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const ir::Actor& actor = program.actors[a];
      int unit = view_.nodes[static_cast<size_t>(at(view_.first_node, i)) + a].unit;
      int queue = at(queues, actor.queue);
      if (queue < 0) queue = add_station(StationKind::actor, i, actor.queue);
      enter(queue, actor.phase, unit, 0);
      if (issue_order_ && actor.comm >= 0) {
        if (issue < 0) issue = add_station(StationKind::issue, i, -1);
        enter(issue, actor.phase, unit, 0);
      }
      std::vector<std::pair<std::tuple<int, int, int>, std::pair<int, int>>> order;
      for (int out : actor.outputs) {
        for (const Puller& puller : at(turns, out)) {
          const StepNode& node = at(view_.nodes, puller.node);
          std::tuple key{at(view_.program, node.instance), node.actor, node.instance};
          order.push_back({key, {puller.node, puller.queue}});
        }
      }
      std::sort(order.begin(), order.end());
      for (const auto& [key, turn] : order) {
        int every = at(program.registers, view_.actor_of(turn.first).inputs[0].reg).every;
        enter(at(queues, turn.second), actor.phase, at(view_.nodes, turn.first).unit, every);
      }
    }
  }

  const ir::Plan& plan_;
  bool issue_order_ = true;
  StepView view_;
  std::vector<int> instance_of_;              // by device
  std::vector<std::vector<int>> devices_;     // by instance
  std::vector<std::vector<int>> runs_;        // by program, phase
  std::vector<std::vector<Puller>> pullers_;  // by instance pulled from
  std::map<std::pair<int, int>, std::vector<int>> sources_;
  std::map<int, std::vector<int>> members_;
  std::vector<std::vector<std::vector<std::pair<int, int>>>> readers_;  // by program, register
};

}  // namespace

const ir::Actor& StepView::actor_of(int node) const {
  const StepNode& n = at(nodes, node);
  return at(program_of(n.instance).actors, n.actor);
}

std::string StepView::instance_text(int instance) const {
  std::string list =
      classes ? ir::device_list(at(plan->classes, instance).devices) : fmt::format("{}", instance);
  bool one = list.find_first_of(",-") == std::string::npos;
  return fmt::format("{} (device{} {})", program_of(instance).name, one ? "" : "s", list);
}

std::string StepView::act_text(int node, int act) const {
  const ir::Program& program = program_of(at(nodes, node).instance);
  const ir::Actor& actor = actor_of(node);
  std::string text = fmt::format("{}: {}", instance_text(at(nodes, node).instance), actor.name);
  int k = act;
  for (const ir::PhaseRun& run : program.schedule) {
    if (run.phase != actor.phase || k-- != 0) continue;
    return text + fmt::format(" {}[{}]", at(program.phases, run.phase).name, run.micro_batch);
  }
  return text + fmt::format(" #{}", act);
}

StepView view_of_classes(const ir::Plan& plan, bool issue_order) {
  return Builder(plan, true, issue_order).build();
}
StepView view_of_devices(const ir::Plan& plan, bool issue_order) {
  return Builder(plan, false, issue_order).build();
}

}  // namespace boxcar::planner
