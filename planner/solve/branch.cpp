#include "planner/solve/branch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "sbp/at.h"

namespace boxcar::search {
namespace {

// Sums in different orders differ by less.
constexpr double rounding = 1e-12;
constexpr int opened_between_looks = 64;

class Brancher {
 public:
  Brancher(const Assignment& problem, const Order& order, const Branches& branches, double best)
      : order_(order),
        branches_(branches),
        left_(branches.most),
        choice_(problem.nodes.size()),
        last_(static_cast<int>(order.nodes.size())) {
    found_.value = best;
  }

  Branched run() {
    Node root{branches_.bound->root() + branches_.offset, branches_.row ? branches_.row->root() : 0, -1,
              last_, 0};
    nodes_.push_back(root);
    if (!hopeless(root)) open_.push({root.bound, last_, 0});
    while (!open_.empty() && left_ > 0) {
      int node = open_.top().node;
      open_.pop();
      if (!hopeless(at(nodes_, node))) dive(node);
    }
    found_.lower = open_.empty() ? found_.value : std::min(open_.top().bound, found_.value);
    return std::move(found_);
  }

 private:
  // A choice at `position`, on top of those of its parents.
  struct Node {
    double bound = 0, row = 0;
    int parent = -1;
    int position = 0, choice = 0;
  };
  // Least bound first; of equal ones the one that is nearer to a complete choice, then the older one.
  struct Open {
    double bound = 0;
    int position = 0, node = 0;
    auto operator<=>(const Open&) const = default;
  };

  // Whether it is not below the best, or over the limit.
  bool hopeless(const Node& node) const {
    double best = found_.value == infinity ? infinity : found_.value - std::abs(found_.value) * rounding;
    bool over = node.row > branches_.row_limit + std::abs(branches_.row_limit) * 1e3 * rounding;
    return over || !(node.bound < best);
  }

  // Goes down from a node along the least bounds to a complete choice. The other branches stay open.
  void dive(int from) {
    std::fill(choice_.begin(), choice_.end(), 0);
    for (int n = from; at(nodes_, n).parent >= 0; n = at(nodes_, n).parent) {
      at(choice_, at(order_.nodes, at(nodes_, n).position)) = at(nodes_, n).choice;
    }
    for (int node = from;;) {
      if (at(nodes_, node).position == 0) return take();
      if (--left_ % opened_between_looks == 0 && branches_.look) branches_.look();
      node = open(node);
      if (node < 0) return;
      at(choice_, at(order_.nodes, at(nodes_, node).position)) = at(nodes_, node).choice;
    }
  }

  void take() {
    double value = branches_.value(choice_);
    if (value < found_.value) found_.value = value, found_.choice = choice_;
  }

  // Opens a node's children except the one with the least bound, which is returned; -1: all are hopeless.
  int open(int parent) {
    int position = at(nodes_, parent).position - 1;
    branches_.bound->lifts(position, choice_, lifts_);
    rows_.assign(lifts_.size(), 0);
    if (branches_.row) branches_.row->lifts(position, choice_, rows_);
    int best = -1;
    for (size_t c = 0; c < lifts_.size(); ++c) {
      Node child{at(nodes_, parent).bound + lifts_[c], at(nodes_, parent).row + rows_[c], parent, position,
                 static_cast<int>(c)};
      if (hopeless(child)) continue;
      int node = static_cast<int>(nodes_.size());
      nodes_.push_back(child);
      bool better = best < 0 || child.bound < at(nodes_, best).bound;
      int beside = better ? std::exchange(best, node) : node;
      if (beside >= 0) open_.push({at(nodes_, beside).bound, position, beside});
    }
    return best;
  }

  const Order& order_;
  const Branches& branches_;
  int64_t left_;
  std::vector<int> choice_;
  int last_;
  Branched found_;
  std::vector<Node> nodes_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::vector<double> lifts_, rows_;
};

}  // namespace

Branched branch_and_bound(const Assignment& problem, const Order& order, const Branches& branches,
                          double best) {
  return Brancher(problem, order, branches, best).run();
}

}  // namespace boxcar::search
