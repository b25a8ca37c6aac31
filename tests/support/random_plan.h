// Random plans for tests of the text, the verifier and the simulator.
//
//   ir::Plan plan = support::random_plan({.seed = 7});            // cannot deadlock, by construction
//   ir::Plan risky = support::random_plan({.seed = 7, .live = false});  // too few counts or tokens: may hang
//
// All programs run the same phases in one random order. Acts have one reference order (place in the schedule,
// then actor). Every register gets enough initial slots and a high enough count for each edge without a token
// to go forward in that order, so no cycle lacks a token. Acts are ops "test" with the attribute "seconds", a
// small whole number. Every plan passes ir::check.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::support {

struct RandomPlanOptions {
  unsigned seed = 1;
  bool live = true;
  bool ordered = true;  // every queue in a fixed order; otherwise some are unordered
  bool collectives = true;
  bool pulls = true;
  bool turns = true;  // some pulls take a turn on the producer's queue
  bool rates = true;  // every, repeat
  bool real = false;  // collectives and pulls carry tensors that fit; actors without inputs load
  int max_programs = 3;
  int max_devices = 3;  // of one class
  int max_actors = 8;   // of one program, beside pulls and collectives
  int max_micro_batches = 4;
};

class RandomPlan {
 public:
  explicit RandomPlan(const RandomPlanOptions& options) : options_(options), random_(options.seed) {}

  ir::Plan make() {
    plan_.name = "random";
    plan_.micro_batches = pick(1, options_.max_micro_batches);
    schedule();
    programs();
    actors();
    connect();
    in_place();
    credits();
    if (options_.real) load_sources();
    return std::move(plan_);
  }

 private:
  struct Reader {
    int program, actor, repeat;
  };

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  int size() const { return static_cast<int>(plan_.programs.size()); }
  ir::Program& program(int p) { return at(plan_.programs, p); }
  ir::Actor& actor(int p, int a) { return at(program(p).actors, a); }
  ir::Register& reg(int p, int r) { return at(program(p).registers, r); }
  int acts(int p, int a) { return program(p).acts_per_step(a); }

  // Phases F0.. run once per micro-batch, in order, U once at the end. Phases mix.
  void schedule() {
    int phases = pick(1, 3);
    std::vector<int> next(static_cast<size_t>(phases));
    for (int left = phases * plan_.micro_batches; left > 0; --left) {
      int phase = pick(0, phases - 1);
      while (at(next, phase) == plan_.micro_batches) phase = (phase + 1) % phases;
      runs_.push_back({phase, at(next, phase)++});
    }
    runs_.push_back({phases, 0});
    phases_ = phases + 1;
  }

  void programs() {
    int count = pick(1, options_.max_programs);
    for (int p = 0; p < count; ++p) {
      ir::Program program;
      program.name = "p" + std::to_string(p);
      for (int f = 0; f < phases_; ++f)
        program.phases.push_back(f + 1 < phases_ ? "F" + std::to_string(f) : "U");
      program.schedule = runs_;
      program.queues.push_back({"compute", ir::QueueKind::compute, true});
      for (int q = pick(0, 2); q > 0; --q) {
        bool ordered = options_.ordered || chance(50);
        program.queues.push_back({"net" + std::to_string(q), ir::QueueKind::network, ordered});
      }
      plan_.programs.push_back(program);
      for (int c = chance(25) ? 2 : 1; c > 0; --c) {
        ir::RankClass cls{p, {}};
        for (int d = pick(1, options_.max_devices); d > 0; --d) cls.devices.push_back(plan_.devices++);
        plan_.classes.push_back(cls);
      }
    }
  }

  // Appends an actor, with `registers` new registers, to its program and to the reference order.
  int add(int p, ir::Actor actor, int registers) {
    ir::Program& program = this->program(p);
    int index = static_cast<int>(program.actors.size());
    actor.name = "a" + std::to_string(index);
    actor.attrs["seconds"] = static_cast<double>(pick(1, 9));
    for (int r = 0; r < registers; ++r) {
      actor.outputs.push_back(static_cast<int>(program.registers.size()));
      ir::Register reg;
      reg.name = actor.name + "." + std::to_string(r);
      reg.type = {{pick(1, 9)}, ir::DType::float32};
      reg.bytes = chance(50) ? reg.type.bytes() : 64;
      reg.producer = index;
      reg.memory = static_cast<ir::MemoryKind>(pick(0, ir::memory_kinds - 1));
      program.registers.push_back(reg);
    }
    order_.push_back({p, index});
    program.actors.push_back(std::move(actor));
    return index;
  }

  // `joint`: on an ordered queue, as acts of several members require.
  ir::Actor test_actor(int p, int phase, bool joint = false) {
    ir::Actor actor;
    actor.kind = ir::ActorKind::host;
    actor.op = "test";
    actor.phase = phase;
    actor.queue = pick_queue(p, joint);
    return actor;
  }

  int pick_queue(int p, bool ordered) {
    int queue = pick(0, static_cast<int>(program(p).queues.size()) - 1);
    return ordered && !at(program(p).queues, queue).ordered ? 0 : queue;
  }

  void actors() {
    for (int left = pick(1, options_.max_actors) * size(); left > 0; --left) {
      int p = pick(0, size() - 1);
      int phase = pick(0, phases_ - 1);
      if (options_.collectives && chance(15)) {
        options_.real ? add_real_collective(phase) : add_collective(phase);
        continue;
      }
      int a = add(p, test_actor(p, phase), pick(0, 2));
      if (options_.pulls && options_.turns && !actor(p, a).outputs.empty() && chance(25)) add_turns(p, a);
    }
  }

  // Returns a new communicator's programs: one program's classes, each alone or all together, or several.
  std::vector<int> add_comm() {
    ir::Comm comm;
    comm.name = "c" + std::to_string(plan_.comms.size());
    std::vector<int> members;
    for (int p = 0; p < size(); ++p) {
      if (chance(50) || (p + 1 == size() && members.empty())) members.push_back(p);
    }
    std::vector<int> devices;
    bool apart = members.size() == 1 && chance(40);
    for (const ir::RankClass& cls : plan_.classes) {
      if (std::find(members.begin(), members.end(), cls.program) == members.end()) continue;
      devices.insert(devices.end(), cls.devices.begin(), cls.devices.end());
      if (apart) comm.groups.push_back(std::exchange(devices, {}));
    }
    if (!devices.empty()) comm.groups.push_back(devices);
    plan_.comms.push_back(comm);
    return members;
  }

  ir::Actor joint_actor(int p, int phase, sbp::Collective collective) {
    ir::Actor actor = test_actor(p, phase, true);
    actor.kind = ir::ActorKind::collective;
    actor.op = sbp::to_text(collective);
    actor.collective = collective;
    actor.comm = static_cast<int>(plan_.comms.size()) - 1;
    actor.joint = plan_.comms.back().name;
    actor.comm_bytes = 64;
    return actor;
  }

  void add_collective(int phase) {
    std::vector<int> members = add_comm();
    double seconds = pick(1, 9);
    for (int p : members) {
      ir::Actor member = joint_actor(p, phase, sbp::Collective::all_reduce);
      int a = add(p, std::move(member), pick(0, 1));
      actor(p, a).attrs["seconds"] = seconds;
    }
  }

  // Every member has an actor that makes its input, and one output for its result.
  void add_real_collective(int phase) {
    using sbp::Collective;
    std::vector<int> members = add_comm();
    const auto& groups = plan_.comms.back().groups;
    Collective kinds[] = {Collective::all_reduce, Collective::broadcast, Collective::all_gather,
                          Collective::reduce_scatter};
    Collective kind = kinds[pick(0, groups.size() == 1 ? 3 : 1)];
    int64_t same = pick(1, 9), all = 0;
    std::vector<int64_t> own;  // by program
    for (int p = 0; p < size(); ++p) own.push_back(pick(0, 5));
    for (int d : groups[0]) all += at(own, program_of(d));
    bool parted = kind == Collective::all_gather || kind == Collective::reduce_scatter;
    std::vector<int> made;
    for (int p : members) {
      int a = add(p, test_actor(p, phase), 1);
      made.push_back(actor(p, a).outputs[0]);
      int64_t mine = at(own, p);
      set_extent(p, made.back(), !parted ? same : kind == Collective::all_gather ? mine : all);
      turned_.push_back({p, made.back()});
    }
    double seconds = pick(1, 9);
    for (size_t m = 0; m < members.size(); ++m) {
      int p = members[m];
      ir::Actor actor = joint_actor(p, phase, kind);
      actor.inputs.push_back({made[m], 1, -1, -1, {}});
      if (parted) actor.attrs["axes"] = std::vector<int64_t>{0};
      int a = add(p, actor, 1);
      this->actor(p, a).attrs["seconds"] = seconds;
      int64_t mine = at(own, p);
      set_extent(p, this->actor(p, a).outputs[0],
                 !parted                          ? same
                 : kind == Collective::all_gather ? all
                                                  : mine);
    }
  }

  int program_of(int device) const {
    for (const ir::RankClass& cls : plan_.classes)
      if (std::find(cls.devices.begin(), cls.devices.end(), device) != cls.devices.end()) return cls.program;
    return -1;
  }

  void set_extent(int p, int r, int64_t extent) {
    reg(p, r).type.shape = {extent};
    reg(p, r).bytes = std::max<int64_t>(reg(p, r).type.bytes(), chance(50) ? 64 : 4);
  }

  // Every device of `to` pulls from some other device of `from`. Returns -1 if there is none.
  int add_peers(int from, int to) {
    ir::Peers peers;
    peers.name = "s" + std::to_string(plan_.peers.size());
    peers.source.assign(static_cast<size_t>(plan_.devices), -1);
    std::vector<int> sources;
    for (const ir::RankClass& cls : plan_.classes) {
      if (cls.program == from) sources.insert(sources.end(), cls.devices.begin(), cls.devices.end());
    }
    if (from == to && sources.size() == 1) return -1;
    for (const ir::RankClass& cls : plan_.classes) {
      if (cls.program != to) continue;
      for (int d : cls.devices) {
        int& source = at(peers.source, d);
        do source = at(sources, pick(0, static_cast<int>(sources.size()) - 1));
        while (source == d);
      }
    }
    plan_.peers.push_back(peers);
    return static_cast<int>(plan_.peers.size()) - 1;
  }

  void add_pull(int from, int r, int to, int source_queue) {
    int peers = add_peers(from, to);
    if (peers < 0) return;
    ir::Actor pull = test_actor(to, actor(from, reg(from, r).producer).phase, source_queue >= 0);
    pull.kind = ir::ActorKind::pull;
    pull.op = "pull";
    pull.source_queue = source_queue;
    pull.comm_bytes = 64;
    pull.inputs.push_back({r, 1, from, peers, {}});
    int64_t begin = 0, end = reg(from, r).type.shape[0];
    if (options_.real && chance(50)) {  // a part of it
      begin = pick(0, static_cast<int>(end));
      end = pick(static_cast<int>(begin), static_cast<int>(end));
      pull.attrs["starts"] = std::vector<int64_t>{begin};
      pull.attrs["ends"] = std::vector<int64_t>{end};
    }
    int a = add(to, pull, 1);
    if (options_.real) set_extent(to, actor(to, a).outputs[0], end - begin);
  }

  // Pulls that take turns come right after their producer in the reference order, as their turns do in its
  // queue.
  void add_turns(int from, int a) {
    int r = actor(from, a).outputs[0];
    turned_.push_back({from, r});
    for (int to = 0; to < size(); ++to) {
      if (to == from || !chance(60)) continue;
      int queue = pick_queue(from, true);
      add_pull(from, r, to, chance(70) ? queue : -1);
    }
  }
  bool is_turned(int p, int r) const {
    return std::find(turned_.begin(), turned_.end(), std::pair<int, int>{p, r}) != turned_.end();
  }

  // Adds readers, of any phase, to every register; rates follow from how often both act.
  void connect() {
    for (int p = 0; p < size(); ++p) {
      for (int r = 0; r < static_cast<int>(program(p).registers.size()); ++r) {
        if (is_turned(p, r)) continue;
        int producer = reg(p, r).producer, n = acts(p, producer);
        if (options_.rates) {
          do reg(p, r).every = pick(1, n);
          while (n % reg(p, r).every != 0);
        }
        int versions = n / reg(p, r).every;
        for (int a = 0; a < static_cast<int>(program(p).actors.size()); ++a) {
          int m = acts(p, a);
          bool fits =
              a != producer && takes_inputs(p, a) && m % versions == 0 && (options_.rates || m == versions);
          if (fits && chance(25)) actor(p, a).inputs.push_back({r, m / versions, -1, -1, {}});
        }
        if (options_.pulls && versions == n && chance(8)) add_pull(p, r, pick(0, size() - 1), -1);
      }
    }
  }

  bool takes_inputs(int p, int a) {
    bool joint = actor(p, a).kind == ir::ActorKind::collective;
    return actor(p, a).kind != ir::ActorKind::pull && !(options_.real && joint);
  }

  // Some actors update their register in place.
  void in_place() {
    for (ir::Program& program : plan_.programs) {
      for (size_t r = 0; r < program.registers.size(); ++r) {
        ir::Register& reg = program.registers[r];
        ir::Actor& actor = at(program.actors, reg.producer);
        bool joint = options_.real && actor.kind == ir::ActorKind::collective;
        if (reg.every != 1 || actor.kind == ir::ActorKind::pull || joint || !chance(15)) continue;
        actor.inputs.push_back({static_cast<int>(r), 1, -1, -1, {}});
      }
    }
  }

  std::vector<Reader> readers(int p, int r) {
    std::vector<Reader> found;
    for (int q = 0; q < size(); ++q) {
      for (int a = 0; a < static_cast<int>(program(q).actors.size()); ++a) {
        for (const ir::Input& in : actor(q, a).inputs) {
          bool mine = in.reg == r && (in.program < 0 ? q : in.program) == p;
          bool own = in.program < 0 && a == reg(p, r).producer;
          if (mine && !own) found.push_back({q, a, in.repeat});
        }
      }
    }
    return found;
  }

  // Place of an actor's k-th act in the reference order. Joint acts share the place of their first member.
  int place(int p, int a, int k) {
    int phase = actor(p, a).phase, run = 0;
    for (; run < static_cast<int>(runs_.size()); ++run) {
      if (at(runs_, run).phase == phase && k-- == 0) break;
    }
    return run * (static_cast<int>(order_.size()) + 1) + rank(p, a);
  }
  int rank(int p, int a) {
    const ir::Actor& me = actor(p, a);
    for (size_t i = 0; i < order_.size(); ++i) {
      const ir::Actor& other = actor(order_[i].first, order_[i].second);
      bool same = order_[i] == std::pair<int, int>{p, a};
      if (same || (me.comm >= 0 && me.comm == other.comm)) return static_cast<int>(i);
    }
    return 0;
  }

  // The fewest initial slots with which every reader comes after the act whose output it reads.
  int least_initial(int p, const ir::Register& reg, const std::vector<Reader>& readers) {
    int versions = acts(p, reg.producer) / reg.every;
    for (int initial = 0;; ++initial) {
      bool enough = true;
      for (const Reader& reader : readers) {
        for (int v = initial; v < versions; ++v) {
          int made = place(p, reg.producer, (v - initial + 1) * reg.every - 1);
          enough &= made < place(reader.program, reader.actor, v * reader.repeat);
        }
      }
      if (enough) return initial;
    }
  }

  // The lowest count with which every writer comes after the readers of the version that it overwrites.
  int least_count(int p, const ir::Register& reg, const std::vector<Reader>& readers) {
    int versions = acts(p, reg.producer) / reg.every;
    for (int count = std::max(1, reg.initial);; ++count) {
      bool enough = true;
      for (const Reader& reader : readers) {
        for (int v = 0; v + count - reg.initial < versions; ++v) {
          int write = place(p, reg.producer, (v + count - reg.initial) * reg.every);
          enough &= place(reader.program, reader.actor, (v + 1) * reader.repeat - 1) < write;
        }
      }
      if (enough) return count;
    }
  }

  void credits() {
    for (int p = 0; p < size(); ++p) {
      int64_t offset = 0;
      for (int r = 0; r < static_cast<int>(program(p).registers.size()); ++r) {
        credit(p, r);
        reg(p, r).offset = offset;
        offset += reg(p, r).bytes * reg(p, r).count;
      }
      program(p).arena_bytes = offset;
    }
  }

  void load_sources() {
    for (ir::Program& program : plan_.programs)
      for (ir::Actor& actor : program.actors)
        if (actor.op == "test" && actor.inputs.empty() && actor.outputs.size() == 1)
          actor.op = "load", actor.kind = ir::ActorKind::copy;
  }

  void credit(int p, int r) {
    ir::Register& reg = this->reg(p, r);
    std::vector<Reader> all = readers(p, r);
    std::vector<ir::Input>& own = actor(p, reg.producer).inputs;
    auto self = std::find_if(own.begin(), own.end(),
                             [&](const ir::Input& in) { return in.program < 0 && in.reg == r; });
    bool turned = is_turned(p, r);
    reg.initial = least_initial(p, reg, all);
    if (!turned && chance(20)) ++reg.initial;
    if (!options_.live && reg.initial > 0 && chance(15)) --reg.initial;
    reg.count = least_count(p, reg, all);
    if (self != own.end()) {
      if (reg.count == 1) return;
      own.erase(self);  // needs more slots than an update in place has
    }
    if (chance(40)) reg.count += pick(1, 2);
    if (!options_.live && reg.count > std::max(1, reg.initial) && chance(25)) --reg.count;
  }

  RandomPlanOptions options_;
  std::mt19937 random_;
  ir::Plan plan_;
  std::vector<ir::PhaseRun> runs_;
  int phases_ = 0;
  std::vector<std::pair<int, int>> order_;   // the reference order: program, actor
  std::vector<std::pair<int, int>> turned_;  // program, register: pulled with turns
};

inline ir::Plan random_plan(const RandomPlanOptions& options) { return RandomPlan(options).make(); }

}  // namespace boxcar::support
