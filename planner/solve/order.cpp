#include "planner/solve/order.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "sbp/at.h"

namespace boxcar::search {
namespace {

enum class By : uint8_t { fill, weighted_fill, size };

class Eliminator {
 public:
  Eliminator(const Assignment& problem, const std::vector<int>& kept, By by)
      : problem_(problem),
        by_(by),
        near_(problem.nodes.size()),
        marked_(problem.nodes.size()),
        rank_(problem.nodes.size()) {
    for (const auto& edge : problem.edges) {
      at(near_, edge.a).push_back(edge.b);
      at(near_, edge.b).push_back(edge.a);
    }
    for (std::vector<int>& others : near_) {
      std::sort(others.begin(), others.end());
      others.erase(std::unique(others.begin(), others.end()), others.end());
    }
    order_.position.assign(problem.nodes.size(), -1);
    for (size_t i = 0; i < kept.size(); ++i) {
      at(order_.position, kept[i]) = static_cast<int>(problem.nodes.size() - kept.size() + i);
    }
    for (int node = 0; node < static_cast<int>(near_.size()); ++node) {
      if (at(order_.position, node) < 0) waiting_.insert({at(rank_, node) = rank(node), node});
    }
  }

  // Nothing if `enough` holds for the order so far.
  template <typename F>
  std::optional<Order> run(const F& enough) {
    while (!waiting_.empty()) {
      eliminate(waiting_.begin()->second);
      if (enough(order_)) return std::nullopt;
    }
    for (auto& scope : order_.scope) {
      std::sort(scope.begin(), scope.end(),
                [&](int a, int b) { return at(order_.position, a) < at(order_.position, b); });
    }
    return std::move(order_);
  }

 private:
  using Rank = std::pair<double, double>;

  double size(int node) const {
    double entries = 1;
    for (int other : at(near_, node)) entries *= std::max(1, problem_.choices(other));
    return entries;
  }

  // Counts pairs of neighbours without an edge: all pairs minus those with one, of which there are fewer.
  Rank rank(int node) {
    const std::vector<int>& others = at(near_, node);
    const auto weight = [&](int other) {
      return by_ == By::weighted_fill ? static_cast<double>(problem_.choices(other)) : 1;
    };
    double sum = 0, squares = 0, joined = 0;
    for (int other : others) {
      at(marked_, other) = true;
      sum += weight(other), squares += weight(other) * weight(other);
    }
    for (int a : others)
      for (int b : at(near_, a))
        if (at(marked_, b)) joined += weight(a) * weight(b);
    for (int other : others) at(marked_, other) = false;
    const double fill = (sum * sum - squares - joined) / 2;
    return by_ == By::size ? Rank{size(node), fill} : Rank{fill, size(node)};
  }

  void eliminate(int node) {
    waiting_.erase({at(rank_, node), node});
    order_.largest = std::max(order_.largest, size(node));
    order_.work += size(node) * problem_.choices(node);
    at(order_.position, node) = static_cast<int>(order_.nodes.size());
    order_.nodes.push_back(node);
    const std::vector<int> scope = std::exchange(at(near_, node), {});
    order_.scope.push_back(scope);
    std::vector<int> changed = scope, joint;
    for (int a : scope) {
      std::vector<int>& others = at(near_, a);
      joint.clear();
      std::set_union(others.begin(), others.end(), scope.begin(), scope.end(), std::back_inserter(joint));
      std::erase_if(joint, [&](int b) { return b == a || b == node; });
      others.swap(joint);
      changed.insert(changed.end(), others.begin(), others.end());
    }
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (int other : changed) {
      if (waiting_.erase({at(rank_, other), other})) waiting_.insert({at(rank_, other) = rank(other), other});
    }
  }

  const Assignment& problem_;
  By by_;
  std::vector<std::vector<int>> near_;  // each sorted
  std::vector<char> marked_;
  std::vector<Rank> rank_;
  std::set<std::pair<Rank, int>> waiting_;
  Order order_;
};

}  // namespace

Order order_of(const Assignment& problem, const std::vector<int>& kept, int64_t most) {
  const auto key = [&](const Order& order) {
    return std::pair(order.largest > static_cast<double>(most), order.work);
  };
  Order best = *Eliminator(problem, kept, By::fill).run([](const Order&) { return false; });
  for (const By by : {By::weighted_fill, By::size}) {
    const auto no_better = [&](const Order& order) { return key(order) >= key(best); };  // both only grow
    if (auto other = Eliminator(problem, kept, by).run(no_better)) best = std::move(*other);
  }
  return best;
}

}  // namespace boxcar::search
