#include "planner/search/branch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace boxcar::search {
namespace {

size_t at(int index) { return static_cast<size_t>(index); }

// Sums in another order differ by less.
constexpr double rounding = 1e-12;

class Brancher {
 public:
  Brancher(const Assignment& problem, const Order& order, const Branches& branches, double best)
      : problem_(problem),
        order_(order),
        branches_(branches),
        left_(branches.most),
        choice_(problem.nodes.size()) {
    found_.value = best;
  }

  Branched run() {
    descend(static_cast<int>(order_.nodes.size()) - 1, branches_.bound->root() + branches_.offset,
            branches_.row ? branches_.row->root() : 0);
    found_.lower = std::min(open_, found_.value);
    return std::move(found_);
  }

 private:
  struct Child {
    double bound = 0, row = 0;
    int choice = 0;
    auto operator<=>(const Child&) const = default;
  };

  // Not below the best, or over the limit.
  bool hopeless(double bound, double row) const {
    double best = found_.value;
    bool over = row > branches_.row_limit + std::abs(branches_.row_limit) * 1e3 * rounding;
    return over || !(bound < (best == infinity ? best : best - std::abs(best) * rounding));
  }

  void descend(int position, double bound, double row) {
    if (hopeless(bound, row)) return;
    if (position < 0) {
      double value = branches_.value(choice_);
      if (value < found_.value) found_.value = value, found_.choice = choice_;
      return;
    }
    std::vector<Child> children = this->children(position, bound, row);
    for (size_t i = 0; i < children.size(); ++i) {
      if (hopeless(children[i].bound, children[i].row)) continue;
      if (left_ <= 0) {
        open_ = std::min(open_, children[i].bound);
        continue;
      }
      --left_;
      choice_[at(order_.nodes[at(position)])] = children[i].choice;
      descend(position - 1, children[i].bound, children[i].row);
    }
    choice_[at(order_.nodes[at(position)])] = 0;
  }

  std::vector<Child> children(int position, double bound, double row) {
    std::vector<double> lifts, rows(at(problem_.choices(order_.nodes[at(position)])));
    branches_.bound->lifts(position, choice_, lifts);
    if (branches_.row) branches_.row->lifts(position, choice_, rows);
    std::vector<Child> children;
    for (size_t c = 0; c < lifts.size(); ++c) {
      children.push_back({bound + lifts[c], row + rows[c], static_cast<int>(c)});
    }
    std::sort(children.begin(), children.end());
    return children;
  }

  const Assignment& problem_;
  const Order& order_;
  const Branches& branches_;
  int64_t left_;
  std::vector<int> choice_;
  Branched found_;
  double open_ = infinity;  // the least bound that was not followed
};

}  // namespace

Branched branch_and_bound(const Assignment& problem, const Order& order, const Branches& branches,
                          double best) {
  return Brancher(problem, order, branches, best).run();
}

}  // namespace boxcar::search
