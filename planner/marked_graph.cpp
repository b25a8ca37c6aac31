#include "planner/marked_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {
namespace {

void add_needs(const StepView& view, StepGraph& step) {
  for (const StepNode& node : view.nodes) {
    for (int i = node.needs_begin; i < node.needs_end; ++i) {
      const Need& need = at(view.needs, i);
      const StepNode& on = at(view.nodes, need.on);
      for (int64_t j = 0; j < node.acts; j += need.div) {
        int64_t last = need.acts(j) - 1;
        const int64_t steps = last < 0 ? (on.acts - 1 - last) / on.acts : 0;  // steps before this one
        last += steps * on.acts;
        step.graph.edges.push_back({at(step.first_act, on.unit) + static_cast<int>(last),
                                    at(step.first_act, node.unit) + static_cast<int>(j),
                                    static_cast<int>(steps)});
      }
    }
  }
}

// Edges by the node that they leave.
class Successors {
 public:
  explicit Successors(const MarkedGraph& graph)
      : begin_(graph.seconds.size() + 1), edges_(graph.edges.size()) {
    for (const auto& e : graph.edges) ++at(begin_, e.from + 1);
    for (size_t n = 1; n < begin_.size(); ++n) begin_[n] += begin_[n - 1];
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (size_t e = 0; e < graph.edges.size(); ++e)
      edges_[at(next, graph.edges[e].from)++] = static_cast<int>(e);
  }
  size_t begin(int node) const { return at(begin_, node); }
  size_t end(int node) const { return at(begin_, node + 1); }
  int edge(size_t i) const { return edges_[i]; }

 private:
  std::vector<size_t> begin_;
  std::vector<int> edges_;
};

MarkedGraph reversed(const MarkedGraph& graph) {
  MarkedGraph back = graph;
  for (auto& e : back.edges) std::swap(e.from, e.to);
  return back;
}

// Tarjan's strongly connected components without recursion; by node.
std::vector<int> components(const MarkedGraph& graph, const Successors& next) {
  int n = static_cast<int>(graph.seconds.size()), clock = 0, found = 0;
  std::vector<int> component(static_cast<size_t>(n), -1), low(static_cast<size_t>(n)),
      seen(static_cast<size_t>(n), -1), framework;
  std::vector<std::pair<int, size_t>> path;
  for (int root = 0; root < n; ++root) {
    if (at(seen, root) >= 0) continue;
    path.push_back({root, next.begin(root)});
    while (!path.empty()) {
      auto& [u, i] = path.back();
      if (at(seen, u) < 0) {
        at(seen, u) = at(low, u) = clock++;
        framework.push_back(u);
      }
      if (i < next.end(u)) {
        int v = at(graph.edges, next.edge(i++)).to;
        if (at(seen, v) < 0) {
          path.push_back({v, next.begin(v)});
        } else if (at(component, v) < 0) {
          at(low, u) = std::min(at(low, u), at(seen, v));
        }
        continue;
      }
      int done = u;
      path.pop_back();
      if (!path.empty()) at(low, path.back().first) = std::min(at(low, path.back().first), at(low, done));
      if (at(low, done) != at(seen, done)) continue;
      for (int v = -1; v != done; framework.pop_back()) at(component, v = framework.back()) = found;
      ++found;
    }
  }
  return component;
}

// Policy iteration on all components at once. Each node follows one edge inside its component, and all nodes
// of a component lead to one cycle, the best of the policy. A better edge by their values leads to a better
// cycle or better values.
class Howard {
 public:
  explicit Howard(const MarkedGraph& graph)
      : graph_(graph),
        before_(reversed(graph)),
        component_(components(graph, Successors(graph))),
        policy_(graph.seconds.size(), -1),
        value_(graph.seconds.size(), 0) {
    for (size_t e = 0; e < graph.edges.size(); ++e) {
      const auto& edge = graph.edges[e];
      if (at(component_, edge.from) != at(component_, edge.to)) continue;
      inner_.push_back(static_cast<int>(e));
      if (at(policy_, edge.from) < 0) at(policy_, edge.from) = static_cast<int>(e);
    }
    int count = component_.empty() ? 0 : *std::max_element(component_.begin(), component_.end()) + 1;
    ratio_.assign(static_cast<size_t>(count), -1);
    best_node_.assign(static_cast<size_t>(count), -1);
    for (double s : graph.seconds) longest_ = std::max(longest_, s);
  }

  CycleRatio run() {
    do evaluate();
    while (improve());
    CycleRatio best;
    for (size_t c = 0; c < ratio_.size(); ++c) {
      bool better = best_node_[c] >= 0 && (best.cycle.empty() || ratio_[c] > best.seconds);
      if (better) best = {ratio_[c], policy_cycle(best_node_[c])};
    }
    return best;
  }

 private:
  int follow(int node) const { return at(graph_.edges, at(policy_, node)).to; }

  std::vector<int> policy_cycle(int node) const {
    std::vector<int> cycle{node};
    for (int v = follow(node); v != node; v = follow(v)) cycle.push_back(v);
    return cycle;
  }

  // The best cycle of the policy in each component, then the values of the nodes that lead to it.
  void evaluate() {
    size_t n = graph_.seconds.size();
    std::vector<int> mark(n, -1);
    std::fill(best_node_.begin(), best_node_.end(), -1);
    for (int root = 0; root < static_cast<int>(n); ++root) {
      int v = root;
      while (at(policy_, v) >= 0 && at(mark, v) < 0) {
        at(mark, v) = root;
        v = follow(v);
      }
      if (at(policy_, v) >= 0 && at(mark, v) == root) consider(v);
    }
    spread();
  }

  void consider(int node) {
    double seconds = 0, tokens = 0;
    int v = node;
    do {
      seconds += at(graph_.seconds, v);
      tokens += at(graph_.edges, at(policy_, v)).tokens;
      v = follow(v);
    } while (v != node);
    size_t c = static_cast<size_t>(at(component_, node));
    double ratio = seconds / tokens;
    if (best_node_[c] >= 0 && ratio <= ratio_[c]) return;
    ratio_[c] = ratio;
    best_node_[c] = node;
  }

  double gain(const MarkedGraph::Edge& e) const {
    return at(graph_.seconds, e.from) - at(ratio_, at(component_, e.from)) * e.tokens;
  }

  // Computes values backwards from each component's best cycle, along the policy. Nodes that lead to another
  // cycle are first redirected to it.
  void spread() {
    std::vector<bool> reached(graph_.seconds.size());
    std::vector<int> found;
    auto reach = [&](int node) {
      at(reached, node) = true;
      found.push_back(node);
    };
    for (int node : best_node_) {
      if (node >= 0) reach(node);
    }
    for (bool policy_only : {true, false}) {
      for (size_t i = 0; i < found.size(); ++i) {
        for (size_t p = before_.begin(found[i]); p < before_.end(found[i]); ++p) {
          int index = before_.edge(p);
          const auto& e = at(graph_.edges, index);
          bool inner = at(component_, e.from) == at(component_, e.to);
          if (!inner || at(reached, e.from) || (policy_only && at(policy_, e.from) != index)) continue;
          at(policy_, e.from) = index;
          at(value_, e.from) = at(value_, e.to) + gain(e);
          reach(e.from);
        }
      }
    }
  }

  // Every node takes its best edge by the present values of the policy.
  bool improve() {
    bool improved = false;
    std::vector<double> best = value_;
    for (int index : inner_) {
      const auto& e = at(graph_.edges, index);
      double value = at(value_, e.to) + gain(e);
      if (value - at(best, e.from) <= 1e-12 * std::max(longest_, std::abs(value))) continue;
      improved = true;
      at(best, e.from) = value;
      at(policy_, e.from) = index;
    }
    return improved;
  }

  const MarkedGraph& graph_;
  Successors before_;  // edges by the node that they enter
  std::vector<int> component_;
  std::vector<int> inner_;   // edges inside a component
  std::vector<int> policy_;  // by node: the edge that it follows, -1: none inside its component
  std::vector<double> value_;
  std::vector<double> ratio_;   // by component
  std::vector<int> best_node_;  // by component: a node of its best cycle
  double longest_ = 0;
};

}  // namespace

std::vector<int> station_order(const StepView& view, const Station& station,
                               const std::vector<int>& first_act) {
  const auto& schedule = view.program_of(station.instance).schedule;
  std::vector<int> runs(station.phases.size()), order;
  for (const ir::PhaseRun& run : schedule) {
    int k = at(runs, run.phase)++;
    for (const StationEntry& entry : at(station.phases, run.phase)) {
      int every = std::max(1, entry.turn_every);
      if ((k + 1) % every == 0) order.push_back(at(first_act, entry.unit) + k / every);
    }
  }
  return order;
}

StepGraph step_graph(const StepView& view, const std::vector<double>& seconds) {
  StepGraph step;
  int acts = 0;
  for (const Unit& unit : view.units) {
    step.first_act.push_back(acts);
    acts += unit.acts;
  }
  step.graph.seconds.assign(static_cast<size_t>(acts), 0);
  for (size_t u = 0; u < view.units.size() && !seconds.empty(); ++u) {
    double longest = 0;
    for (int n : view.units[u].nodes) longest = std::max(longest, at(seconds, n));
    auto first = step.graph.seconds.begin() + step.first_act[u];
    std::fill(first, first + view.units[u].acts, longest);
  }
  for (const Station& station : view.stations) {
    std::vector<int> order = station_order(view, station, step.first_act);
    for (size_t i = 0; i < order.size(); ++i) {
      bool last = i + 1 == order.size();
      step.graph.edges.push_back({order[i], order[last ? 0 : i + 1], last ? 1 : 0});
    }
  }
  add_needs(view, step);
  return step;
}

std::vector<int> cycle_without_token(const MarkedGraph& graph) {
  MarkedGraph bare;
  bare.seconds.resize(graph.seconds.size());
  for (const auto& e : graph.edges) {
    if (e.tokens == 0) bare.edges.push_back(e);
  }
  Successors next(bare);
  std::vector<int> component = components(bare, next), size(component.size());
  for (int c : component) ++at(size, c);
  for (const auto& e : bare.edges) {
    if (at(component, e.from) != at(component, e.to)) continue;
    // Any walk inside the component returns to a node that it has visited.
    std::vector<int> path{e.from}, place(component.size(), -1);
    at(place, e.from) = 0;
    for (int u = e.from;;) {
      size_t i = next.begin(u);
      while (at(component, at(bare.edges, next.edge(i)).to) != at(component, u)) ++i;
      u = at(bare.edges, next.edge(i)).to;
      if (at(place, u) >= 0) return {path.begin() + at(place, u), path.end()};
      at(place, u) = static_cast<int>(path.size());
      path.push_back(u);
    }
  }
  return {};
}

CycleRatio max_cycle_ratio(const MarkedGraph& graph) { return Howard(graph).run(); }

double period_bound(const StepView& view, const std::vector<double>& seconds) {
  double bound = max_cycle_ratio(step_graph(view, seconds).graph).seconds;
  std::map<std::pair<int, int>, double> work;  // by instance, queue
  for (size_t n = 0; n < view.nodes.size(); ++n) {
    const StepNode& node = view.nodes[n];
    work[{node.instance, view.actor_of(static_cast<int>(n)).queue}] += seconds[n] * node.acts;
  }
  for (const auto& [queue, total] : work) bound = std::max(bound, total);
  return bound;
}

}  // namespace boxcar::planner
