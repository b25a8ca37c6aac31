#include "planner/solve/reduce.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sbp/at.h"

namespace boxcar::search {
namespace {

class Reducer {
 public:
  Reducer(const Assignment& problem, const std::vector<int>& kept)
      : space_(problem.space),
        nodes_(problem.nodes),
        edges_of_(problem.nodes.size()),
        fixed_(problem.nodes.size()) {
    for (int node : kept) at(fixed_, node) = true;
    for (const std::vector<Cost>& node : nodes_) {
      left_.emplace_back(node.size());
      std::iota(left_.back().begin(), left_.back().end(), 0);
    }
    std::map<std::pair<int, int>, int> merged;
    for (const Assignment::Edge& edge : problem.edges) {
      auto [found, added] = merged.try_emplace(std::minmax(edge.a, edge.b), static_cast<int>(edges_.size()));
      if (added) add_edge(std::min(edge.a, edge.b), std::max(edge.a, edge.b));
      merge(at(edges_, found->second), edge);
    }
  }

  Reduced run() {
    std::vector<bool> waiting(nodes_.size(), true);
    for (bool any = true; any;) {
      any = false;
      for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
        if (!at(waiting, node)) continue;
        at(waiting, node) = false;
        if (at(fixed_, node) || !drop(node)) continue;
        any = at(waiting, node) = true;
        for (int e : at(edges_of_, node)) at(waiting, at(edges_, e).a) = at(waiting, at(edges_, e).b) = true;
      }
    }
    return result();
  }

 private:
  void add_edge(int a, int b) {
    Assignment::Edge edge{a, b, {}};
    edge.costs.resize(at(nodes_, a).size() * at(nodes_, b).size());
    at(edges_of_, a).push_back(static_cast<int>(edges_.size()));
    at(edges_of_, b).push_back(static_cast<int>(edges_.size()));
    edges_.push_back(std::move(edge));
  }

  void merge(Assignment::Edge& into, const Assignment::Edge& edge) {
    size_t rows = at(nodes_, into.a).size(), columns = at(nodes_, into.b).size();
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        const Cost& cost = edge.a == into.a ? edge.costs[i * columns + j] : edge.costs[j * rows + i];
        into.costs[i * columns + j] = space_.add(into.costs[i * columns + j], cost);
      }
    }
  }

  const Cost& cost(const Assignment::Edge& edge, int node, int mine, int other) const {
    size_t columns = at(nodes_, edge.b).size();
    return edge.a == node ? edge.costs[static_cast<size_t>(mine) * columns + static_cast<size_t>(other)]
                          : edge.costs[static_cast<size_t>(other) * columns + static_cast<size_t>(mine)];
  }
  int neighbour(const Assignment::Edge& edge, int node) const { return edge.a == node ? edge.b : edge.a; }

  bool dead(int node, int choice) const {
    if (is_forbidden(space_, at(at(nodes_, node), choice))) return true;
    for (int e : at(edges_of_, node)) {
      const std::vector<int>& others = at(left_, neighbour(at(edges_, e), node));
      bool possible = std::any_of(others.begin(), others.end(), [&](int other) {
        return !is_forbidden(space_, cost(at(edges_, e), node, choice, other));
      });
      if (!possible) return true;
    }
    return false;
  }

  // Lowers `least` to the excess of `worse` over `better`, in coordinates that add up. False if a maximum of
  // `better` is larger, or if only `worse` is allowed.
  bool compare(const Cost& better, const Cost& worse, Cost& least) const {
    if (is_forbidden(space_, worse)) return true;
    if (is_forbidden(space_, better)) return false;
    for (int k = 0; k < space_.size(); ++k) {
      if (k < space_.sums) at(least, k) = std::min(at(least, k), at(worse, k) - at(better, k));
      if (k >= space_.sums && at(better, k) > at(worse, k)) return false;
    }
    return true;
  }

  bool covers(int node, int better, int worse) const {
    Cost gap = unlimited();
    if (!compare(at(at(nodes_, node), better), at(at(nodes_, node), worse), gap)) return false;
    for (int e : at(edges_of_, node)) {
      const Assignment::Edge& edge = at(edges_, e);
      Cost least = unlimited();
      for (int other : at(left_, neighbour(edge, node))) {
        if (!compare(cost(edge, node, better, other), cost(edge, node, worse, other), least)) return false;
      }
      for (int k = 0; k < space_.sums; ++k) at(gap, k) += at(least, k);
    }
    return std::all_of(gap.begin(), gap.begin() + space_.sums, [](double g) { return g >= 0; });
  }

  bool drop(int node) {
    std::vector<int>& left = at(left_, node);
    size_t before = left.size();
    std::erase_if(left, [&](int choice) { return dead(node, choice); });
    for (size_t i = 0; i < left.size();) {
      bool covered = false;
      for (size_t j = 0; j < left.size() && !covered; ++j) covered = j != i && covers(node, left[j], left[i]);
      if (covered) {
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    return left.size() < before;
  }

  Reduced result() const {
    Reduced reduced;
    reduced.problem.space = space_;
    reduced.original = left_;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      reduced.problem.nodes.emplace_back();
      for (int choice : left_[n]) reduced.problem.nodes[n].push_back(at(nodes_[n], choice));
    }
    for (const Assignment::Edge& edge : edges_) {
      reduced.problem.edges.push_back({edge.a, edge.b, {}});
      for (int i : at(left_, edge.a)) {
        for (int j : at(left_, edge.b))
          reduced.problem.edges.back().costs.push_back(cost(edge, edge.a, i, j));
      }
    }
    return reduced;
  }

  Space space_;
  std::vector<std::vector<Cost>> nodes_;
  std::vector<Assignment::Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
  std::vector<bool> fixed_;
  std::vector<std::vector<int>> left_;  // by node: the remaining choices
};

}  // namespace

std::vector<int> Reduced::restore(const std::vector<int>& choice) const {
  std::vector<int> restored;
  for (size_t n = 0; n < choice.size(); ++n) restored.push_back(at(original[n], choice[n]));
  return restored;
}

Reduced reduce(const Assignment& problem, const std::vector<int>& kept) {
  return Reducer(problem, kept).run();
}

}  // namespace boxcar::search
