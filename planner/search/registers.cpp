#include "planner/search/registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::MarkedGraph;

constexpr int any_number = -1;
constexpr double rounding = 1e-9;

// The graph with counts; by edge, the register that it comes from, -1 for none.
struct Counted {
  MarkedGraph graph;
  std::vector<int> owner;
};

Counted counted(const CountProblem& problem, const std::vector<int>& counts) {
  Counted made{problem.graph, std::vector<int>(problem.graph.edges.size(), -1)};
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] == any_number) continue;
    for (const SlotUse& use : problem.registers[r].uses) {
      int versions = static_cast<int>(use.acquire.size());
      for (int v = 0; v < versions; ++v) {
        int written = v + counts[r] - use.initial;
        made.graph.edges.push_back(
            {at(use.release, v), at(use.acquire, written % versions), written / versions});
        made.owner.push_back(static_cast<int>(r));
      }
    }
  }
  return made;
}

// The nodes of a cycle without a token.
std::vector<int> stuck_cycle(const CountProblem& problem, Counted made) {
  made.graph.edges.insert(made.graph.edges.end(), problem.starts.begin(), problem.starts.end());
  return planner::cycle_without_token(made.graph);
}

// A cycle that is too slow for the period, given by the registers on it that have the fewest tokens between
// two nodes; `kept` if there is none.
struct Slow {
  bool kept = true;
  std::vector<int> registers;
};

Slow slow_cycle(const CountProblem& problem, const std::vector<int>& counts, double period) {
  Counted made = counted(problem, counts);
  std::vector<int> cycle = stuck_cycle(problem, made);
  bool stuck = !cycle.empty();
  if (!stuck) {
    planner::CycleRatio ratio = planner::max_cycle_ratio(made.graph);
    if (ratio.seconds <= period * (1 + rounding)) return {};
    cycle = ratio.cycle;
  }
  std::map<std::pair<int, int>, std::pair<int, int>> tightest;  // nodes: tokens, register
  for (size_t i = 0; i < cycle.size(); ++i) {
    tightest[{cycle[i], cycle[(i + 1) % cycle.size()]}] = {std::numeric_limits<int>::max(), -1};
  }
  auto tighten = [&](const MarkedGraph::Edge& edge, int owner) {
    auto found = tightest.find({edge.from, edge.to});
    if (found != tightest.end()) found->second = std::min(found->second, {edge.tokens, owner});
  };
  for (size_t e = 0; e < made.owner.size(); ++e) tighten(made.graph.edges[e], made.owner[e]);
  for (size_t e = 0; stuck && e < problem.starts.size(); ++e) tighten(problem.starts[e], -1);
  Slow slow{false, {}};
  for (const auto& [nodes, tight] : tightest) {
    if (tight.second >= 0) slow.registers.push_back(tight.second);
  }
  std::sort(slow.registers.begin(), slow.registers.end());
  slow.registers.erase(std::unique(slow.registers.begin(), slow.registers.end()), slow.registers.end());
  return slow;
}

class CountSearch {
 public:
  CountSearch(const CountProblem& problem, double period, int64_t most, const std::function<void()>& look)
      : problem_(problem), period_(period), left_(most), look_(look) {}

  Counts run() {
    std::vector<int> free(problem_.registers.size(), any_number);
    if (!slow(free).kept) return {};
    std::vector<int> root = free;
    for (size_t r = 0; r < root.size(); ++r) root[r] = least_alone(static_cast<int>(r));
    push(root);
    while (!open_.empty()) {
      State state = open_.top();
      if (state.registers.empty()) return {true, state.counts, weight(state.counts), weight(state.counts)};
      if (left_ <= 0) return enough(root, state.bound);
      open_.pop();
      for (int r : state.registers) {
        std::vector<int> counts = state.counts;
        ++at(counts, r);
        if (seen_.insert(counts).second) push(counts);
      }
    }
    throw Error::fault("search", "register counts have no end");
  }

 private:
  struct State {
    double bound = 0;
    std::vector<int> registers;  // of a cycle that is too slow; none: the period is kept
    std::vector<int> counts;
    // Cheapest first; of equal ones the one with more slots, which is nearer to the end.
    bool operator<(const State& other) const {
      if (bound != other.bound) return bound > other.bound;
      return counts < other.counts;
    }
  };

  Slow slow(const std::vector<int>& counts) const {
    if (look_) look_();
    return slow_cycle(problem_, counts, period_);
  }

  double weight(const std::vector<int>& counts) const {
    double sum = 0;
    for (size_t r = 0; r < counts.size(); ++r) sum += problem_.registers[r].weight * counts[r];
    return sum;
  }

  // Slots that a register needs if all others have any number.
  int least_alone(int r) const {
    std::vector<int> counts(problem_.registers.size(), any_number);
    auto kept = [&](int count) {
      at(counts, r) = count;
      return slow(counts).kept;
    };
    int low = at(problem_.registers, r).least;
    if (kept(low)) return low;
    int step = 1, high = low + 1;
    for (; !kept(high); high += step *= 2) low = high;
    while (high - low > 1) {
      int middle = low + (high - low) / 2;
      (kept(middle) ? high : low) = middle;
    }
    return high;
  }

  // Adds a state whose bound counts cycles that are too slow and have no register in common: each needs one
  // more slot.
  void push(const std::vector<int>& counts) {
    --left_;
    State state;
    state.counts = counts;
    state.bound = weight(counts);
    std::vector<int> rest = counts;
    for (;;) {
      const Slow found = slow(rest);
      if (found.kept) break;
      if (found.registers.empty())
        throw Error::fault("search", "a cycle without registers is too slow only with them");
      if (state.registers.empty()) state.registers = found.registers;
      double least = infinity_;
      for (int r : found.registers) {
        least = std::min(least, at(problem_.registers, r).weight);
        at(rest, r) = any_number;
      }
      state.bound += least;
    }
    open_.push(std::move(state));
  }

  // Counts that keep the period: one slot more for the lightest register of each slow cycle, then one less if
  // the period is still kept, heavy ones first.
  Counts enough(std::vector<int> counts, double lower) const {
    auto lighter = [&](int a, int b) {
      return at(problem_.registers, a).weight < at(problem_.registers, b).weight;
    };
    for (Slow found; !(found = slow(counts)).kept;) {
      ++at(counts, *std::min_element(found.registers.begin(), found.registers.end(), lighter));
    }
    std::vector<int> order;
    for (size_t r = 0; r < counts.size(); ++r) order.push_back(static_cast<int>(r));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return lighter(b, a); });
    for (int r : order) {
      for (bool kept = true; kept && at(counts, r) > at(problem_.registers, r).least;) {
        --at(counts, r);
        kept = slow(counts).kept;
        if (!kept) ++at(counts, r);
      }
    }
    return {true, counts, weight(counts), std::min(lower, weight(counts))};
  }

  static constexpr double infinity_ = std::numeric_limits<double>::infinity();
  const CountProblem& problem_;
  double period_;
  int64_t left_;
  const std::function<void()>& look_;
  std::priority_queue<State> open_;
  std::set<std::vector<int>> seen_;
};

void check(const CountProblem& problem) {
  for (size_t r = 0; r < problem.registers.size(); ++r) {
    const CountedRegister& reg = problem.registers[r];
    bool fine = reg.weight > 0 && reg.least >= 1;
    for (const SlotUse& use : reg.uses) {
      fine &= use.initial >= 0 && use.initial <= reg.least && !use.acquire.empty();
      fine &= use.acquire.size() == use.release.size();
    }
    if (!fine) {
      throw Error::input("search",
                         fmt::format("register {} is none: its weight is above 0, its count from 1 and from "
                                     "its initial slots on, its uses have as many releases as acquires",
                                     r));
    }
  }
}

// Removes the waits for slots from a view.
std::vector<std::pair<int, planner::Need>> take_slot_needs(planner::StepView& view) {
  std::vector<std::pair<int, planner::Need>> taken;  // node that waits
  std::vector<planner::Need> left;
  for (size_t n = 0; n < view.nodes.size(); ++n) {
    planner::StepNode& node = view.nodes[n];
    int begin = static_cast<int>(left.size());
    for (int i = node.needs_begin; i < node.needs_end; ++i) {
      const planner::Need& need = at(view.needs, i);
      const auto& inputs = view.actor_of(static_cast<int>(n)).inputs;
      bool in_place = std::any_of(inputs.begin(), inputs.end(),
                                  [&](const ir::Input& in) { return in.program < 0 && in.reg == need.reg; });
      if (need.data || in_place) {
        left.push_back(need);
      } else {
        taken.push_back({static_cast<int>(n), need});
      }
    }
    node.needs_begin = begin;
    node.needs_end = static_cast<int>(left.size());
  }
  view.needs = std::move(left);
  return taken;
}

}  // namespace

double period_of(const CountProblem& problem, const std::vector<int>& counts) {
  Counted made = counted(problem, counts);
  bool stuck = !stuck_cycle(problem, made).empty();
  return stuck ? std::numeric_limits<double>::infinity() : planner::max_cycle_ratio(made.graph).seconds;
}

double least_period(const CountProblem& problem) {
  return period_of(problem, std::vector<int>(problem.registers.size(), any_number));
}

Counts least_counts(const CountProblem& problem, double period, int64_t most,
                    const std::function<void()>& look) {
  check(problem);
  return CountSearch(problem, period, most, look).run();
}

PlanCounts counts_of_plan(const planner::StepView& view, const std::vector<double>& seconds) {
  planner::StepView bare = view, starts = view;
  const auto waits = take_slot_needs(bare);
  std::erase_if(bare.stations,
                [](const auto& station) { return station.kind == planner::StationKind::issue; });
  planner::StepGraph step = planner::step_graph(bare, seconds);
  for (planner::StepNode& node : starts.nodes) node.needs_begin = node.needs_end = 0;
  std::erase_if(starts.stations,
                [](const auto& station) { return station.kind != planner::StationKind::issue; });
  PlanCounts plan;
  plan.problem.graph = std::move(step.graph);
  plan.problem.starts = planner::step_graph(starts).graph.edges;
  std::map<std::pair<int, int>, CountedRegister> registers;
  for (const auto& [n, need] : waits) {
    const planner::StepNode& node = at(view.nodes, n);
    int program = at(view.program, node.instance);
    const ir::Register& reg = at(view.program_of(node.instance).registers, need.reg);
    CountedRegister& counted = registers[{program, need.reg}];
    SlotUse use;
    use.initial = reg.initial;
    int written = at(step.first_act, node.unit), read = at(step.first_act, at(view.nodes, need.on).unit);
    for (int v = 0; v < node.acts / reg.every; ++v) {
      use.acquire.push_back(written + v * reg.every);
      use.release.push_back(read + (v + 1) * need.mul - 1);
    }
    counted.uses.push_back(std::move(use));
  }
  for (auto& [place, counted] : registers) {
    const ir::Program& program = at(view.plan->programs, place.first);
    const ir::Register& reg = at(program.registers, place.second);
    int64_t devices = 0;
    for (const ir::RankClass& cls : view.plan->classes) {
      if (cls.program == place.first) devices += static_cast<int64_t>(cls.devices.size());
    }
    counted.least = std::max(1, reg.initial);
    counted.weight = std::max(1e-6, static_cast<double>(reg.bytes * devices));
    plan.registers.push_back(place);
    plan.problem.registers.push_back(std::move(counted));
  }
  return plan;
}

}  // namespace boxcar::search
