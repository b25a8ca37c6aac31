// The local consistency of a plan: every index in range, every rate balanced, every device in its place.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "ir/plan.h"
#include "ir/plan_require.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

template <typename List>
bool within(int index, const List& list) {
  return index >= 0 && index < static_cast<int>(list.size());
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

bool countable(int64_t bytes) { return bytes >= 0 && bytes <= most_bytes; }

// Two joint acts in different orders on their queues would wait for each other.
constexpr const char* open_queue = "acts together with others on a queue that is not ordered";

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  void run() {
    require(plan_.devices >= 1, "plan", "{} devices, at least 1", plan_.devices);
    require(plan_.devices <= most_devices, "plan", "{} devices, at most {}", plan_.devices, most_devices);
    class_of_.assign(static_cast<size_t>(plan_.devices), -1);
    require(plan_.micro_batches >= 1, "plan", "{} micro-batches, at least 1", plan_.micro_batches);
    check_names(plan_.programs, "plan", "program");
    check_names(plan_.comms, "plan", "communicator");
    check_names(plan_.peers, "plan", "list of peers");
    classes();
    for (const Comm& comm : plan_.comms) groups(comm);
    for (const Peers& peers : plan_.peers) sources(peers);
    for (const Program& program : plan_.programs) schedule(program);
    extent();
    for (const Program& program : plan_.programs) {
      require(countable(program.arena_bytes) && countable(program.workspace_bytes), program.name,
              "an arena of {} bytes, {} of workspace", program.arena_bytes, program.workspace_bytes);
      require(countable(program.host_bytes), program.name, "{} bytes of host memory", program.host_bytes);
      require(program.workspace_offset == -1 || countable(program.workspace_offset), program.name,
              "workspace at {}", program.workspace_offset);
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
        int& mine = at(class_of_, d);
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
        require(!at(seen, d), where, "device {} is in two groups", d);
        at(seen, d) = true;
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
    std::set<std::string_view> names;
    for (const PlanPhase& phase : program.phases) names.insert(phase.name);
    require(names.size() == program.phases.size(), program.name, "two phases have one name");
    std::vector<std::vector<int>> runs(program.phases.size());
    for (const PhaseRun& run : program.schedule) {
      std::string where = program.name + ": schedule";
      require(within(run.phase, program.phases), where, "no phase {}", run.phase);
      require(run.micro_batch >= 0 && run.micro_batch < plan_.micro_batches, where, "micro-batch {} of {}",
              run.micro_batch, plan_.micro_batches);
      at(runs, run.phase).push_back(run.micro_batch);
    }
    for (size_t phase = 0; phase < runs.size(); ++phase) check_runs(program, phase, runs[phase]);
    runs_.push_back(std::move(runs));
  }

  // A phase runs once in a step, or once for each micro-batch.
  void check_runs(const Program& program, size_t phase, const std::vector<int>& runs) const {
    const PlanPlace where(program, program.phases[phase].name, "phase ");
    const auto all = static_cast<size_t>(plan_.micro_batches);
    const bool acts = std::any_of(program.actors.begin(), program.actors.end(),
                                  [&](const Actor& x) { return x.phase == static_cast<int>(phase); });
    if (runs.empty() && !acts) return;
    require(runs.size() == 1 || runs.size() == all, where,
            "runs {} times in a step, expected once, or once for each of {} micro-batches", runs.size(), all);
    if (runs.size() == 1)
      return require(runs[0] == 0, where, "runs once, for micro-batch {} and not 0", runs[0]);
    std::vector<bool> seen(all);
    for (const int m : runs) {
      require(!at(seen, m), where, "runs twice for micro-batch {}", m);
      at(seen, m) = true;
    }
  }

  // Some phase runs for each micro-batch, and the unfolded plan is within limits.
  void extent() const {
    size_t most = 0;
    for (const auto& runs : runs_)
      for (const auto& of_phase : runs) most = std::max(most, of_phase.size());
    require(static_cast<int>(most) == plan_.micro_batches, "plan",
            "{} micro-batches, but no phase runs more than {} times", plan_.micro_batches, most);
    int64_t actors = 0, acts = 0;
    for (const RankClass& cls : plan_.classes) {
      const Program& program = at(plan_.programs, cls.program);
      actors += static_cast<int64_t>(program.actors.size());
      for (const Actor& x : program.actors)
        if (within(x.phase, program.phases))
          acts += static_cast<int64_t>(at(at(runs_, cls.program), x.phase).size());
      require(actors <= most_actors && acts <= most_acts, "plan",
              "its classes have more than {} actors or {} acts in a step", most_actors, most_acts);
    }
  }

  // A phase that runs for each micro-batch and a phase that hands data to it must run them in one order.
  void one_order(int from, int writer, int to, int reader, const PlanPlace& where, const char* verb,
                 std::string_view what) const {
    const auto &given = runs_of(from, writer), &taken = runs_of(to, reader);
    if (&given == &taken || given.size() < 2 || taken.size() < 2 || given == taken) return;
    const auto [mine, other] = std::mismatch(taken.begin(), taken.end(), given.begin());
    require(false, where, "{}{} of micro-batch {} for micro-batch {}, as {} runs in another order in {}",
            verb, what, *other, *mine, phase_name(from, writer), at(plan_.programs, from).name);
  }
  const std::vector<int>& runs_of(int program, int actor) const {
    const int phase = at(at(plan_.programs, program).actors, actor).phase;
    return at(at(runs_, program), phase);
  }
  const std::string& phase_name(int program, int actor) const {
    const Program& p = at(plan_.programs, program);
    return p.phase_of(at(p.actors, actor)).name;
  }

  void reg(const Program& program, int index) const {
    const Register& r = at(program.registers, index);
    PlanPlace where(program, r.name, "%");
    require(countable(r.bytes), where, "{} bytes", r.bytes);
    require(countable(r.host_bytes), where, "{} bytes of host memory", r.host_bytes);
    require(r.bytes == 0 || r.host_bytes == 0, where, "lies on the device and in host memory");
    for (const int64_t extent : r.type.shape) require(extent >= 0, where, "extent {}", extent);
    require(r.count >= 1, where, "count {}, at least 1", r.count);
    require(r.count <= 1 << 20, where, "count {}, at most {}", r.count, 1 << 20);
    require(r.initial >= 0 && r.initial <= r.count, where, "initial {}, from 0 to the count {}", r.initial,
            r.count);
    require(r.every >= 1, where, "every {}, at least 1", r.every);
    require(r.offset == -1 || countable(r.offset), where, "offset {}", r.offset);
    require(r.producer >= 0, where, "no actor writes it");
    require(within(r.producer, program.actors), where, "no actor {}", r.producer);
    const Actor& producer = at(program.actors, r.producer);
    bool listed =
        std::find(producer.outputs.begin(), producer.outputs.end(), index) != producer.outputs.end();
    require(listed, where, "its producer {} has no such output", producer.name);
  }

  void outputs(const Program& program) const {
    std::vector<int> writer(program.registers.size(), -1);
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const Actor& actor = program.actors[a];
      require(within(actor.queue, program.queues), PlanPlace(program, actor.name), "no queue {}",
              actor.queue);
      require(within(actor.phase, program.phases), PlanPlace(program, actor.name), "no phase {}",
              actor.phase);
      for (int out : actor.outputs) {
        require(within(out, program.registers), PlanPlace(program, actor.name), "no register {}", out);
        const Register& r = at(program.registers, out);
        int& mine = at(writer, out);
        require(mine < 0, PlanPlace(program, actor.name), "%{} has two producers", r.name);
        mine = static_cast<int>(a);
        require(r.producer == mine, PlanPlace(program, actor.name), "is not the producer of %{}", r.name);
      }
    }
  }

  int acts(int program, int actor) const { return static_cast<int>(runs_of(program, actor).size()); }

  void actor(int p, int a) const {
    const Program& program = at(plan_.programs, p);
    const Actor& x = at(program.actors, a);
    PlanPlace where(program, x.name);
    require(countable(x.comm_bytes) && countable(x.workspace), where, "{} bytes, {} of workspace",
            x.comm_bytes, x.workspace);
    require(x.kind != ActorKind::pull || x.inputs.size() == 1, where, "a pull has one input, not {}",
            x.inputs.size());
    for (const Input& in : x.inputs) input(p, a, in, where);
    for (int out : x.outputs) {
      const Register& r = at(program.registers, out);
      require(acts(p, a) % r.every == 0, where, "{} acts in a step do not divide by every {} of %{}",
              acts(p, a), r.every, r.name);
    }
    collective(program, x, where);
  }

  void collective(const Program& program, const Actor& x, const PlanPlace& where) const {
    bool joint = x.kind == ActorKind::collective;
    require(!joint || x.comm >= 0, where, "a collective without a communicator");
    require(joint || x.comm < 0, where, "a communicator, but it is no collective");
    if (!joint) return;
    require(within(x.comm, plan_.comms), where, "no communicator {}", x.comm);
    require(x.collective != sbp::Collective::none && x.collective != sbp::Collective::transfer, where,
            "does not say which collective");
    require(at(program.queues, x.queue).ordered, where, open_queue);
  }

  void input(int p, int a, const Input& in, const PlanPlace& where) const {
    const Program& program = at(plan_.programs, p);
    const Actor& x = at(program.actors, a);
    bool pull = x.kind == ActorKind::pull;
    require(!pull || (in.program >= 0 && in.peers >= 0), where, "a pull names a program and a list of peers");
    require(pull || (in.program < 0 && in.peers < 0), where, "only a pull reads another program's register");
    require(!pull || within(in.program, plan_.programs), where, "no program {}", in.program);
    require(!pull || within(in.peers, plan_.peers), where, "no list of peers {}", in.peers);
    int from = pull ? in.program : p;
    const Program& source = at(plan_.programs, from);
    require(within(in.reg, source.registers), where, "no register {}", in.reg);
    require(in.repeat >= 1, where, "repeat {}, at least 1", in.repeat);
    const Register& r = at(source.registers, in.reg);
    if (in.view) {
      require(input_type(r, in).elements() == r.type.elements(), where,
              "reads %{}, {}, as another number of elements", r.name, to_text(r.type));
    }
    if (pull) peers(p, x, in, where);
    if (!pull && r.producer == a) return in_place(r, in, where);
    int versions = acts(from, r.producer) / r.every, wanted = acts(p, a);
    const std::string& producer = at(source.actors, r.producer).name;
    require(wanted == int64_t{versions} * in.repeat, where,
            "reads %{} {} times in a step, but {} has {} of it, each for {}", r.name, wanted, producer,
            versions, in.repeat);
    if (r.initial == 0) one_order(from, r.producer, p, a, where, "reads %", r.name);
  }

  void in_place(const Register& r, const Input& in, const PlanPlace& where) const {
    require(r.count == 1 && r.every == 1 && in.repeat == 1, where,
            "updates %{} in place: its count, every and repeat are 1", r.name);
  }

  void peers(int p, const Actor& x, const Input& in, const PlanPlace& where) const {
    const Peers& list = at(plan_.peers, in.peers);
    const Program& source = at(plan_.programs, in.program);
    for (const RankClass& cls : plan_.classes) {
      if (cls.program != p) continue;
      for (int d : cls.devices) {
        int s = at(list.source, d);
        require(s >= 0, where, "device {} pulls, but peers {} has no source for it", d, list.name);
        require(program_of(s) == in.program, where, "device {} pulls from device {}, which does not run {}",
                d, s, source.name);
      }
    }
    if (x.source_queue == -1) return;
    require(within(x.source_queue, source.queues), where, "{} has no queue {}", source.name, x.source_queue);
    bool ordered =
        at(source.queues, x.source_queue).ordered && at(at(plan_.programs, p).queues, x.queue).ordered;
    require(ordered, where, open_queue);
    const Register& r = at(source.registers, in.reg);
    require(in.repeat == 1, where, "takes turns, but reads a slot {} times", in.repeat);
    require(r.initial == 0, where, "takes a turn for %{}, which has initial slots", r.name);
  }

  int program_of(int device) const { return at(plan_.classes, at(class_of_, device)).program; }

  // Every device of a group that acts jointly has that act: the same collective, the same number of times.
  void joint_acts() const {
    using Joint = std::map<int, int>;  // by program: its actor
    std::map<std::pair<int, std::string_view>, Joint> joints;
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      const Program& program = plan_.programs[p];
      for (size_t a = 0; a < program.actors.size(); ++a) {
        const Actor& x = program.actors[a];
        if (x.comm < 0) continue;
        std::string_view name = x.joint.empty() ? x.name : x.joint;
        bool added = joints[{x.comm, name}].emplace(static_cast<int>(p), static_cast<int>(a)).second;
        require(added, PlanPlace(program, x.name), "another actor has the joint act {} too", name);
      }
    }
    std::vector<std::set<std::vector<int>>> kinds;  // by comm: the programs that meet in a group
    for (const Comm& comm : plan_.comms) kinds.push_back(group_programs(comm));
    for (const auto& [key, joint] : joints)
      for (const auto& [p, a] : joint) members(p, a, joint, at(kinds, key.first));
  }

  std::set<std::vector<int>> group_programs(const Comm& comm) const {
    std::set<std::vector<int>> kinds;
    std::vector<bool> seen(class_of_.size());
    for (const auto& group : comm.groups) {
      std::set<int> programs;
      for (int d : group) {
        programs.insert(program_of(d));
        at(seen, d) = true;
      }
      kinds.insert({programs.begin(), programs.end()});
    }
    for (size_t d = 0; d < seen.size(); ++d) {
      if (!seen[d]) kinds.insert({-1 - program_of(static_cast<int>(d))});  // in no group
    }
    return kinds;
  }

  void members(int p, int a, const std::map<int, int>& joint, const std::set<std::vector<int>>& kinds) const {
    const Program& program = at(plan_.programs, p);
    const Actor& x = at(program.actors, a);
    const PlanPlace where(program, x.name);
    const std::string& comm = at(plan_.comms, x.comm).name;
    for (const std::vector<int>& kind : kinds) {
      require(kind != std::vector<int>{-1 - p}, where, "a device that runs it is in no group of {}", comm);
      if (std::find(kind.begin(), kind.end(), p) == kind.end()) continue;
      for (int other : kind) {
        const Program& there = at(plan_.programs, other);
        const auto found = joint.find(other);
        require(found != joint.end(), where, "{} is in a group of {} with it, but does not take part",
                there.name, comm);
        const Actor& theirs = at(there.actors, found->second);
        require(theirs.collective == x.collective, where, "is {}, but in {} {}", sbp::to_text(x.collective),
                there.name, sbp::to_text(theirs.collective));
        require(acts(other, found->second) == acts(p, a), where, "acts {} times in a step, but in {} {}",
                acts(p, a), there.name, acts(other, found->second));
        one_order(other, found->second, p, a, where, "acts with ", theirs.name);
      }
    }
  }

  const Plan& plan_;
  std::vector<int> class_of_;                        // by device
  std::vector<std::vector<std::vector<int>>> runs_;  // by program, phase: micro-batches of its runs in a step
};

}  // namespace

void check(const Plan& plan) { Checker(plan).run(); }

}  // namespace boxcar::ir
