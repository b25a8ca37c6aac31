#include "sim/merge.h"

#include <algorithm>

#include "sbp/at.h"
#include "sim/queue_order.h"
#include "sim/wiring.h"

namespace boxcar::sim {
namespace {

struct Reader {
  int actor = 0;
  int repeat = 1;
};

class Merger {
 public:
  Merger(const ir::Program& program, const std::vector<char>& pulled)
      : program_(program), pulled_(pulled), order_(program), readers_(program.registers.size()) {
    for (size_t a = 0; a < program.actors.size(); ++a) {
      for (const ir::Input& input : program.actors[a].inputs) {
        bool local = input.program < 0 && input.peers < 0;
        if (local && !in_place(program, static_cast<int>(a), input)) {
          at(readers_, input.reg).push_back({static_cast<int>(a), input.repeat});
        }
      }
    }
  }

  Merging run() {
    merging_.implied.assign(program_.registers.size(), 0);
    merging_.last_reader.assign(program_.registers.size(), -1);
    for (int reg = 0; reg < static_cast<int>(program_.registers.size()); ++reg) {
      at(merging_.implied, reg) = implied(reg);
    }
    for (int queue = 0; queue < static_cast<int>(program_.queues.size()); ++queue) {
      const ir::Queue& q = at(program_.queues, queue);
      if (q.kind != ir::QueueKind::compute) continue;
      if (q.ordered) group(queue);
      break;
    }
    return std::move(merging_);
  }

 private:
  int queue_of(int actor) const { return at(program_.actors, actor).queue; }
  int phase_of(int actor) const { return at(program_.actors, actor).phase; }

  bool implied(int index) {
    const ir::Register& reg = at(program_.registers, index);
    if (at(pulled_, index) || !at(program_.queues, queue_of(reg.producer)).ordered) return false;
    for (const Reader& reader : at(readers_, index)) {
      if (queue_of(reader.actor) != queue_of(reg.producer)) return false;
      // Version v = initial + u is written by act u x every + every - 1, first read by act v x repeat.
      bool written = order_.always_before({reg.producer, reg.every, reg.every - 1},
                                          {reader.actor, reader.repeat, reg.initial * reader.repeat});
      // Version count + u overwrites version u, last read by act u x repeat + repeat - 1.
      bool free = order_.always_before({reader.actor, reader.repeat, reader.repeat - 1},
                                       {reg.producer, reg.every, (reg.count - reg.initial) * reg.every});
      if (!written || !free) return false;
    }
    if (at(readers_, index).empty()) return true;
    at(merging_.last_reader, index) = last_reader(index);
    return at(merging_.last_reader, index) >= 0;
  }

  // The reader whose last act on a version comes after all others', the same for all versions; -1 if there is
  // none.
  int last_reader(int index) {
    const std::vector<Reader>& readers = at(readers_, index);
    auto before = [&](const Reader& a, const Reader& b) {
      return order_.always_before({a.actor, a.repeat, a.repeat - 1}, {b.actor, b.repeat, b.repeat - 1});
    };
    Reader last = readers[0];  // if there is one, it comes after any other candidate
    for (const Reader& reader : readers)
      if (before(last, reader)) last = reader;
    bool after_all = std::all_of(readers.begin(), readers.end(), [&](const Reader& other) {
      return other.actor == last.actor || before(other, last);
    });
    return after_all ? last.actor : -1;
  }

  void group(int queue) {
    std::vector<std::vector<int>> by_phase(program_.phases.size());
    for (int a = 0; a < static_cast<int>(program_.actors.size()); ++a) {
      if (queue_of(a) == queue) at(by_phase, phase_of(a)).push_back(a);
    }
    for (const std::vector<int>& actors : by_phase) {
      Group group;
      for (int actor : actors) {
        if (!group.actors.empty() && cut_before(actor)) close(group);
        group.actors.push_back(actor);
        if (cut_after(actor)) close(group);
      }
      close(group);
    }
  }

  void close(Group& group) {
    if (group.actors.size() > 1) {
      for (size_t i = 0; i + 1 < group.actors.size(); ++i) add_moduli(group, group.actors[i]);
      merging_.groups.push_back(group);
    }
    group = {};
  }

  void add_moduli(Group& group, int actor) const {
    auto add = [&](int m) {
      if (m > 1 && std::find(group.moduli.begin(), group.moduli.end(), m) == group.moduli.end()) {
        group.moduli.push_back(m);
      }
    };
    for (const ir::Input& input : at(program_.actors, actor).inputs) {
      if (elsewhere(actor, input)) add(input.repeat);
    }
    for (int reg : at(program_.actors, actor).outputs) {
      if (!at(merging_.implied, reg)) add(at(program_.registers, reg).every);
    }
  }

  // Whether an input comes by message.
  bool elsewhere(int actor, const ir::Input& input) const {
    if (in_place(program_, actor, input)) return false;
    return input.program >= 0 || input.peers >= 0 || !at(merging_.implied, input.reg);
  }

  static bool alone(const ir::Actor& actor) {
    return actor.kind == ir::ActorKind::collective || actor.kind == ir::ActorKind::pull;
  }

  // A group that begins with the first reader of another queue's output is seldom unready.
  bool cut_before(int actor) const {
    if (alone(at(program_.actors, actor))) return true;
    for (const ir::Input& input : at(program_.actors, actor).inputs) {
      if (!elsewhere(actor, input) || input.repeat > 1) continue;
      const auto& readers = at(readers_, input.reg);
      bool first = std::none_of(readers.begin(), readers.end(), [&](const Reader& other) {
        return other.actor < actor && other.repeat == 1 && phase_of(other.actor) == phase_of(actor) &&
               queue_of(other.actor) == queue_of(actor);
      });
      if (first) return true;
    }
    return false;
  }

  bool cut_after(int actor) {
    if (alone(at(program_.actors, actor))) return true;
    for (int reg : at(program_.actors, actor).outputs) {
      if (at(pulled_, reg)) return true;  // a turn may come after it
      if (!at(merging_.implied, reg) && at(program_.registers, reg).every == 1) return true;
    }
    for (const ir::Input& input : at(program_.actors, actor).inputs) {
      if (elsewhere(actor, input) && input.repeat == 1 && !ack_may_wait(actor, input)) return true;
    }
    return false;
  }

  // The producer uses the slot that act i gives back in its act i + count - initial. If it then also reads
  // something that an act of this queue after act i writes, the ack may wait until that act ends.
  bool ack_may_wait(int actor, const ir::Input& input) {
    if (input.program >= 0 || input.peers >= 0) return false;
    const ir::Register& reg = at(program_.registers, input.reg);
    if (queue_of(reg.producer) == queue_of(actor)) return true;
    if (reg.every != 1) return false;
    int ahead = reg.count - reg.initial;
    for (const ir::Input& other : at(program_.actors, reg.producer).inputs) {
      if (other.program >= 0 || other.peers >= 0 || other.repeat != 1) continue;
      const ir::Register& gate = at(program_.registers, other.reg);
      if (gate.every != 1 || queue_of(gate.producer) != queue_of(actor) || gate.producer == actor) continue;
      if (order_.always_before({actor, 1, 0}, {gate.producer, 1, ahead - gate.initial})) return true;
    }
    return false;
  }

  const ir::Program& program_;
  const std::vector<char>& pulled_;  // by register: read by another program or device
  QueueOrder order_;
  std::vector<std::vector<Reader>> readers_;  // by register, in actors' order
  Merging merging_;
};

}  // namespace

std::vector<Merging> merge(const ir::Plan& plan) {
  std::vector<std::vector<char>> pulled;
  for (const ir::Program& program : plan.programs) pulled.emplace_back(program.registers.size(), 0);
  for (const ir::Program& program : plan.programs) {
    for (const ir::Actor& actor : program.actors) {
      for (const ir::Input& input : actor.inputs) {
        if (input.program >= 0) at(at(pulled, input.program), input.reg) = 1;
      }
    }
  }
  std::vector<Merging> merged;
  for (size_t p = 0; p < plan.programs.size(); ++p)
    merged.push_back(Merger(plan.programs[p], pulled[p]).run());
  return merged;
}

std::vector<Merging> no_merging(const ir::Plan& plan) {
  std::vector<Merging> merged(plan.programs.size());
  for (size_t p = 0; p < merged.size(); ++p) {
    merged[p].implied.assign(plan.programs[p].registers.size(), 0);
    merged[p].last_reader.assign(plan.programs[p].registers.size(), -1);
  }
  return merged;
}

}  // namespace boxcar::sim
