#include "planner/search/plan_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "planner/arena.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

using planner::MarkedGraph;
using Edge = MarkedGraph::Edge;

// The most acts that merge into one, on average. A plan with more acts would leave too many, so it is not
// tried.
constexpr int most_taken_together = 25;

class Opening {
 public:
  Opening(const planner::StepView& view, const std::vector<double>& seconds)
      : plan_(counts_of_plan(view, seconds)), places_(plan_.problem.graph.seconds.size()) {
    find_places(view);
    choose_registers(view);
    drop_implied();
  }

  PlanCounts run() {
    join();
    return std::move(plan_);
  }

 private:
  struct Place {
    int queue = 0, position = 0;
  };

  void find_places(const planner::StepView& view) {
    std::vector<int> first_act;
    int acts = 0;
    for (const planner::Unit& unit : view.units) {
      first_act.push_back(acts);
      acts += unit.acts;
    }
    for (const planner::Station& station : view.stations) {
      if (station.kind == planner::StationKind::issue) continue;
      const auto queue = static_cast<int>(orders_.size());
      orders_.push_back(planner::station_order(view, station, first_act));
      for (size_t i = 0; i < orders_.back().size(); ++i)
        at(places_, orders_.back()[i]).push_back({queue, static_cast<int>(i)});
    }
  }

  // Whether a queue that has both ends already orders them this way.
  bool implied(const Edge& e) const {
    for (const Place& a : at(places_, e.from))
      for (const Place& b : at(places_, e.to))
        if (a.queue == b.queue && (e.tokens > 0 || a.position < b.position)) return true;
    return false;
  }

  // The edges of a register with `count` slots.
  static std::vector<Edge> edges_of(const CountedRegister& reg, int count) {
    std::vector<Edge> edges;
    for (const SlotUse& use : reg.uses) {
      const auto versions = static_cast<int>(use.acquire.size());
      for (int v = 0; v < versions; ++v) {
        const int written = v + count - use.initial;
        edges.push_back({at(use.release, v), at(use.acquire, written % versions), written / versions});
      }
    }
    return edges;
  }

  void choose_registers(const planner::StepView& view) {
    PlanCounts open;
    MarkedGraph& graph = plan_.problem.graph;
    for (size_t r = 0; r < plan_.registers.size(); ++r) {
      const auto [program, index] = plan_.registers[r];
      const int count = at(at(view.plan->programs, program).registers, index).count;
      CountedRegister& reg = plan_.problem.registers[r];
      const std::vector<Edge> edges = edges_of(reg, count);
      const bool free =
          count > 1 && !std::all_of(edges.begin(), edges.end(), [&](const Edge& e) { return implied(e); });
      if (!free) {
        graph.edges.insert(graph.edges.end(), edges.begin(), edges.end());
        continue;
      }
      reg.least = std::max(reg.least, 2);
      open.registers.push_back(plan_.registers[r]);
      open.problem.registers.push_back(std::move(reg));
    }
    plan_.registers = std::move(open.registers);
    plan_.problem.registers = std::move(open.problem.registers);
  }

  // Whether it is one of the edges by which a queue orders its acts.
  bool in_order(const Edge& e) const {
    for (const Place& a : at(places_, e.from))
      for (const Place& b : at(places_, e.to)) {
        if (a.queue != b.queue) continue;
        const auto last = static_cast<int>(at(orders_, a.queue).size()) - 1;
        if (e.tokens == 0 && b.position == a.position + 1) return true;
        if (e.tokens == 1 && b.position == 0 && a.position == last) return true;
      }
    return false;
  }

  // Drops implied edges; of parallel edges, keeps the one with the fewest tokens.
  void drop_implied() {
    std::vector<Edge>& edges = plan_.problem.graph.edges;
    std::erase_if(edges, [&](const Edge& e) { return implied(e) && !in_order(e); });
    const auto key = [](const Edge& e) { return std::tuple(e.from, e.to, e.tokens); };
    std::sort(edges.begin(), edges.end(), [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
    edges.erase(std::unique(edges.begin(), edges.end(),
                            [](const Edge& a, const Edge& b) { return a.from == b.from && a.to == b.to; }),
                edges.end());
  }

  // Merges two adjacent acts of a queue if the edge between them is the only one that leaves the first and
  // the only one that reaches the second.
  void join() {
    CountProblem& problem = plan_.problem;
    const size_t n = problem.graph.seconds.size();
    std::vector<int> in(n), out(n);
    for (const std::vector<Edge>* edges : {&problem.graph.edges, &problem.starts})
      for (const Edge& e : *edges) ++at(out, e.from), ++at(in, e.to);
    for (const CountedRegister& reg : problem.registers)
      for (const SlotUse& use : reg.uses) {
        for (int node : use.acquire) ++at(in, node);
        for (int node : use.release) ++at(out, node);
      }
    std::vector<int> head(n);
    for (size_t i = 0; i < n; ++i) head[i] = static_cast<int>(i);
    for (const std::vector<int>& order : orders_)
      for (size_t i = 1; i < order.size(); ++i) {
        const int u = order[i - 1], v = order[i];
        const bool alone = at(places_, u).size() == 1 && at(places_, v).size() == 1;
        if (alone && at(out, u) == 1 && at(in, v) == 1) at(head, v) = at(head, u);
      }
    renumber(head);
  }

  void renumber(const std::vector<int>& head) {
    CountProblem& problem = plan_.problem;
    std::vector<int> number(head.size(), -1);
    MarkedGraph joined;
    for (size_t i = 0; i < head.size(); ++i)
      if (head[i] == static_cast<int>(i)) {
        number[i] = static_cast<int>(joined.seconds.size());
        joined.seconds.push_back(0);
      }
    for (size_t i = 0; i < head.size(); ++i) {
      number[i] = at(number, head[i]);
      at(joined.seconds, number[i]) += problem.graph.seconds[i];
    }
    for (const Edge& e : problem.graph.edges)
      if (at(head, e.from) != at(head, e.to) || e.tokens > 0)
        joined.edges.push_back({at(number, e.from), at(number, e.to), e.tokens});
    for (Edge& e : problem.starts) e.from = at(number, e.from), e.to = at(number, e.to);
    for (CountedRegister& reg : problem.registers)
      for (SlotUse& use : reg.uses) {
        for (int& node : use.acquire) node = at(number, node);
        for (int& node : use.release) node = at(number, node);
      }
    problem.graph = std::move(joined);
  }

  PlanCounts plan_;
  std::vector<std::vector<Place>> places_;  // by node
  std::vector<std::vector<int>> orders_;    // by queue
};

std::vector<double> node_seconds(const planner::StepView& view, const backends::Cluster& cluster,
                                 const ActSeconds& seconds) {
  std::vector<std::vector<double>> by_class;
  for (int cls = 0; cls < view.instances(); ++cls) by_class.push_back(seconds(*view.plan, cluster, cls, {}));
  std::vector<double> result;
  for (const planner::StepNode& node : view.nodes)
    result.push_back(at(at(by_class, node.instance), node.actor));
  return result;
}

}  // namespace

PlanCounts open_counts(const planner::StepView& view, const std::vector<double>& seconds) {
  return Opening(view, seconds).run();
}

PlanSlots fewest_slots(const ir::Plan& plan, const backends::Cluster& cluster, const ActSeconds& seconds,
                       int most_acts, const std::function<void()>& look) {
  const planner::StepView view = planner::view_of_classes(plan);
  PlanSlots slots;
  int64_t all = 0;
  for (const planner::StepNode& node : view.nodes) all += node.acts;
  if (all > int64_t{most_taken_together} * most_acts) return slots;
  const PlanCounts open = open_counts(view, node_seconds(view, cluster, seconds));
  const auto acts = static_cast<int>(open.problem.graph.seconds.size());
  if (acts > most_acts) return slots;
  slots.acts = acts;
  std::vector<int> now;
  for (const auto& [program, reg] : open.registers)
    now.push_back(at(at(plan.programs, program).registers, reg).count);
  slots.period = period_of(open.problem, now);
  const Counts least = least_counts(open.problem, slots.period, 200, look);
  slots.optimal = least.optimal();
  for (size_t r = 0; r < now.size() && least.found; ++r) {
    const auto [program, reg] = open.registers[r];
    const ir::Program& p = at(plan.programs, program);
    if (least.counts[r] == now[r]) continue;
    slots.changes.push_back({p.name, at(p.registers, reg).name, least.counts[r]});
    slots.saved_bytes += open.problem.registers[r].weight * (now[r] - least.counts[r]);
  }
  return slots;
}

void set_slots(ir::Plan& plan, const std::vector<Slots>& slots) {
  for (const Slots& s : slots) {
    ir::Register* found = nullptr;
    for (ir::Program& program : plan.programs)
      for (ir::Register& reg : program.registers)
        if (program.name == s.program && reg.name == s.reg) found = &reg;
    if (!found) throw Error::fault(s.program, fmt::format("has no register %{}", s.reg));
    found->count = s.count;
  }
  for (ir::Program& program : plan.programs) planner::plan_memory(program);
}

}  // namespace boxcar::search
