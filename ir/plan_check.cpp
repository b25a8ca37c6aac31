// The local consistency of a plan: every index in range, every rate balanced, every device in its place.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "ir/plan.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

template <typename List>
bool within(int index, const List& list) {
  return index >= 0 && index < static_cast<int>(list.size());
}

// What an error is about; put together only where there is one.
struct Place {
  Place(const std::string& whole) : first(whole) {}
  Place(const char* whole) : first(whole) {}
  Place(const Program& program, std::string_view name, const char* mark = "")
      : first(program.name), second(name), mark(mark) {}
  std::string_view first, second;
  const char* mark = "";
};

template <typename... Args>
void require(bool holds, const Place& where, fmt::format_string<Args...> message, Args&&... args) {
  if (holds) return;
  std::string place = where.second.empty() ? std::string(where.first)
                                           : fmt::format("{}: {}{}", where.first, where.mark, where.second);
  throw Error::input(std::move(place), fmt::format(message, std::forward<Args>(args)...));
}

template <typename List>
void check_names(const List& list, const std::string& where, const char* what) {
  std::unordered_set<std::string_view> seen;
  for (const auto& item : list) {
    std::string_view name = item.name;
    require(!name.empty(), where, "a {} has no name", what);
    require(seen.insert(name).second, where, "there are two {}s {}", what, name);
  }
}

// Two joint acts that came in another order on each of their queues would wait for each other.
constexpr const char* open_queue = "acts together with others on a queue that is not ordered";

class Checker {
 public:
  explicit Checker(const Plan& plan)
      : plan_(plan), class_of_(static_cast<size_t>(std::max(0, plan.devices)), -1) {}

  void run() {
    require(plan_.devices >= 1, "plan", "{} devices, at least 1", plan_.devices);
    require(plan_.micro_batches >= 1, "plan", "{} micro-batches, at least 1", plan_.micro_batches);
    check_names(plan_.programs, "plan", "program");
    check_names(plan_.comms, "plan", "communicator");
    check_names(plan_.peers, "plan", "list of peers");
    classes();
    for (const Comm& comm : plan_.comms) groups(comm);
    for (const Peers& peers : plan_.peers) sources(peers);
    for (const Program& program : plan_.programs) schedule(program);
    for (const Program& program : plan_.programs) {
      for (size_t r = 0; r < program.registers.size(); ++r) reg(program, static_cast<int>(r));
      outputs(program);
      const double bytes = register_bytes(program);
      require(bytes <= static_cast<double>(most_bytes), program.name,
              "its registers have {:.3g} bytes together, more than 1 EiB", bytes);
    }
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      const Program& program = plan_.programs[p];
      for (size_t a = 0; a < program.actors.size(); ++a) actor(static_cast<int>(p), static_cast<int>(a));
    }
    joint_acts();
  }

 private:
  void classes() {
    for (size_t c = 0; c < plan_.classes.size(); ++c) {
      const RankClass& cls = plan_.classes[c];
      std::string where = fmt::format("class {}", c);
      require(within(cls.program, plan_.programs), where, "no program {}", cls.program);
      require(!cls.devices.empty(), where, "no devices");
      for (size_t i = 0; i < cls.devices.size(); ++i) {
        int d = cls.devices[i];
        require(within(d, class_of_), where, "device {} of {}", d, plan_.devices);
        require(i == 0 || cls.devices[i - 1] < d, where, "devices are not ascending");
        int& mine = class_of_[static_cast<size_t>(d)];
        require(mine < 0, where, "device {} is in class {} already", d, mine);
        mine = static_cast<int>(c);
      }
    }
    for (size_t d = 0; d < class_of_.size(); ++d) {
      require(class_of_[d] >= 0, "plan", "device {} is in no class", d);
    }
  }

  void groups(const Comm& comm) {
    std::string where = fmt::format("comm {}", comm.name);
    std::vector<bool> seen(class_of_.size());
    for (const auto& group : comm.groups) {
      require(!group.empty(), where, "a group is empty");
      for (int d : group) {
        require(within(d, class_of_), where, "device {} of {}", d, plan_.devices);
        require(!seen[static_cast<size_t>(d)], where, "device {} is in two groups", d);
        seen[static_cast<size_t>(d)] = true;
      }
    }
  }

  void sources(const Peers& peers) {
    std::string where = fmt::format("peers {}", peers.name);
    require(peers.source.size() == class_of_.size(), where, "{} entries for {} devices", peers.source.size(),
            plan_.devices);
    for (int d : peers.source) {
      require(d >= -1 && d < plan_.devices, where, "device {} of {}", d, plan_.devices);
    }
  }

  void schedule(const Program& program) {
    check_names(program.queues, program.name, "queue");
    check_names(program.registers, program.name, "register");
    check_names(program.actors, program.name, "actor");
    std::vector<int> runs(program.phases.size());
    std::set<std::string_view> names(program.phases.begin(), program.phases.end());
    require(names.size() == program.phases.size(), program.name, "two phases have one name");
    for (const PhaseRun& run : program.schedule) {
      std::string where = program.name + ": schedule";
      require(within(run.phase, program.phases), where, "no phase {}", run.phase);
      require(run.micro_batch >= 0 && run.micro_batch < plan_.micro_batches, where, "micro-batch {} of {}",
              run.micro_batch, plan_.micro_batches);
      ++runs[static_cast<size_t>(run.phase)];
    }
    runs_.push_back(runs);
  }

  void reg(const Program& program, int index) const {
    const Register& r = program.registers[static_cast<size_t>(index)];
    Place where(program, r.name, "%");
    require(r.bytes >= 0, where, "{} bytes", r.bytes);
    require(r.count >= 1, where, "count {}, at least 1", r.count);
    require(r.count <= 1 << 20, where, "count {}, at most {}", r.count, 1 << 20);
    require(r.initial >= 0 && r.initial <= r.count, where, "initial {}, from 0 to the count {}", r.initial,
            r.count);
    require(r.every >= 1, where, "every {}, at least 1", r.every);
    require(r.offset >= -1, where, "offset {}", r.offset);
    require(r.producer >= 0, where, "no actor writes it");
    require(within(r.producer, program.actors), where, "no actor {}", r.producer);
    const Actor& producer = program.actors[static_cast<size_t>(r.producer)];
    bool listed =
        std::find(producer.outputs.begin(), producer.outputs.end(), index) != producer.outputs.end();
    require(listed, where, "its producer {} has no such output", producer.name);
  }

  void outputs(const Program& program) const {
    std::vector<int> writer(program.registers.size(), -1);
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const Actor& actor = program.actors[a];
      for (int out : actor.outputs) {
        require(within(out, program.registers), Place(program, actor.name), "no register {}", out);
        const Register& r = program.registers[static_cast<size_t>(out)];
        int& mine = writer[static_cast<size_t>(out)];
        require(mine < 0, Place(program, actor.name), "%{} has two producers", r.name);
        mine = static_cast<int>(a);
        require(r.producer == mine, Place(program, actor.name), "is not the producer of %{}", r.name);
      }
    }
  }

  int acts(int program, int actor) const {
    int phase = plan_.programs[static_cast<size_t>(program)].actors[static_cast<size_t>(actor)].phase;
    return runs_[static_cast<size_t>(program)][static_cast<size_t>(phase)];
  }

  void actor(int p, int a) const {
    const Program& program = plan_.programs[static_cast<size_t>(p)];
    const Actor& x = program.actors[static_cast<size_t>(a)];
    Place where(program, x.name);
    require(within(x.queue, program.queues), where, "no queue {}", x.queue);
    require(within(x.phase, program.phases), where, "no phase {}", x.phase);
    require(x.comm_bytes >= 0 && x.workspace >= 0, where, "bytes are negative");
    require(x.kind != ActorKind::pull || x.inputs.size() == 1, where, "a pull has one input, not {}",
            x.inputs.size());
    for (const Input& in : x.inputs) input(p, a, in, where);
    for (int out : x.outputs) {
      const Register& r = program.registers[static_cast<size_t>(out)];
      require(acts(p, a) % r.every == 0, where, "{} acts in a step do not divide by every {} of %{}",
              acts(p, a), r.every, r.name);
    }
    collective(program, x, where);
  }

  void collective(const Program& program, const Actor& x, const Place& where) const {
    bool joint = x.kind == ActorKind::collective;
    require(!joint || x.comm >= 0, where, "a collective without a communicator");
    require(joint || x.comm < 0, where, "a communicator, but it is no collective");
    if (!joint) return;
    require(within(x.comm, plan_.comms), where, "no communicator {}", x.comm);
    require(x.collective != sbp::Collective::none && x.collective != sbp::Collective::transfer, where,
            "does not say which collective");
    require(program.queues[static_cast<size_t>(x.queue)].ordered, where, open_queue);
  }

  void input(int p, int a, const Input& in, const Place& where) const {
    const Program& program = plan_.programs[static_cast<size_t>(p)];
    const Actor& x = program.actors[static_cast<size_t>(a)];
    bool pull = x.kind == ActorKind::pull;
    require(!pull || (in.program >= 0 && in.peers >= 0), where, "a pull names a program and a list of peers");
    require(pull || (in.program < 0 && in.peers < 0), where, "only a pull reads another program's register");
    require(!pull || within(in.program, plan_.programs), where, "no program {}", in.program);
    require(!pull || within(in.peers, plan_.peers), where, "no list of peers {}", in.peers);
    int from = pull ? in.program : p;
    const Program& source = plan_.programs[static_cast<size_t>(from)];
    require(within(in.reg, source.registers), where, "no register {}", in.reg);
    require(in.repeat >= 1, where, "repeat {}, at least 1", in.repeat);
    const Register& r = source.registers[static_cast<size_t>(in.reg)];
    if (in.view) {
      require(input_type(r, in).elements() == r.type.elements(), where,
              "reads %{}, {}, as another number of elements", r.name, to_text(r.type));
    }
    if (pull) peers(p, x, in, where);
    if (!pull && r.producer == a) return in_place(r, in, where);
    int versions = acts(from, r.producer) / r.every, wanted = acts(p, a);
    require(wanted == versions * in.repeat, where,
            "reads %{} {} times in a step, but {} has {} of it, each for {}", r.name, wanted,
            source.actors[static_cast<size_t>(r.producer)].name, versions, in.repeat);
  }

  void in_place(const Register& r, const Input& in, const Place& where) const {
    require(r.count == 1 && r.every == 1 && in.repeat == 1, where,
            "updates %{} in place: its count, every and repeat are 1", r.name);
  }

  void peers(int p, const Actor& x, const Input& in, const Place& where) const {
    const Peers& list = plan_.peers[static_cast<size_t>(in.peers)];
    const Program& source = plan_.programs[static_cast<size_t>(in.program)];
    for (const RankClass& cls : plan_.classes) {
      if (cls.program != p) continue;
      for (int d : cls.devices) {
        int s = list.source[static_cast<size_t>(d)];
        require(s >= 0, where, "device {} pulls, but peers {} has no source for it", d, list.name);
        require(program_of(s) == in.program, where, "device {} pulls from device {}, which does not run {}",
                d, s, source.name);
      }
    }
    if (x.source_queue == -1) return;
    require(within(x.source_queue, source.queues), where, "{} has no queue {}", source.name, x.source_queue);
    bool ordered = source.queues[static_cast<size_t>(x.source_queue)].ordered &&
                   plan_.programs[static_cast<size_t>(p)].queues[static_cast<size_t>(x.queue)].ordered;
    require(ordered, where, open_queue);
    const Register& r = source.registers[static_cast<size_t>(in.reg)];
    require(in.repeat == 1, where, "takes turns, but reads a slot {} times", in.repeat);
    require(r.initial == 0, where, "takes a turn for %{}, which has initial slots", r.name);
  }

  int program_of(int device) const {
    return plan_.classes[static_cast<size_t>(class_of_[static_cast<size_t>(device)])].program;
  }

  // Every device of a group that acts jointly has that act, the same collective as often.
  void joint_acts() const {
    struct Joint {
      std::map<int, std::pair<int, const Actor*>> by_program;  // acts in a step
    };
    std::map<std::pair<int, std::string_view>, Joint> joints;
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      const Program& program = plan_.programs[p];
      for (size_t a = 0; a < program.actors.size(); ++a) {
        const Actor& x = program.actors[a];
        if (x.comm < 0) continue;
        std::string_view name = x.joint.empty() ? x.name : x.joint;
        int program_index = static_cast<int>(p);
        std::pair<int, const Actor*> member{acts(program_index, static_cast<int>(a)), &x};
        bool added = joints[{x.comm, name}].by_program.emplace(program_index, member).second;
        require(added, Place(program, x.name), "another actor has the joint act {} too", name);
      }
    }
    std::vector<std::set<std::vector<int>>> kinds;  // by comm: the programs that meet in a group
    for (const Comm& comm : plan_.comms) kinds.push_back(group_programs(comm));
    for (const auto& [key, joint] : joints) {
      const auto& by_program = joint.by_program;  // a lambda may capture this, and not the binding
      for (const auto& [p, member] : by_program) {
        members(p, member.first, *member.second, kinds[static_cast<size_t>(key.first)],
                [&by_program](int other) {
                  auto found = by_program.find(other);
                  return found == by_program.end() ? std::pair<int, const Actor*>{0, nullptr} : found->second;
                });
      }
    }
  }

  std::set<std::vector<int>> group_programs(const Comm& comm) const {
    std::set<std::vector<int>> kinds;
    std::vector<bool> seen(class_of_.size());
    for (const auto& group : comm.groups) {
      std::set<int> programs;
      for (int d : group) {
        programs.insert(program_of(d));
        seen[static_cast<size_t>(d)] = true;
      }
      kinds.insert({programs.begin(), programs.end()});
    }
    for (size_t d = 0; d < seen.size(); ++d) {
      if (!seen[d]) kinds.insert({-1 - program_of(static_cast<int>(d))});  // in no group
    }
    return kinds;
  }

  template <typename Find>
  void members(int p, int times, const Actor& x, const std::set<std::vector<int>>& kinds, Find find) const {
    Place where(plan_.programs[static_cast<size_t>(p)], x.name);
    const std::string& comm = plan_.comms[static_cast<size_t>(x.comm)].name;
    for (const std::vector<int>& kind : kinds) {
      require(kind != std::vector<int>{-1 - p}, where, "a device that runs it is in no group of {}", comm);
      if (std::find(kind.begin(), kind.end(), p) == kind.end()) continue;
      for (int other : kind) {
        auto [theirs, actor] = find(other);
        const std::string& name = plan_.programs[static_cast<size_t>(other)].name;
        require(actor, where, "{} is in a group of {} with it, but does not take part", name, comm);
        require(actor->collective == x.collective, where, "is {}, but in {} {}", sbp::to_text(x.collective),
                name, sbp::to_text(actor->collective));
        require(theirs == times, where, "acts {} times in a step, but in {} {}", times, name, theirs);
      }
    }
  }

  const Plan& plan_;
  std::vector<int> class_of_;           // by device
  std::vector<std::vector<int>> runs_;  // by program, phase: runs in a step
};

}  // namespace

void check(const Plan& plan) { Checker(plan).run(); }

}  // namespace boxcar::ir
