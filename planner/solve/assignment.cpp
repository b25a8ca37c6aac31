#include "planner/solve/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "planner/solve/branch.h"
#include "planner/solve/fronts.h"
#include "planner/solve/reduce.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

Cost forbidden() {
  Cost cost{};
  cost[0] = infinity;
  return cost;
}

double dot(const Cost& a, const Cost& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += b[k] == 0 ? 0 : a[k] * b[k];
  return sum;
}

void check(const Objective& objective, const Space& space) {
  for (int k = 0; k < max_coordinates; ++k) {
    bool none = k >= space.sums && at(objective.weights, k) != 0;
    if (none) throw Error::input("search", fmt::format("coordinate {} has a weight but does not add up", k));
    if (!(at(objective.weights, k) >= 0 && at(objective.weights, k) < infinity)) {
      throw Error::input("search", fmt::format("weight {} of coordinate {} is not a number from 0 on",
                                               at(objective.weights, k), k));
    }
  }
}

// The problem for an objective: coordinate 0 is the value, the next are the limited sums. A single cost above
// a limit is forbidden, which enforces limits on maxima.
class View {
 public:
  View(const Assignment& problem, const Objective& objective) : space_(problem.space), objective_(objective) {
    for (int k = 0; k < space_.sums; ++k) {
      if (at(objective.limits, k) < infinity) limited_.push_back(k);
    }
    problem_.space = {1 + static_cast<int>(limited_.size()), 0};
    if (problem_.space.sums > max_coordinates)
      throw Error::input("search", "too many coordinates have a limit");
    for (const auto& node : problem.nodes) problem_.nodes.push_back(seen(node));
    for (const auto& edge : problem.edges) problem_.edges.push_back({edge.a, edge.b, seen(edge.costs)});
    limits_ = unlimited();
    for (size_t i = 0; i < limited_.size(); ++i) limits_[i + 1] = at(objective.limits, limited_[i]);
  }

  const Assignment& problem() const { return problem_; }
  const Cost& limits() const { return limits_; }

 private:
  std::vector<Cost> seen(const std::vector<Cost>& costs) const {
    std::vector<Cost> seen;
    for (const Cost& cost : costs) {
      bool allowed = !is_forbidden(space_, cost) && space_.covers(cost, objective_.limits);
      seen.push_back(allowed ? Cost{dot(cost, objective_.weights)} : forbidden());
      for (size_t i = 0; allowed && i < limited_.size(); ++i) seen.back()[i + 1] = at(cost, limited_[i]);
    }
    return seen;
  }

  Space space_;
  const Objective& objective_;
  std::vector<int> limited_;
  Assignment problem_;
  Cost limits_;
};

// Minimises coordinate 0; the others have limits.
class Solver {
 public:
  Solver(const Assignment& problem, const Cost& limits, const Effort& effort)
      : problem_(problem), limits_(limits), effort_(effort), order_(order_of(problem, {}, effort.table)) {
    for (int k = 1; k < problem.space.sums; ++k) {
      double limit = at(limits, k);
      at(row_, k) = limit > 0 ? 1 / limit : 1;
      row_limit_ += limit * at(row_, k);
    }
  }

  Answer run() {
    Effort effort = effort_;
    effort.table = std::min(effort.small, effort_.table);
    std::unique_ptr<Tables> free = std::make_unique<Tables>(problem_, order_, Cost{1}, effort);
    while (free->cut() && effort.table < effort_.table) {
      branch(*free, 0, effort_.branches / 16);
      if (done()) return answer_;
      effort.table = std::min(effort.table * 32, effort_.table);
      free.reset();
      free = std::make_unique<Tables>(problem_, order_, Cost{1}, effort);
    }
    branch(*free, 0, effort_.branches);
    if (done()) return answer_;
    if (problem_.space.sums == 1) return answer_;
    by_multiplier(*free);
    if (!done()) by_fronts();
    return answer_;
  }

 private:
  struct Seen {
    double value = 0, row = 0;
  };

  // Whether it is known that there is no answer, or there is one that is good enough.
  bool done() const {
    if (answer_.lower == infinity || answer_.optimal()) return true;
    return answer_.found && answer_.value - answer_.lower <= effort_.enough * std::abs(answer_.value);
  }

  // The value of a choice within the limits, else infinity.
  double value(const std::vector<int>& choice) {
    Cost cost = cost_of(problem_, choice);
    last_ = {cost[0], dot(cost, row_)};
    return problem_.space.covers(cost, limits_) ? cost[0] : infinity;
  }

  void take(const std::vector<int>& choice, double value) {
    if (!(value < answer_.value)) return;
    answer_.found = true;
    answer_.value = value;
    answer_.choice = choice;
  }

  // Minimises value + multiplier x row without limits: gives a bound, and a choice that may keep the limits.
  Seen branch(const Tables& tables, double multiplier, int64_t most) {
    Branches branches;
    branches.bound = &tables;
    branches.most = most;
    branches.look = effort_.look;
    Seen seen;
    branches.value = [&](const std::vector<int>& choice) {
      take(choice, value(choice));
      return last_.value + multiplier * last_.row;
    };
    Branched found = branch_and_bound(problem_, order_, branches);
    if (!found.choice.empty()) {
      value(found.choice);
      seen = last_;
    }
    raise(found.lower == infinity ? infinity : found.lower - multiplier * row_limit_);
    return seen;
  }

  void raise(double lower) { answer_.lower = std::max(answer_.lower, std::min(lower, answer_.value)); }

  void by_fronts() {
    if (order_.largest > static_cast<double>(effort_.table)) return;
    Fronts fronts(problem_, order_, limits_, {effort_.points, effort_.sums, effort_.look});
    if (!fronts.ended()) return;
    std::vector<int> choice(problem_.nodes.size());
    auto [points, slack] = fronts.front(choice);
    if (points.empty()) {
      answer_ = {};
      answer_.lower = infinity;
      return;
    }
    fronts.trace(choice, points[0]);
    take(choice, points[0][0]);
    raise(points[0][0] - slack);
  }

  // Raises the bound value + multiplier x (row - limit) over multipliers. The row is over its limit at `over`
  // and below it at `under`; the next multiplier makes both equal. At the best multiplier, branch and bound
  // searches the rest.
  void by_multiplier(const Tables& free) {
    Tables row(problem_, order_, row_, effort_);
    Seen over = branch(free, 0, effort_.branches);
    Seen under = least_row(row);
    if (answer_.lower == infinity) return;
    double multiplier = 0;
    for (int round = 0; round < 40 && under.row < over.row && !done(); ++round) {
      double next = (under.value - over.value) / (over.row - under.row);
      if (next <= 0) break;  // if branch and bound ended early, they need not be minima
      Tables tables(problem_, order_, weights(next), effort_);
      double before = answer_.lower;
      Seen seen = branch(tables, next, effort_.branches);
      if (answer_.lower > before || round == 0) multiplier = next;
      bool between =
          seen.value + next * seen.row < over.value + next * over.row - 1e-9 * std::abs(over.value);
      if (!between) break;
      (seen.row > row_limit_ ? over : under) = seen;
    }
    if (!done()) close(multiplier, row);
  }

  Cost weights(double multiplier) const {
    Cost weights = row_;
    for (double& w : weights) w *= multiplier;
    weights[0] = 1;
    return weights;
  }

  Seen least_row(const Tables& row) {
    Branches branches;
    branches.bound = &row;
    branches.most = effort_.branches;
    branches.look = effort_.look;
    branches.value = [&](const std::vector<int>& choice) {
      take(choice, value(choice));
      return last_.row;
    };
    Branched found = branch_and_bound(problem_, order_, branches);
    if (found.lower > row_limit_ * (1 + 1e-9)) {
      answer_ = {};
      answer_.lower = infinity;
    }
    if (!found.choice.empty()) value(found.choice);
    return last_;
  }

  void close(double multiplier, const Tables& row) {
    Tables tables(problem_, order_, weights(multiplier), effort_);
    Branches branches;
    branches.bound = &tables;
    branches.offset = -multiplier * row_limit_;
    branches.row = &row;
    branches.row_limit = row_limit_;
    branches.most = effort_.branches;
    branches.look = effort_.look;
    branches.value = [&](const std::vector<int>& choice) { return value(choice); };
    Branched found = branch_and_bound(problem_, order_, branches, answer_.value);
    if (!found.choice.empty()) take(found.choice, found.value);
    if (found.lower == infinity) answer_.lower = infinity;
    raise(found.lower);
  }

  const Assignment& problem_;
  const Cost& limits_;
  const Effort& effort_;
  Order order_;
  Cost row_{};  // the limited coordinates, each divided by its limit
  double row_limit_ = 0;
  Seen last_;
  Answer answer_;
};

}  // namespace

bool Answer::optimal() const { return found && lower >= value - 1e-9 * std::abs(value); }

Cost cost_of(const Assignment& problem, const std::vector<int>& choice) {
  Cost total{};
  for (size_t n = 0; n < choice.size(); ++n)
    total = problem.space.add(total, at(problem.nodes[n], choice[n]));
  for (const auto& edge : problem.edges) {
    size_t row = static_cast<size_t>(at(choice, edge.a)), column = static_cast<size_t>(at(choice, edge.b));
    total = problem.space.add(total, edge.costs[row * static_cast<size_t>(problem.choices(edge.b)) + column]);
  }
  return total;
}

void check(const Assignment& problem) {
  const Space& space = problem.space;
  if (space.sums < 1 || space.maxima < 0 || space.size() > max_coordinates) {
    throw Error::input("search", fmt::format("{} sums and {} maxima: from 1 sum on, {} coordinates at most",
                                             space.sums, space.maxima, max_coordinates));
  }
  auto check_cost = [&](const std::string& where, const Cost& cost) {
    for (int k = 0; k < space.size(); ++k) {
      if (at(cost, k) >= 0) continue;
      throw Error::input("search",
                         fmt::format("{}: cost {} in coordinate {} is not from 0 on", where, at(cost, k), k));
    }
  };
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    for (const Cost& cost : problem.nodes[n]) check_cost(fmt::format("node {}", n), cost);
  }
  int nodes = static_cast<int>(problem.nodes.size());
  for (const auto& edge : problem.edges) {
    std::string where = fmt::format("edge {}-{}", edge.a, edge.b);
    bool apart = edge.a >= 0 && edge.a < nodes && edge.b >= 0 && edge.b < nodes && edge.a != edge.b;
    if (!apart) throw Error::input("search", where + fmt::format(": not two of {} nodes", nodes));
    size_t entries = at(problem.nodes, edge.a).size() * at(problem.nodes, edge.b).size();
    if (edge.costs.size() != entries) {
      throw Error::input("search", where + fmt::format(": {} costs for {} x {} choices", edge.costs.size(),
                                                       problem.choices(edge.a), problem.choices(edge.b)));
    }
    for (const Cost& cost : edge.costs) check_cost(where, cost);
  }
}

Answer solve(const Assignment& problem, const Objective& objective, const Effort& effort) {
  check(problem);
  check(objective, problem.space);
  View view(problem, objective);
  Reduced reduced = reduce(view.problem());
  Answer answer = Solver(reduced.problem, view.limits(), effort).run();
  if (!answer.found) return answer;
  answer.choice = reduced.restore(answer.choice);
  answer.cost = cost_of(problem, answer.choice);
  return answer;
}

ChoiceFront front(const Assignment& problem, const Cost& limits, const Effort& effort) {
  check(problem);
  Reduced reduced = reduce(problem);
  Order order = order_of(reduced.problem, {}, effort.table);
  if (order.largest > static_cast<double>(effort.table)) {
    throw Error::cannot_run("search", fmt::format("a front needs a table of {:.3g} entries, {} are allowed",
                                                  order.largest, effort.table));
  }
  Fronts fronts(reduced.problem, order, limits,
                {effort.points, std::numeric_limits<int64_t>::max(), effort.look});
  std::vector<int> choice(problem.nodes.size());
  auto [points, slack] = fronts.front(choice);
  ChoiceFront found;
  found.slack = slack;
  for (const Cost& point : points) {
    fronts.trace(choice, point);
    found.points.push_back({point, reduced.restore(choice)});
  }
  return found;
}

}  // namespace boxcar::search
