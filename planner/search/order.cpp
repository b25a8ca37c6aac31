#include "planner/search/order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace boxcar::search {
namespace {

size_t at(int index) { return static_cast<size_t>(index); }

enum class By : uint8_t { fill, weighted_fill, size };

class Eliminator {
 public:
  Eliminator(const Assignment& problem, const std::vector<int>& kept, By by)
      : problem_(problem), by_(by), near_(problem.nodes.size()), rank_(problem.nodes.size()) {
    for (const auto& edge : problem.edges) {
      near_[at(edge.a)].insert(edge.b);
      near_[at(edge.b)].insert(edge.a);
    }
    order_.position.assign(problem.nodes.size(), -1);
    for (size_t i = 0; i < kept.size(); ++i) {
      order_.position[at(kept[i])] = static_cast<int>(problem.nodes.size() - kept.size() + i);
    }
    for (int node = 0; node < static_cast<int>(near_.size()); ++node) {
      if (order_.position[at(node)] < 0) waiting_.insert({rank_[at(node)] = rank(node), node});
    }
  }

  Order run() {
    while (!waiting_.empty()) eliminate(waiting_.begin()->second);
    for (auto& scope : order_.scope) {
      std::sort(scope.begin(), scope.end(),
                [&](int a, int b) { return order_.position[at(a)] < order_.position[at(b)]; });
    }
    return std::move(order_);
  }

 private:
  using Rank = std::pair<double, double>;

  double size(int node) const {
    double entries = 1;
    for (int other : near_[at(node)]) entries *= std::max(1, problem_.choices(other));
    return entries;
  }

  Rank rank(int node) const {
    double fill = 0;
    for (auto i = near_[at(node)].begin(); i != near_[at(node)].end(); ++i) {
      for (auto j = std::next(i); j != near_[at(node)].end(); ++j)
        if (near_[at(*i)].count(*j) == 0)
          fill +=
              by_ == By::weighted_fill ? static_cast<double>(problem_.choices(*i)) * problem_.choices(*j) : 1;
    }
    return by_ == By::size ? Rank{size(node), fill} : Rank{fill, size(node)};
  }

  void eliminate(int node) {
    waiting_.erase({rank_[at(node)], node});
    order_.largest = std::max(order_.largest, size(node));
    order_.work += size(node) * problem_.choices(node);
    order_.position[at(node)] = static_cast<int>(order_.nodes.size());
    order_.nodes.push_back(node);
    const std::set<int> scope = std::exchange(near_[at(node)], {});
    order_.scope.emplace_back(scope.begin(), scope.end());
    std::set<int> changed = scope;
    for (int a : scope) {
      near_[at(a)].erase(node);
      for (int b : scope) {
        if (a != b) near_[at(a)].insert(b);
      }
      changed.insert(near_[at(a)].begin(), near_[at(a)].end());
    }
    for (int other : changed) {
      if (waiting_.erase({rank_[at(other)], other})) waiting_.insert({rank_[at(other)] = rank(other), other});
    }
  }

  const Assignment& problem_;
  By by_;
  std::vector<std::set<int>> near_;
  std::vector<Rank> rank_;
  std::set<std::pair<Rank, int>> waiting_;
  Order order_;
};

}  // namespace

Order order_of(const Assignment& problem, const std::vector<int>& kept, int64_t most) {
  const auto key = [&](const Order& order) {
    return std::pair(order.largest > static_cast<double>(most), order.work);
  };
  Order best = Eliminator(problem, kept, By::fill).run();
  for (const By by : {By::weighted_fill, By::size})
    if (Order other = Eliminator(problem, kept, by).run(); key(other) < key(best)) best = std::move(other);
  return best;
}

}  // namespace boxcar::search
