#include "planner/solve/reduce.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace boxcar::search {
namespace {

size_t at(int index) { return static_cast<size_t>(index); }

class Reducer {
 public:
  Reducer(const Assignment& problem, const std::vector<int>& kept)
      : space_(problem.space),
        nodes_(problem.nodes),
        edges_of_(problem.nodes.size()),
        fixed_(problem.nodes.size()) {
    for (int node : kept) fixed_[at(node)] = true;
    for (const std::vector<Cost>& node : nodes_) {
      left_.emplace_back(node.size());
      std::iota(left_.back().begin(), left_.back().end(), 0);
    }
    std::map<std::pair<int, int>, int> merged;
    for (const Assignment::Edge& edge : problem.edges) {
      auto [found, added] = merged.try_emplace(std::minmax(edge.a, edge.b), static_cast<int>(edges_.size()));
      if (added) add_edge(std::min(edge.a, edge.b), std::max(edge.a, edge.b));
      merge(edges_[at(found->second)], edge);
    }
  }

  Reduced run() {
    std::vector<bool> waiting(nodes_.size(), true);
    for (bool any = true; any;) {
      any = false;
      for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
        if (!waiting[at(node)]) continue;
        waiting[at(node)] = false;
        if (fixed_[at(node)] || !drop(node)) continue;
        any = waiting[at(node)] = true;
        for (int e : edges_of_[at(node)]) waiting[at(edges_[at(e)].a)] = waiting[at(edges_[at(e)].b)] = true;
      }
    }
    return result();
  }

 private:
  void add_edge(int a, int b) {
    Assignment::Edge edge{a, b, {}};
    edge.costs.resize(nodes_[at(a)].size() * nodes_[at(b)].size());
    edges_of_[at(a)].push_back(static_cast<int>(edges_.size()));
    edges_of_[at(b)].push_back(static_cast<int>(edges_.size()));
    edges_.push_back(std::move(edge));
  }

  void merge(Assignment::Edge& into, const Assignment::Edge& edge) {
    size_t rows = nodes_[at(into.a)].size(), columns = nodes_[at(into.b)].size();
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        const Cost& cost = edge.a == into.a ? edge.costs[i * columns + j] : edge.costs[j * rows + i];
        into.costs[i * columns + j] = space_.add(into.costs[i * columns + j], cost);
      }
    }
  }

  const Cost& cost(const Assignment::Edge& edge, int node, int mine, int other) const {
    size_t columns = nodes_[at(edge.b)].size();
    return edge.a == node ? edge.costs[at(mine) * columns + at(other)]
                          : edge.costs[at(other) * columns + at(mine)];
  }
  int neighbour(const Assignment::Edge& edge, int node) const { return edge.a == node ? edge.b : edge.a; }

  bool dead(int node, int choice) const {
    if (is_forbidden(space_, nodes_[at(node)][at(choice)])) return true;
    for (int e : edges_of_[at(node)]) {
      const std::vector<int>& others = left_[at(neighbour(edges_[at(e)], node))];
      bool possible = std::any_of(others.begin(), others.end(), [&](int other) {
        return !is_forbidden(space_, cost(edges_[at(e)], node, choice, other));
      });
      if (!possible) return true;
    }
    return false;
  }

  // Lowers `least` to what `worse` costs more than `better`, in coordinates that add up. False where a
  // maximum of `better` is larger, or where only `worse` is allowed.
  bool compare(const Cost& better, const Cost& worse, Cost& least) const {
    if (is_forbidden(space_, worse)) return true;
    if (is_forbidden(space_, better)) return false;
    for (int k = 0; k < space_.size(); ++k) {
      if (k < space_.sums) least[at(k)] = std::min(least[at(k)], worse[at(k)] - better[at(k)]);
      if (k >= space_.sums && better[at(k)] > worse[at(k)]) return false;
    }
    return true;
  }

  bool covers(int node, int better, int worse) const {
    Cost gap = unlimited();
    if (!compare(nodes_[at(node)][at(better)], nodes_[at(node)][at(worse)], gap)) return false;
    for (int e : edges_of_[at(node)]) {
      const Assignment::Edge& edge = edges_[at(e)];
      Cost least = unlimited();
      for (int other : left_[at(neighbour(edge, node))]) {
        if (!compare(cost(edge, node, better, other), cost(edge, node, worse, other), least)) return false;
      }
      for (int k = 0; k < space_.sums; ++k) gap[at(k)] += least[at(k)];
    }
    return std::all_of(gap.begin(), gap.begin() + space_.sums, [](double g) { return g >= 0; });
  }

  bool drop(int node) {
    std::vector<int>& left = left_[at(node)];
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
      for (int choice : left_[n]) reduced.problem.nodes[n].push_back(nodes_[n][at(choice)]);
    }
    for (const Assignment::Edge& edge : edges_) {
      reduced.problem.edges.push_back({edge.a, edge.b, {}});
      for (int i : left_[at(edge.a)]) {
        for (int j : left_[at(edge.b)])
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
  std::vector<std::vector<int>> left_;  // node: the choices that are left
};

}  // namespace

std::vector<int> Reduced::restore(const std::vector<int>& choice) const {
  std::vector<int> restored;
  for (size_t n = 0; n < choice.size(); ++n) restored.push_back(original[n][at(choice[n])]);
  return restored;
}

Reduced reduce(const Assignment& problem, const std::vector<int>& kept) {
  return Reducer(problem, kept).run();
}

}  // namespace boxcar::search
