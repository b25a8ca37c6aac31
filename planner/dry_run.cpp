#include "planner/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {
namespace {

// The needs and station entries that a run has to look at.
class ReducedView {
 public:
  explicit ReducedView(const StepView& view) : view_(view), needs_begin_(view.nodes.size() + 1) {
    places();
    for (size_t n = 0; n < view.nodes.size(); ++n) {
      needs_begin_[n] = static_cast<int>(needs_.size());
      const StepNode& node = view.nodes[n];
      for (int i = node.needs_begin; i < node.needs_end; ++i) {
        if (!fulfilled(static_cast<int>(n), at(view.needs, i))) needs_.push_back(at(view.needs, i));
      }
    }
    needs_begin_.back() = static_cast<int>(needs_.size());
    silent();
  }

  const Need* begin(int node) const { return needs_.data() + at(needs_begin_, node); }
  const Need* end(int node) const { return needs_.data() + at(needs_begin_, node + 1); }
  bool is_silent(int unit) const { return at(silent_, unit); }

 private:
  // Finds each node's place in the order of its own queue in its phase.
  void places() {
    queue_.assign(view_.nodes.size(), -1);
    place_.assign(view_.nodes.size(), 0);
    for (size_t s = 0; s < view_.stations.size(); ++s) {
      const Station& station = view_.stations[s];
      if (station.kind != StationKind::queue) continue;
      for (const auto& entries : station.phases) {
        for (size_t e = 0; e < entries.size(); ++e) {
          if (entries[e].turn_every > 0) continue;
          for (int n : at(view_.units, entries[e].unit).nodes) {
            bool mine =
                at(view_.nodes, n).instance == station.instance && view_.actor_of(n).queue == station.queue;
            if (!mine) continue;
            at(queue_, n) = static_cast<int>(s);
            at(place_, n) = static_cast<int>(e);
          }
        }
      }
    }
  }

  bool fulfilled(int node, const Need& need) {
    if (node == need.on) return false;
    bool one_queue = at(queue_, node) >= 0 && at(queue_, node) == at(queue_, need.on);
    if (!one_queue) return false;
    int program = at(view_.program, at(view_.nodes, node).instance);
    int mine = view_.actor_of(node).phase, other = view_.actor_of(need.on).phase;
    bool after = mine == other && at(place_, need.on) < at(place_, node);
    auto [found, added] = known_.try_emplace({program, mine, other, after, need.div, need.shift, need.mul});
    if (added) found->second = fulfilled(node, need, runs_before(program, mine, other), after);
    return found->second;
  }

  // Whether before each act of the node the queue has ended the acts that it needs.
  bool fulfilled(int node, const Need& need, const std::vector<int>& before, bool after) const {
    for (int64_t j = 0; j < at(view_.nodes, node).acts; j += need.div) {
      if (at(before, j) + (after ? 1 : 0) < need.acts(j)) return false;
    }
    return true;
  }

  // By run of phase `mine`: the number of runs of phase `other` before it in the schedule.
  const std::vector<int>& runs_before(int program, int mine, int other) {
    auto [found, added] = before_.try_emplace({program, mine, other});
    if (!added) return found->second;
    int runs = 0;
    for (const ir::PhaseRun& run : at(view_.plan->programs, program).schedule) {
      if (run.phase == mine) found->second.push_back(runs);
      if (run.phase == other) ++runs;
    }
    return found->second;
  }

  void silent() {
    std::vector<bool> needed(view_.nodes.size());
    for (const Need& need : needs_) at(needed, need.on) = true;
    for (const Unit& unit : view_.units) {
      int n = unit.nodes[0];
      bool alone = unit.nodes.size() == 1 && unit.stations.size() == 1;
      silent_.push_back(alone && !at(needed, n) && begin(n) == end(n));
    }
  }

  const StepView& view_;
  std::vector<int> needs_begin_;
  std::vector<Need> needs_;
  std::vector<bool> silent_;
  std::vector<int> queue_, place_;  // by node: station of its queue (-1: unordered) and place in its phase
  std::map<std::tuple<int, int, int, bool, int, int, int>, bool> known_;
  std::map<std::tuple<int, int, int>, std::vector<int>> before_;
};

class Runner {
 public:
  Runner(const StepView& view, const std::function<void(int unit)>& on_act)
      : view_(view),
        on_act_(on_act),
        reduced_(view),
        done_(view.units.size()),
        waiters_(view.units.size(), -1) {
    for (size_t u = 0; u < view.units.size(); ++u) {
      add(view.units[u]);
      if (!reduced_.is_silent(static_cast<int>(u))) left_ += view.units[u].acts;
    }
    schedules();
    for (const Station& station : view.stations) heads_.push_back(head(station));
  }

  DryRun run() {
    for (int s = 0; s < static_cast<int>(heads_.size()); ++s) todo_.push_back({s, false});
    int64_t all = left_;
    for (std::vector<Todo> round; !todo_.empty(); round.clear()) {
      std::swap(round, todo_);
      for (const Todo& next : round) next.is_unit ? attempt(next.index) : look(next.index);
    }
    DryRun result;
    result.ended = left_ == 0;
    result.acts = all - left_;
    if (!result.ended) result.cycle = cycle();
    return result;
  }

 private:
  // A need of a unit's member, in the form that is fast to check.
  struct UnitNeed {
    int on = 0;  // a unit
    int div = 1, shift = 0, mul = 1;
    int node = 0;  // the member
    const Need* need = nullptr;
    int64_t acts(int j) const { return int64_t{(div == 1 ? j : j / div) + shift} * mul; }
  };
  struct UnitState {
    int stations_begin = 0, stations_end = 0;  // in stations_
    int needs_begin = 0, needs_end = 0;        // in needs_
    int arrived = 0;                           // stations that have reached it
    int need = 0;                              // the one that is checked next
    int next_waiter = -1;
  };
  // A unit to attempt again, or a station to check.
  struct Todo {
    int index = 0;
    bool is_unit = false;
  };
  // The entry that a station has reached.
  struct Head {
    std::vector<std::vector<StationEntry>> phases;  // without silent ones
    const std::vector<ir::PhaseRun>* schedule = nullptr;
    const std::vector<int>* run_index = nullptr;
    int run = -1;
    const StationEntry *next = nullptr, *end = nullptr;  // of this run
  };

  void add(const Unit& unit) {
    UnitState state;
    state.stations_begin = static_cast<int>(stations_.size());
    stations_.insert(stations_.end(), unit.stations.begin(), unit.stations.end());
    state.stations_end = static_cast<int>(stations_.size());
    state.needs_begin = state.need = static_cast<int>(needs_.size());
    for (const int node : unit.nodes)
      for (const Need* need = reduced_.begin(node); need != reduced_.end(node); ++need)
        needs_.push_back({at(view_.nodes, need->on).unit, need->div, need->shift, need->mul, node, need});
    state.needs_end = static_cast<int>(needs_.size());
    units_.push_back(state);
  }

  Head head(const Station& station) const {
    Head head;
    for (const auto& entries : station.phases) {
      head.phases.emplace_back();
      for (const StationEntry& entry : entries) {
        if (!reduced_.is_silent(entry.unit)) head.phases.back().push_back(entry);
      }
    }
    head.schedule = &view_.program_of(station.instance).schedule;
    head.run_index = &at(run_index_, at(view_.program, station.instance));
    return head;
  }

  void schedules() {
    for (const ir::Program& program : view_.plan->programs) {
      std::vector<int> count(program.phases.size()), index;
      for (const ir::PhaseRun& run : program.schedule) index.push_back(at(count, run.phase)++);
      run_index_.push_back(std::move(index));
    }
  }

  // The unit that a station has reached, -1 at the end of the step.
  int current(int s) {
    Head& head = at(heads_, s);
    while (true) {
      for (; head.next != head.end; ++head.next) {
        const int every = head.next->turn_every;
        if (every <= 1 || (at(*head.run_index, head.run) + 1) % every == 0) return head.next->unit;
      }
      if (head.run + 1 == static_cast<int>(head.schedule->size())) return -1;
      ++head.run;
      const std::vector<StationEntry>& entries = at(head.phases, at(*head.schedule, head.run).phase);
      head.next = entries.data();
      head.end = head.next + entries.size();
    }
  }

  // Called when a station has reached a new entry.
  void look(int station) {
    int unit = current(station);
    if (unit < 0) return;
    UnitState& state = at(units_, unit);
    if (++state.arrived == state.stations_end - state.stations_begin) attempt(unit);
  }

  // Acts if all needs are met, else joins the waiters of the unit that it needs.
  void attempt(int unit) {
    UnitState& state = at(units_, unit);
    for (; state.need < state.needs_end; ++state.need) {
      const UnitNeed& need = at(needs_, state.need);
      if (at(done_, need.on) >= need.acts(at(done_, unit))) continue;
      state.next_waiter = std::exchange(at(waiters_, need.on), unit);
      return;
    }
    act(unit);
  }

  void act(int unit) {
    UnitState& state = at(units_, unit);
    if (on_act_) on_act_(unit);
    ++at(done_, unit);
    --left_;
    state.arrived = 0;
    state.need = state.needs_begin;
    for (int w = std::exchange(at(waiters_, unit), -1); w >= 0; w = at(units_, w).next_waiter)
      todo_.push_back({w, true});
    for (int s = state.stations_begin; s < state.stations_end; ++s) {
      ++at(heads_, at(stations_, s)).next;
      todo_.push_back({at(stations_, s), false});
    }
  }

  // When nothing can act: follows from each waiting unit the first unit for which it waits, until one
  // repeats.
  std::vector<Wait> cycle() {
    int unit = 0;
    while (reduced_.is_silent(unit) || at(done_, unit) == at(view_.units, unit).acts) ++unit;
    std::vector<int> seen(view_.units.size(), -1);
    std::vector<Wait> path;
    while (at(seen, unit) < 0) {
      at(seen, unit) = static_cast<int>(path.size());
      auto [wait, next] = blocker(unit);
      path.push_back(std::move(wait));
      unit = next;
    }
    path.erase(path.begin(), path.begin() + at(seen, unit));
    return path;
  }

  std::pair<Wait, int> blocker(int unit) {
    const Unit& u = at(view_.units, unit);
    const UnitState& state = at(units_, unit);
    for (int s : u.stations) {
      int first = current(s);
      if (first != unit) return {order_wait(unit, s, first), first};
    }
    if (state.arrived < static_cast<int>(u.stations.size())) {
      std::string reason = "takes its turn on the queue on which it acts, before itself";
      return {{u.nodes[0], at(done_, unit), reason}, unit};
    }
    const UnitNeed& blocked = at(needs_, state.need);
    const Need& need = *blocked.need;
    Wait wait{blocked.node, at(done_, unit), {}};
    std::string act = view_.act_text(need.on, static_cast<int>(need.acts(at(done_, unit))) - 1);
    int producer = need.data ? need.on : wait.node;
    const ir::Program& program = view_.program_of(at(view_.nodes, producer).instance);
    const std::string& reg = at(program.registers, need.reg).name;
    wait.reason = need.data ? fmt::format("needs %{} from {}", reg, act)
                            : fmt::format("needs a free slot of %{}, which {} reads", reg, act);
    return {std::move(wait), blocked.on};
  }

  Wait order_wait(int unit, int s, int first) const {
    const Station& station = at(view_.stations, s);
    int node = member_at(unit, station.instance), other = member_at(first, station.instance);
    const auto& queues = view_.program_of(station.instance).queues;
    std::string where = station.kind == StationKind::issue
                            ? fmt::format("in the order in which {} issues collectives",
                                          view_.instance_text(station.instance))
                            : fmt::format("on {} of {}", at(queues, std::max(0, station.queue)).name,
                                          view_.instance_text(station.instance));
    return {node, at(done_, unit),
            fmt::format("comes after {} {}", view_.act_text(other, at(done_, first)), where)};
  }

  // The unit's node of that instance, else its first node, because a pull takes its turn elsewhere.
  int member_at(int unit, int instance) const {
    const auto& nodes = at(view_.units, unit).nodes;
    for (int n : nodes) {
      if (at(view_.nodes, n).instance == instance) return n;
    }
    return nodes[0];
  }

  const StepView& view_;
  const std::function<void(int unit)>& on_act_;
  ReducedView reduced_;
  std::vector<int> stations_;    // by unit
  std::vector<UnitNeed> needs_;  // by unit and its node
  std::vector<UnitState> units_;
  std::vector<int> done_;                    // by unit: acts that have ended
  std::vector<int> waiters_;                 // by unit: the first unit that waits for it, -1: none
  std::vector<Head> heads_;                  // by station
  std::vector<std::vector<int>> run_index_;  // by program, place in the schedule: which run of its phase
  std::vector<Todo> todo_;
  int64_t left_ = 0;
};

}  // namespace

DryRun dry_run(const StepView& view, const std::function<void(int unit)>& on_act) {
  return Runner(view, on_act).run();
}

std::string to_text(const StepView& view, const std::vector<Wait>& cycle) {
  std::string text;
  for (const Wait& wait : cycle) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "\n", view.act_text(wait.node, wait.act), wait.reason);
  }
  return text;
}

}  // namespace boxcar::planner
