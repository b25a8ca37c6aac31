// Runs a plan on every device with the actor state machine and no clock, in random order: which message
// arrives next, which act begins, which ends. Messages of one pair keep their order; all else is permuted.
// Some actors and wires are drawn to be slow. Written from ir/plan.h alone, so that it can judge the
// verifier.
//
//   Chaos run(plan, 7);
//   run.steps(3);          // true: all acts of three steps have ended; false: nothing can go on
//   run.overlap();         // "" or which register was written over which
//   run.ended = ...;       // before steps(): called for every act as it ends, for a joint act once
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "actors/actor.h"
#include "ir/plan.h"
#include "support/drawn_set.h"

namespace boxcar::support {

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
    for (int d = 0; d < plan.devices; ++d) {
      for (size_t a = 0; a < program(d).actors.size(); ++a) {
        device_.push_back(d);
        per_step_.push_back(program(d).acts_per_step(static_cast<int>(a)));
      }
    }
    add_actors();
    add_units();
    find_pulls();
    for (int d = 0; d < plan.devices; ++d) add_queues(d);
    for (size_t w = 0; w < wires_.size(); ++w) slow_wire_.push_back(pick(0, 3) == 0);
    for (size_t u = 0; u < units_.size(); ++u) slow_unit_.push_back(pick(0, 3) == 0);
  }

  // Runs until every actor has done the acts of `steps` steps; false on deadlock.
  bool steps(int steps) {
    open_units_.resize(orders_.size());
    held_.resize(size(plan_.devices));
    writing_.resize(size(plan_.devices));
    steps_ = steps;
    start();
    for (size_t u = 0; u < units_.size(); ++u) look(static_cast<int>(u));
    int64_t left = 0;
    for (int a = 0; a < total_; ++a) left += int64_t{steps} * per_step(a);
    left_ = left;
    while (left_ > 0) {
      if (!move()) return false;
    }
    return true;
  }
  const std::string& overlap() const { return overlap_; }

  std::function<void(int device, int actor)> ended;

 private:
  struct Wire {
    int producer, out, consumer, in;
    std::deque<int> reqs, acks;
  };
  struct Order {  // of a queue, or of a device's collectives; over one step
    std::vector<int> units;
    size_t next = 0;  // over all steps
    bool busy = false;
    int current() const { return units.empty() ? -1 : units[next % units.size()]; }
  };
  struct Unit {
    std::vector<int> actors;
    std::vector<int> queues;  // orders that must reach the unit; held while it acts
    std::vector<int> issues;  // orders in which the unit is issued
    std::vector<int> open;    // unordered queues that it holds
    bool acting = false;
  };

  struct Span {
    int device;
    int64_t begin, end;
    const ir::Register* reg;
  };
  struct Held {
    int readers = 0;  // readers that have not ended
    Span span;
  };

  static size_t size(int n) { return static_cast<size_t>(n); }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  const ir::Program& program(int device) const {
    return plan_.programs[size(plan_.classes[size(class_of_[size(device)])].program)];
  }
  int device_of(int a) const { return device_[size(a)]; }
  const ir::Actor& actor(int a) const {
    int d = device_of(a);
    return program(d).actors[size(a - first_[size(d)])];
  }
  int per_step(int a) const { return per_step_[size(a)]; }
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
        if (producer == a) continue;
        int out = port_of(actor(producer), in.reg);
        from_[{producer, out}].push_back(static_cast<int>(wires_.size()));
        into_[{a, static_cast<int>(ins[size(a)].size())}] = static_cast<int>(wires_.size());
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

  // By the producing actor and the queue of its device: pulls that take turns after its acts, in order.
  void find_pulls() {
    for (int b = 0; b < total_; ++b) {
      const ir::Actor& x = actor(b);
      if (x.kind != ir::ActorKind::pull || x.source_queue < 0) continue;
      const ir::Input& in = x.inputs[0];
      int source = plan_.peers[size(in.peers)].source[size(device_of(b))];
      int producer = first_[size(source)] + program(source).registers[size(in.reg)].producer;
      turns_[{producer, x.source_queue}].push_back(b);
    }
    auto key = [&](int b) {
      int d = device_of(b);
      return std::tuple{plan_.classes[size(class_of_[size(d)])].program, b - first_[size(d)], d};
    };
    for (auto& [place, pulls] : turns_) {
      std::sort(pulls.begin(), pulls.end(), [&](int a, int b) { return key(a) < key(b); });
    }
  }

  void add_queues(int d) {
    const ir::Program& p = program(d);
    for (int q = 0; q < static_cast<int>(p.queues.size()); ++q) {
      int index = static_cast<int>(orders_.size());
      orders_.emplace_back();
      for_each_act(d, [&](int a, int k) {
        if (actor(a).queue == q) enter(index, a, p.queues[size(q)].ordered);
        auto pulls = turns_.find({a, q});
        if (pulls == turns_.end()) return;
        for (int pull : pulls->second) {
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
    open_units_.resize(orders_.size());
    if (!ordered) insert(open_units_[size(order)], unit_of_[size(a)]);
  }
  static void insert(std::vector<int>& list, int value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }

  void start() {
    for (int a = 0; a < total_; ++a)
      for (int o = 0; o < static_cast<int>(actor(a).outputs.size()); ++o)
        if (in_place(a, o)) hold(a, o, 0, 1);  // for good
    std::vector<actors::Effect> effects;
    for (int a = 0; a < total_; ++a) {
      effects.clear();
      table_.start(a, effects);
      send(a, effects);
    }
  }

  void send(int a, const std::vector<actors::Effect>& effects) {
    for (const actors::Effect& e : effects) {
      if (e.kind == actors::MessageKind::req) {
        auto readers = from_.find({a, e.port});
        for (int w : readers->second) {
          wires_[size(w)].reqs.push_back(e.slot);
          reqs_[slow_wire_[size(w)]].add(w);
        }
        hold(a, e.port, e.slot, static_cast<int>(readers->second.size()));
      } else {
        int w = into_.at({a, e.port});
        wires_[size(w)].acks.push_back(e.slot);
        acks_[slow_wire_[size(w)]].add(w);
        hold(wires_[size(w)].producer, wires_[size(w)].out, e.slot, -1);
      }
    }
  }

  // `more` readers hold a slot from now on.
  void hold(int a, int out, int slot, int more) {
    const ir::Register& reg = program(device_of(a)).registers[size(actor(a).outputs[size(out)])];
    auto& held = held_[size(device_of(a))];
    auto [found, added] = held.try_emplace({a, out, slot}, Held{0, span_of(a, reg, slot)});
    if ((found->second.readers += more) == 0) held.erase(found);
  }

  bool in_place(int a, int out) const {
    const auto& inputs = actor(a).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](const ir::Input& in) {
      return in.program < 0 && in.reg == actor(a).outputs[size(out)];
    });
  }

  bool can_begin(int index) const {
    const Unit& unit = units_[size(index)];
    auto comes = [&](int o) { return !orders_[size(o)].busy && orders_[size(o)].current() == index; };
    auto issued = [&](int o) { return orders_[size(o)].current() == index; };
    return !unit.acting && table_.acts(unit.actors[0]) < int64_t{steps_ + 1} * per_step(unit.actors[0]) &&
           std::all_of(unit.actors.begin(), unit.actors.end(), [&](int a) { return table_.ready(a); }) &&
           std::all_of(unit.queues.begin(), unit.queues.end(), comes) &&
           std::all_of(unit.issues.begin(), unit.issues.end(), issued) &&
           std::none_of(unit.open.begin(), unit.open.end(), [&](int o) { return orders_[size(o)].busy; });
  }

  void look(int unit) { can_begin(unit) ? can_begin_.add(unit) : can_begin_.drop(unit); }

  // Makes one move. Slow wires are drawn a thirtieth as often as others, slow units a tenth.
  bool move() {
    DrawnSet* sets[] = {&reqs_[0], &reqs_[1], &acks_[0], &acks_[1], &acting_[0], &acting_[1], &can_begin_};
    constexpr int weights[] = {30, 1, 30, 1, 10, 1, 10};
    int total = 0;
    for (int i = 0; i < 7; ++i) total += weights[i] * static_cast<int>(sets[i]->size());
    if (total == 0) return false;
    int drawn = pick(0, total - 1), set = 0;
    for (; drawn >= weights[set] * static_cast<int>(sets[set]->size()); ++set) {
      drawn -= weights[set] * static_cast<int>(sets[set]->size());
    }
    int value = sets[set]->at(size(drawn / weights[set]));
    if (set < 4) {
      deliver(*sets[set], value, set < 2);
    } else if (set < 6) {
      end(value);
    } else {
      begin(value);
    }
    return true;
  }

  void deliver(DrawnSet& set, int wire, bool req) {
    Wire& w = wires_[size(wire)];
    std::deque<int>& messages = req ? w.reqs : w.acks;
    int to = req ? w.consumer : w.producer;
    table_.receive(to, {req ? actors::MessageKind::req : actors::MessageKind::ack, req ? w.in : w.out,
                        messages.front()});
    messages.pop_front();
    if (messages.empty()) set.drop(wire);
    look(unit_of_[size(to)]);
  }

  // Units that may begin after this order has advanced.
  void look_at(int order) {
    if (orders_[size(order)].current() >= 0) look(orders_[size(order)].current());
    for (int unit : open_units_[size(order)]) look(unit);
  }

  void begin(int index) {
    Unit& unit = units_[size(index)];
    unit.acting = true;
    acting_[slow_unit_[size(index)]].add(index);
    for (int o : unit.queues) orders_[size(o)].busy = true;
    for (int o : unit.open) orders_[size(o)].busy = true;
    for (int o : unit.issues) ++orders_[size(o)].next;
    for (int a : unit.actors) {
      write(a);
      table_.begin(a);
    }
    look(index);
    for (int o : unit.open) look_at(o);
    for (int o : unit.issues) look_at(o);
  }

  void end(int index) {
    Unit& unit = units_[size(index)];
    unit.acting = false;
    acting_[slow_unit_[size(index)]].drop(index);
    for (int o : unit.queues) {
      orders_[size(o)].busy = false;
      ++orders_[size(o)].next;
    }
    for (int o : unit.open) orders_[size(o)].busy = false;
    const int first = unit.actors[0];
    if (ended) ended(device_of(first), first - first_[size(device_of(first))]);
    std::vector<actors::Effect> effects;
    for (int a : unit.actors) {
      effects.clear();
      table_.end(a, effects);
      if (table_.acts(a) <= int64_t{steps_} * per_step(a)) --left_;
      written(a);
      send(a, effects);
    }
    look(index);
    for (int o : unit.queues) look_at(o);
    for (int o : unit.open) look_at(o);
  }

  Span span_of(int a, const ir::Register& reg, int slot) const {
    int64_t begin = reg.offset < 0 || reg.bytes == 0 ? -1 : reg.offset + reg.bytes * slot;
    return {device_of(a), begin, begin + reg.bytes, &reg};
  }

  // Nobody may still read or write the memory that this act begins to write.
  void write(int a) {
    const ir::Actor& x = actor(a);
    for (int o = 0; o < static_cast<int>(x.outputs.size()); ++o) {
      const ir::Register& reg = program(device_of(a)).registers[size(x.outputs[size(o)])];
      bool starts = table_.acts(a) % reg.every == 0;
      if (reg.offset < 0 || reg.bytes == 0 || !starts) continue;
      Span mine = span_of(a, reg, table_.out_slot(a, o));
      auto compare = [&](const Span& other) {
        bool meet = other.begin < mine.end && mine.begin < other.end;
        if (meet && overlap_.empty()) overlap_ = reg.name + " over " + other.reg->name;
      };
      for (const auto& [output, span] : writing_[size(mine.device)]) compare(span);
      for (const auto& [slot, held] : held_[size(mine.device)]) {
        const bool own = in_place(a, o) && held.span.reg == &reg;
        if (held.span.begin >= 0 && !own) compare(held.span);
      }
      writing_[size(mine.device)][{a, o}] = mine;
    }
  }

  // After an act has ended: drops the outputs that are now fully written.
  void written(int a) {
    const ir::Actor& x = actor(a);
    for (int o = 0; o < static_cast<int>(x.outputs.size()); ++o) {
      const ir::Register& reg = program(device_of(a)).registers[size(x.outputs[size(o)])];
      if (table_.acts(a) % reg.every == 0) writing_[size(device_of(a))].erase({a, o});
    }
  }

  const ir::Plan& plan_;
  std::mt19937 random_;
  std::vector<int> class_of_, first_;             // by device
  std::vector<int> device_, per_step_, unit_of_;  // by actor
  std::vector<bool> slow_wire_, slow_unit_;
  int total_ = 0, steps_ = 0;
  int64_t left_ = 0;
  actors::ActorTable table_;
  std::vector<Wire> wires_;
  std::map<std::pair<int, int>, std::vector<int>> from_;  // by producer, output: wires
  std::map<std::pair<int, int>, int> into_;               // by consumer, input: wire
  std::map<std::pair<int, int>, std::vector<int>> turns_;
  std::vector<Unit> units_;
  std::vector<Order> orders_;
  std::vector<std::vector<int>> open_units_;                     // by unordered queue: the units on it
  DrawnSet reqs_[2], acks_[2], acting_[2], can_begin_;           // wires, units; the second of each is slow
  std::vector<std::map<std::tuple<int, int, int>, Held>> held_;  // by device; actor, output, slot
  std::vector<std::map<std::pair<int, int>, Span>> writing_;     // by device; actor, output: partly written
  std::string overlap_;
};

}  // namespace boxcar::support
