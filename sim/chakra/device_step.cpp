#include "sim/chakra/device_step.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::chakra {
namespace {

// How many acts of a register's producer must have ended before act `act` of a reader, and how many of a
// reader before the producer's (planner/step_view.h, Need).
int acts_before_reading(const ir::Register& reg, int repeat, int act) {
  return (act / repeat + 1 - reg.initial) * reg.every;
}
int acts_before_writing(const ir::Register& reg, int repeat, int act) {
  return (act / reg.every + reg.initial - reg.count + 1) * repeat;
}

void add_once(std::vector<int>& list, int node) {
  if (std::find(list.begin(), list.end(), node) == list.end()) list.push_back(node);
}

}  // namespace

DeviceSteps::DeviceSteps(const ir::Plan& plan) : plan_(plan), program_(static_cast<size_t>(plan.devices)) {
  for (const ir::Program& program : plan.programs) {
    Shared& shared = shared_.emplace_back();
    shared.runs.resize(program.phases.size());
    shared.in_phase.resize(program.phases.size());
    shared.readers.resize(program.registers.size());
    for (size_t r = 0; r < program.schedule.size(); ++r)
      at(shared.runs, program.schedule[r].phase).push_back(static_cast<int>(r));
    int tags = 0;
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const ir::Actor& actor = program.actors[a];
      const int index = static_cast<int>(a);
      at(shared.in_phase, actor.phase).push_back(index);
      shared.first_tag.push_back(tags);
      if (actor.kind == ir::ActorKind::pull) tags += static_cast<int>(at(shared.runs, actor.phase).size());
      for (const ir::Input& in : actor.inputs)
        if (in.program < 0 && at(program.registers, in.reg).producer != index)
          at(shared.readers, in.reg).push_back({index, in.repeat});
    }
  }
  pulls_.resize(program_.size());
  for (const ir::RankClass& cls : plan.classes) {
    const ir::Program& program = at(plan.programs, cls.program);
    for (const int device : cls.devices) at(program_, device) = cls.program;
    for (size_t a = 0; a < program.actors.size(); ++a)
      if (program.actors[a].kind == ir::ActorKind::pull)
        for (const int device : cls.devices)
          at(pulls_, source(program.actors[a], device)).push_back({cls.program, static_cast<int>(a), device});
  }
  for (std::vector<Pull>& pulls : pulls_) std::sort(pulls.begin(), pulls.end());
}

int DeviceSteps::tag(int program, int actor, int act) const {
  return at(at(shared_, program).first_tag, actor) + act;
}

int DeviceSteps::source(const ir::Actor& pull, int device) const {
  return at(at(plan_.peers, pull.inputs.front().peers).source, device);
}

int DeviceSteps::program_of(int device) const { return at(program_, device); }

class DeviceSteps::Builder {
 public:
  Builder(const DeviceSteps& steps, int device)
      : steps_(steps),
        device_(device),
        program_index_(steps.program_of(device)),
        program_(at(steps.plan_.programs, program_index_)),
        shared_(at(steps.shared_, program_index_)) {}

  std::vector<StepNode> build() {
    add_acts();
    add_sends();
    add_queues();
    for (size_t a = 0; a < program_.actors.size(); ++a) {
      add_waits(static_cast<int>(a));
      if (is_between_programs(program_.actors[a])) add_sends_before(static_cast<int>(a));
    }
    return sorted();
  }

 private:
  // The place of a node if it waited for nothing: place in the schedule, actor, then sends after it.
  using Place = std::tuple<int, int, int>;

  const std::vector<int>& runs_of(const ir::Actor& actor) const { return at(shared_.runs, actor.phase); }
  int node(int actor, int act) const { return at(first_, actor) + act; }
  const ir::Actor& puller(const Pull& pull) const {
    return at(at(steps_.plan_.programs, pull.program).actors, pull.actor);
  }

  void add_acts() {
    for (size_t a = 0; a < program_.actors.size(); ++a) {
      first_.push_back(static_cast<int>(nodes_.size()));
      const std::vector<int>& runs = runs_of(program_.actors[a]);
      for (size_t act = 0; act < runs.size(); ++act)
        add({false, program_index_, static_cast<int>(a), static_cast<int>(act), device_, {}, {}},
            {runs[act], static_cast<int>(a), 0});
    }
  }

  // A send follows the act that makes its slot readable; it is first if the slot was readable before the
  // step.
  void add_sends() {
    for (const Pull& pull : at(steps_.pulls_, device_)) {
      const ir::Actor& actor = puller(pull);
      const ir::Input& in = actor.inputs.front();
      const ir::Register& reg = at(program_.registers, in.reg);
      const int acts = static_cast<int>(at(at(steps_.shared_, pull.program).runs, actor.phase).size());
      first_send_.push_back(static_cast<int>(nodes_.size()));
      for (int act = 0; act < acts; ++act) {
        const int before = acts_before_reading(reg, in.repeat, act);
        StepNode send{true, pull.program, pull.actor, act, pull.device, {}, {}};
        Place place{-1, 0, 0};
        if (before > 0) {
          send.data.push_back(node(reg.producer, before - 1));
          const std::vector<int>& runs = runs_of(at(program_.actors, reg.producer));
          place = {at(runs, before - 1), reg.producer, static_cast<int>(first_send_.size())};
        }
        if (act > 0) send.order.push_back(static_cast<int>(nodes_.size()) - 1);
        add(std::move(send), place);
      }
    }
  }

  void add(StepNode made, Place place) {
    nodes_.push_back(std::move(made));
    places_.push_back(place);
    queue_.push_back(-1);
  }

  // An ordered queue is a chain of acts and turns; on any other, the acts of one actor are.
  void add_queues() {
    std::vector<int> last(program_.queues.size() + program_.actors.size(), -1);
    std::vector<std::vector<size_t>> turns(program_.registers.size());
    const std::vector<Pull>& pulls = at(steps_.pulls_, device_);
    for (size_t p = 0; p < pulls.size(); ++p) {
      const int queue = puller(pulls[p]).source_queue;
      if (queue >= 0 && at(program_.queues, queue).ordered)
        at(turns, puller(pulls[p]).inputs.front().reg).push_back(p);
    }
    std::vector<int> ran(program_.phases.size(), 0);
    for (const ir::PhaseRun& run : program_.schedule) {
      const int act = at(ran, run.phase)++;
      for (const int a : at(shared_.in_phase, run.phase)) {
        const ir::Actor& actor = at(program_.actors, a);
        const bool ordered = at(program_.queues, actor.queue).ordered;
        const int queue = ordered ? actor.queue : static_cast<int>(program_.queues.size()) + a;
        enter(queue, last, node(a, act));
        if (actor.comm >= 0) issued_.push_back(node(a, act));
        take_turns(actor, act, turns, last);
      }
    }
  }

  void take_turns(const ir::Actor& actor, int act, const std::vector<std::vector<size_t>>& turns,
                  std::vector<int>& last) {
    std::vector<size_t> in_order;
    for (const int out : actor.outputs)
      in_order.insert(in_order.end(), at(turns, out).begin(), at(turns, out).end());
    std::sort(in_order.begin(), in_order.end());  // as pulls are: by program, actor, device
    for (const size_t p : in_order) {
      const ir::Actor& pull = puller(at(steps_.pulls_, device_)[p]);
      const int every = at(program_.registers, pull.inputs.front().reg).every;
      if ((act + 1) % every == 0) enter(pull.source_queue, last, first_send_[p] + act / every);
    }
  }

  void enter(int queue, std::vector<int>& last, int entered) {
    if (const int before = at(last, queue); before >= 0) add_once(at(nodes_, entered).order, before);
    at(queue_, entered) = queue;
    at(last, queue) = entered;
  }

  void add_waits(int a) {
    const ir::Actor& actor = at(program_.actors, a);
    const int acts = static_cast<int>(runs_of(actor).size());
    for (const ir::Input& in : actor.inputs) {
      if (in.program >= 0 || at(program_.registers, in.reg).producer == a) continue;
      const ir::Register& reg = at(program_.registers, in.reg);
      for (int act = 0; act < acts; ++act)
        if (const int before = acts_before_reading(reg, in.repeat, act); before > 0)
          add_once(at(nodes_, node(a, act)).data, node(reg.producer, before - 1));
    }
    for (const int out : actor.outputs) {
      const ir::Register& reg = at(program_.registers, out);
      for (const Reader& reader : at(shared_.readers, out))
        if (reader.actor != a) wait_for_reader(a, acts, reg, node(reader.actor, 0), reader.repeat);
      const std::vector<Pull>& pulls = at(steps_.pulls_, device_);
      for (size_t p = 0; p < pulls.size(); ++p)
        if (const ir::Input& in = puller(pulls[p]).inputs.front(); in.reg == out)
          wait_for_reader(a, acts, reg, first_send_[p], in.repeat);
    }
  }

  bool is_between_programs(const ir::Actor& actor) const {
    if (actor.comm < 0) return false;
    for (const std::vector<int>& group : at(steps_.plan_.comms, actor.comm).groups) {
      if (std::find(group.begin(), group.end(), device_) == group.end()) continue;
      return std::any_of(group.begin(), group.end(),
                         [&](int member) { return steps_.program_of(member) != program_index_; });
    }
    return false;
  }

  // After the sends of earlier runs: if a device communicates with one other at a time, a collective between
  // stages would otherwise keep back a transfer for which its own members wait.
  void add_sends_before(int a) {
    const std::vector<int>& runs = runs_of(at(program_.actors, a));
    for (size_t act = 0; act < runs.size(); ++act)
      for (size_t p = 0; p < first_send_.size(); ++p) {
        const int end = p + 1 < first_send_.size() ? first_send_[p + 1] : static_cast<int>(nodes_.size());
        int last = -1;
        for (int send = first_send_[p]; send < end; ++send)
          if (std::get<0>(at(places_, send)) < runs[act]) last = send;
        if (last >= 0) add_once(at(nodes_, node(a, static_cast<int>(act))).order, last);
      }
  }

  // Leaves out an order that one queue keeps anyway.
  void wait_for_reader(int a, int acts, const ir::Register& reg, int first, int repeat) {
    for (int act = 0; act < acts; ++act) {
      const int before = acts_before_writing(reg, repeat, act);
      if (before <= 0) continue;
      const int read = first + before - 1, written = node(a, act);
      if (at(queue_, read) < 0 || at(queue_, read) != at(queue_, written))
        add_once(at(nodes_, written).order, read);
    }
  }

  // Each node comes once all nodes that it waits for have come, the one with the first place first.
  std::vector<StepNode> sorted() {
    std::vector<std::vector<int>> next(nodes_.size());
    std::vector<int> waits(nodes_.size(), 0);
    const auto edge = [&](int from, int to) {
      at(next, from).push_back(to);
      ++at(waits, to);
    };
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (const int from : nodes_[n].data) edge(from, static_cast<int>(n));
      for (const int from : nodes_[n].order) edge(from, static_cast<int>(n));
    }
    for (size_t i = 1; i < issued_.size(); ++i) edge(issued_[i - 1], issued_[i]);
    using Ready = std::pair<Place, int>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (size_t n = 0; n < nodes_.size(); ++n)
      if (waits[n] == 0) ready.emplace(places_[n], static_cast<int>(n));
    std::vector<int> order, number(nodes_.size(), -1);
    while (!ready.empty()) {
      const int n = ready.top().second;
      ready.pop();
      at(number, n) = static_cast<int>(order.size());
      order.push_back(n);
      for (const int to : at(next, n))
        if (--at(waits, to) == 0) ready.emplace(at(places_, to), to);
    }
    if (order.size() != nodes_.size())
      throw Error::fault("export", "acts of a verified plan wait for one another");
    return renumbered(order, number);
  }

  std::vector<StepNode> renumbered(const std::vector<int>& order, const std::vector<int>& number) {
    std::vector<StepNode> result;
    result.reserve(order.size());
    for (const int n : order) {
      StepNode& moved = result.emplace_back(std::move(at(nodes_, n)));
      for (std::vector<int>* list : {&moved.data, &moved.order}) {
        for (int& from : *list) from = at(number, from);
        std::sort(list->begin(), list->end());
      }
      std::erase_if(moved.order,
                    [&](int from) { return std::binary_search(moved.data.begin(), moved.data.end(), from); });
    }
    return result;
  }

  const DeviceSteps& steps_;
  const int device_, program_index_;
  const ir::Program& program_;
  const Shared& shared_;
  std::vector<int> first_;       // by actor: the node of its first act
  std::vector<int> first_send_;  // by pull from this device
  std::vector<StepNode> nodes_;
  std::vector<Place> places_;  // by node
  std::vector<int> queue_;     // by node: the chain that it is in, -1: none
  std::vector<int> issued_;    // collectives, in their order
};

std::vector<StepNode> DeviceSteps::of(int device) const { return Builder(*this, device).build(); }

}  // namespace boxcar::chakra
