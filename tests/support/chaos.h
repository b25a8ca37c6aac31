// Runs a plan on every device with the actor state machine and no clock, in an order drawn at random: which
// message arrives next, which act begins, which ends. Messages of one pair keep their order, all else is
// permuted; some actors and wires are drawn to be slow. Written from ir/plan.h alone, so that it can judge
// the verifier.
//
//   Chaos run(plan, 7);
//   run.steps(3);          // true: all acts of three steps have ended; false: nothing can go on
//   run.overlap();         // "" or which register was written over which
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "actors/actor.h"
#include "ir/plan.h"

namespace boxcar::testing {

class Chaos {
 public:
  Chaos(const ir::Plan& plan, unsigned seed) : plan_(plan), random_(seed), class_of_(size(plan.devices)) {
    for (size_t c = 0; c < plan.classes.size(); ++c) {
      for (int d : plan.classes[c].devices) class_of_[size(d)] = static_cast<int>(c);
    }
    for (int d = 0; d < plan.devices; ++d) {
      first_.push_back(total_);
      total_ += static_cast<int>(program(d).actors.size());
    }
    add_actors();
    add_units();
    for (int d = 0; d < plan.devices; ++d) add_queues(d);
    for (size_t w = 0; w < wires_.size(); ++w) pace_.push_back(pick(0, 3) == 0 ? 1 : 30);
  }

  // Until every actor has acted `steps` steps' acts.
  bool steps(int steps) {
    start();
    int64_t left = 0;
    for (int a = 0; a < total_; ++a) left += int64_t{steps} * per_step(a);
    left_ = left;
    steps_ = steps;
    while (left_ > 0) {
      if (!move()) return false;
    }
    return true;
  }
  const std::string& overlap() const { return overlap_; }

 private:
  struct Wire {
    int producer, out, consumer, in;
    std::deque<int> reqs, acks;
  };
  struct Order {  // of a queue or of a device's collectives, over one step
    std::vector<int> units;
    size_t next = 0;  // over all steps
    bool busy = false;
    int current() const { return units.empty() ? -1 : units[next % units.size()]; }
  };
  struct Unit {
    std::vector<int> actors;
    std::vector<int> queues;  // orders that must have come to it, held while it acts
    std::vector<int> issues;  // orders in which it is issued
    std::vector<int> open;    // queues without order that it holds
    bool acting = false;
  };

  static size_t size(int n) { return static_cast<size_t>(n); }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  const ir::Program& program(int device) const {
    return plan_.programs[size(plan_.classes[size(class_of_[size(device)])].program)];
  }
  int device_of(int a) const {
    return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), a) - first_.begin()) - 1;
  }
  const ir::Actor& actor(int a) const {
    int d = device_of(a);
    return program(d).actors[size(a - first_[size(d)])];
  }
  int per_step(int a) const {
    int d = device_of(a);
    return program(d).acts_per_step(a - first_[size(d)]);
  }
  static int port_of(const ir::Actor& producer, int reg) {
    return static_cast<int>(std::find(producer.outputs.begin(), producer.outputs.end(), reg) -
                            producer.outputs.begin());
  }

  void add_actors() {
    std::vector<std::vector<actors::InSpec>> ins(size(total_));
    std::vector<std::vector<actors::OutSpec>> outs(size(total_));
    for (int a = 0; a < total_; ++a) {
      for (int r : actor(a).outputs) {
        const ir::Register& reg = program(device_of(a)).registers[size(r)];
        outs[size(a)].push_back({reg.count, reg.initial, reg.every, 0});
      }
    }
    for (int a = 0; a < total_; ++a) {
      for (const ir::Input& in : actor(a).inputs) {
        int d = device_of(a);
        int from = in.program < 0 ? d : plan_.peers[size(in.peers)].source[size(d)];
        const ir::Register& reg = program(from).registers[size(in.reg)];
        int producer = first_[size(from)] + reg.producer;
        if (reg.producer < 0 || producer == a) continue;
        int out = port_of(actor(producer), in.reg);
        wires_.push_back({producer, out, a, static_cast<int>(ins[size(a)].size()), {}, {}});
        ins[size(a)].push_back({in.repeat, reg.count});
        ++outs[size(producer)][size(out)].consumers;
      }
    }
    for (int a = 0; a < total_; ++a) table_.add(ins[size(a)], outs[size(a)]);
  }

  void add_units() {
    std::map<std::tuple<int, const std::vector<int>*, std::string>, int> joint;
    for (int a = 0; a < total_; ++a) {
      const ir::Actor& x = actor(a);
      int unit = static_cast<int>(units_.size());
      if (x.comm >= 0) {
        const std::vector<int>* group = nullptr;
        for (const auto& g : plan_.comms[size(x.comm)].groups) {
          if (std::find(g.begin(), g.end(), device_of(a)) != g.end()) group = &g;
        }
        unit =
            joint.emplace(std::tuple{x.comm, group, x.joint.empty() ? x.name : x.joint}, unit).first->second;
      }
      if (size(unit) == units_.size()) units_.emplace_back();
      units_[size(unit)].actors.push_back(a);
      unit_of_.push_back(unit);
    }
  }

  // The pulls that take a turn after an act of producer `a` on queue q of device d, in order.
  std::vector<int> turns(int d, int a, int q) const {
    std::vector<std::tuple<int, int, int, int>> found;
    for (int other = 0; other < plan_.devices; ++other) {
      for (int b = first_[size(other)];
           b < first_[size(other)] + static_cast<int>(program(other).actors.size()); ++b) {
        const ir::Actor& x = actor(b);
        if (x.kind != ir::ActorKind::pull || x.source_queue != q) continue;
        const ir::Input& in = x.inputs[0];
        bool mine = plan_.peers[size(in.peers)].source[size(other)] == d &&
                    program(d).registers[size(in.reg)].producer == a - first_[size(d)];
        int p = plan_.classes[size(class_of_[size(other)])].program;
        if (mine) found.push_back({p, b - first_[size(other)], other, b});
      }
    }
    std::sort(found.begin(), found.end());
    std::vector<int> pulls;
    for (const auto& turn : found) pulls.push_back(std::get<3>(turn));
    return pulls;
  }

  void add_queues(int d) {
    const ir::Program& p = program(d);
    for (int q = 0; q < static_cast<int>(p.queues.size()); ++q) {
      int index = static_cast<int>(orders_.size());
      orders_.emplace_back();
      for_each_act(d, [&](int a, int k) {
        if (actor(a).queue == q) enter(index, a, p.queues[size(q)].ordered);
        for (int pull : turns(d, a, q)) {
          int every = p.registers[size(actor(pull).inputs[0].reg)].every;
          if (p.queues[size(q)].ordered && (k + 1) % every == 0) enter(index, pull, true);
        }
      });
    }
    int issue = static_cast<int>(orders_.size());
    orders_.emplace_back();
    for_each_act(d, [&](int a, int) {
      if (actor(a).comm < 0) return;
      orders_[size(issue)].units.push_back(unit_of_[size(a)]);
      insert(units_[size(unit_of_[size(a)])].issues, issue);
    });
  }

  template <typename Visit>
  void for_each_act(int d, Visit visit) {
    const ir::Program& p = program(d);
    std::vector<int> runs(p.phases.size());
    for (const ir::PhaseRun& run : p.schedule) {
      int k = runs[size(run.phase)]++;
      for (int i = 0; i < static_cast<int>(p.actors.size()); ++i) {
        if (p.actors[size(i)].phase == run.phase) visit(first_[size(d)] + i, k);
      }
    }
  }

  void enter(int order, int a, bool ordered) {
    Unit& unit = units_[size(unit_of_[size(a)])];
    insert(ordered ? unit.queues : unit.open, order);
    if (ordered) orders_[size(order)].units.push_back(unit_of_[size(a)]);
  }
  static void insert(std::vector<int>& list, int value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }

  void start() {
    std::vector<actors::Effect> effects;
    for (int a = 0; a < total_; ++a) {
      effects.clear();
      table_.start(a, effects);
      send(a, effects);
    }
  }

  void send(int a, const std::vector<actors::Effect>& effects) {
    for (const actors::Effect& e : effects) {
      for (Wire& w : wires_) {
        if (e.kind == actors::MessageKind::req && w.producer == a && w.out == e.port) {
          w.reqs.push_back(e.slot);
          ++held_[{a, e.port, e.slot}];
        }
        if (e.kind == actors::MessageKind::ack && w.consumer == a && w.in == e.port) {
          w.acks.push_back(e.slot);
          --held_[{w.producer, w.out, e.slot}];
        }
      }
    }
  }

  bool can_begin(const Unit& unit) const {
    int index = static_cast<int>(&unit - units_.data());
    auto comes = [&](int o) { return !orders_[size(o)].busy && orders_[size(o)].current() == index; };
    auto issued = [&](int o) { return orders_[size(o)].current() == index; };
    return !unit.acting && table_.acts(unit.actors[0]) < int64_t{steps_ + 1} * per_step(unit.actors[0]) &&
           std::all_of(unit.actors.begin(), unit.actors.end(), [&](int a) { return table_.ready(a); }) &&
           std::all_of(unit.queues.begin(), unit.queues.end(), comes) &&
           std::all_of(unit.issues.begin(), unit.issues.end(), issued) &&
           std::none_of(unit.open.begin(), unit.open.end(), [&](int o) { return orders_[size(o)].busy; });
  }

  bool move() {
    struct Choice {
      int kind;
      size_t index;
      int weight;
    };
    std::vector<Choice> choices;
    int total = 0;
    auto offer = [&](int kind, size_t index, int weight) {
      choices.push_back({kind, index, weight});
      total += weight;
    };
    for (size_t w = 0; w < wires_.size(); ++w) {
      if (!wires_[w].reqs.empty()) offer(0, w, pace_[w]);
      if (!wires_[w].acks.empty()) offer(1, w, pace_[w]);
    }
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].acting) offer(2, u, u % 3 == 0 ? 1 : 10);
      if (can_begin(units_[u])) offer(3, u, 10);
    }
    if (choices.empty()) return false;
    int drawn = pick(0, total - 1);
    size_t c = 0;
    while ((drawn -= choices[c].weight) >= 0) ++c;
    make(choices[c].kind, choices[c].index);
    return true;
  }

  void make(int kind, size_t index) {
    if (kind == 0) {
      Wire& w = wires_[index];
      table_.receive(w.consumer, {actors::MessageKind::req, w.in, w.reqs.front()});
      w.reqs.pop_front();
    } else if (kind == 1) {
      Wire& w = wires_[index];
      table_.receive(w.producer, {actors::MessageKind::ack, w.out, w.acks.front()});
      w.acks.pop_front();
    } else if (kind == 2) {
      end(units_[index]);
    } else {
      begin(units_[index]);
    }
  }

  void begin(Unit& unit) {
    unit.acting = true;
    for (int o : unit.queues) orders_[size(o)].busy = true;
    for (int o : unit.open) orders_[size(o)].busy = true;
    for (int o : unit.issues) ++orders_[size(o)].next;
    for (int a : unit.actors) {
      write(a);
      table_.begin(a);
    }
  }

  void end(Unit& unit) {
    unit.acting = false;
    for (int o : unit.queues) {
      orders_[size(o)].busy = false;
      ++orders_[size(o)].next;
    }
    for (int o : unit.open) orders_[size(o)].busy = false;
    std::vector<actors::Effect> effects;
    for (int a : unit.actors) {
      effects.clear();
      table_.end(a, effects);
      if (table_.acts(a) <= int64_t{steps_} * per_step(a)) --left_;
      written(a);
      send(a, effects);
    }
  }

  struct Span {
    int device;
    int64_t begin, end;
    const ir::Register* reg;
  };
  Span span_of(int a, const ir::Register& reg, int slot) const {
    int64_t begin = reg.offset + reg.bytes * slot;
    return {device_of(a), begin, begin + reg.bytes, &reg};
  }

  // Nobody may still read, or be writing, what this act begins to write.
  void write(int a) {
    const ir::Actor& x = actor(a);
    for (int o = 0; o < static_cast<int>(x.outputs.size()); ++o) {
      const ir::Register& reg = program(device_of(a)).registers[size(x.outputs[size(o)])];
      bool starts = table_.acts(a) % reg.every == 0;
      if (reg.offset < 0 || reg.bytes == 0 || !starts) continue;
      Span mine = span_of(a, reg, table_.out_slot(a, o));
      auto compare = [&](const Span& other) {
        bool meet = other.device == mine.device && other.begin < mine.end && mine.begin < other.end;
        if (meet && overlap_.empty()) overlap_ = reg.name + " over " + other.reg->name;
      };
      for (const auto& [output, span] : writing_) compare(span);
      for (const auto& [slot, readers] : held_) {
        auto [b, port, s] = slot;
        const ir::Register& theirs = program(device_of(b)).registers[size(actor(b).outputs[size(port)])];
        if (readers > 0 && theirs.offset >= 0) compare(span_of(b, theirs, s));
      }
      writing_[{a, o}] = mine;
    }
  }

  // After an act has ended: what it has written to the last.
  void written(int a) {
    const ir::Actor& x = actor(a);
    for (int o = 0; o < static_cast<int>(x.outputs.size()); ++o) {
      const ir::Register& reg = program(device_of(a)).registers[size(x.outputs[size(o)])];
      if (table_.acts(a) % reg.every == 0) writing_.erase({a, o});
    }
  }

  const ir::Plan& plan_;
  std::mt19937 random_;
  std::vector<int> class_of_, first_, unit_of_, pace_;
  int total_ = 0, steps_ = 0;
  int64_t left_ = 0;
  actors::ActorTable table_;
  std::vector<Wire> wires_;
  std::vector<Unit> units_;
  std::vector<Order> orders_;
  std::map<std::tuple<int, int, int>, int> held_;  // by actor, output, slot: readers that have not ended
  std::map<std::pair<int, int>, Span> writing_;    // by actor, output: a slot written in part
  std::string overlap_;
};

}  // namespace boxcar::testing
