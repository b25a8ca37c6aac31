#include "planner/solve/fronts.h"

#include <algorithm>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

// The next choice of the nodes in `scope`, the last one fastest; false after the last.
bool next(const Assignment& problem, const std::vector<int>& scope, std::vector<int>& choice) {
  for (size_t k = scope.size(); k-- > 0;) {
    if (++at(choice, scope[k]) < problem.choices(scope[k])) return true;
    at(choice, scope[k]) = 0;
  }
  return false;
}

}  // namespace

size_t Fronts::Function::index(const std::vector<int>& choice) const {
  size_t index = 0;
  for (size_t i = 0; i < scope.size(); ++i) index += stride[i] * static_cast<size_t>(at(choice, scope[i]));
  return index;
}

Fronts::Fronts(const Assignment& problem, const Order& order, const Cost& limits, const Most& most)
    : problem_(problem),
      order_(order),
      limits_(limits),
      most_(static_cast<size_t>(most.points)),
      left_(most.sums),
      buckets_(order.nodes.size()) {
  const Space& space = problem.space;
  for (int node = 0; node < static_cast<int>(problem.nodes.size()); ++node) {
    Function own = empty({node});
    for (const Cost& cost : at(problem.nodes, node)) {
      if (!is_forbidden(space, cost)) own.points.push_back(cost);
      own.begin.push_back(own.points.size());
    }
    place(std::move(own));
  }
  for (const auto& edge : problem.edges) {
    bool forward = at(order.position, edge.a) < at(order.position, edge.b);
    int first = forward ? edge.a : edge.b, second = forward ? edge.b : edge.a;
    Function pair = empty({first, second});
    size_t columns = static_cast<size_t>(problem.choices(edge.b));
    for (int i = 0; i < problem.choices(first); ++i) {
      for (int j = 0; j < problem.choices(second); ++j) {
        const Cost& cost = forward ? edge.costs[static_cast<size_t>(i) * columns + static_cast<size_t>(j)]
                                   : edge.costs[static_cast<size_t>(j) * columns + static_cast<size_t>(i)];
        if (!is_forbidden(space, cost)) pair.points.push_back(cost);
        pair.begin.push_back(pair.points.size());
      }
    }
    place(std::move(pair));
  }
  for (int position = 0; position < static_cast<int>(order.nodes.size()) && ended(); ++position) {
    if (most.look) most.look();
    eliminate(position);
  }
}

Fronts::Function Fronts::empty(std::vector<int> scope) const {
  Function function;
  function.stride.assign(scope.size(), 1);
  for (size_t i = scope.size(); i-- > 1;) {
    function.stride[i - 1] = function.stride[i] * static_cast<size_t>(problem_.choices(scope[i]));
  }
  function.scope = std::move(scope);
  function.begin = {0};
  return function;
}

void Fronts::place(Function function) {
  int first = function.scope.empty() ? -1 : at(order_.position, function.scope[0]);
  bool last = first < 0 || static_cast<size_t>(first) >= buckets_.size();
  (last ? last_ : at(buckets_, first).holds).push_back(static_cast<int>(functions_.size()));
  functions_.push_back(std::move(function));
}

// The combined fronts of the first functions at a choice: {0}, the first, the first two, ..., all except the
// last.
Fronts::Spent Fronts::combine(const std::vector<int>& functions, const std::vector<int>& choice,
                              std::vector<Front>& steps) const {
  steps.resize(std::max<size_t>(1, functions.size()));
  steps[0] = {Cost{}};
  Spent spent;
  for (size_t f = 0; f + 1 < functions.size(); ++f) {
    const Function& function = at(functions_, functions[f]);
    size_t i = function.index(choice), size = function.begin[i + 1] - function.begin[i];
    Sums sums(problem_.space, limits_);
    sums.add(steps[f], function.points.data() + function.begin[i], size);
    steps[f + 1] = sums.take();
    spent.sums += sums.made();
    spent.slack += thin(problem_.space, steps[f + 1], most_);
  }
  return spent;
}

// Adds the fronts of all functions together.
void Fronts::add_last(const std::vector<int>& functions, const std::vector<int>& choice,
                      const std::vector<Front>& steps, Sums& sums) const {
  static const Cost nothing{};
  if (functions.empty()) return sums.add(steps.back(), &nothing, 1);
  const Function& last = at(functions_, functions.back());
  size_t i = last.index(choice);
  sums.add(steps.back(), last.points.data() + last.begin[i], last.begin[i + 1] - last.begin[i]);
}

// The least sum of the functions over the choices of `node`, if costs have one coordinate.
double Fronts::least_of(const std::vector<int>& functions, int node, std::vector<int>& choice) const {
  double least = infinity;
  for (int c = 0; c < problem_.choices(node); ++c) {
    at(choice, node) = c;
    double sum = 0;
    for (int f : functions) {
      const Function& function = at(functions_, f);
      const size_t i = function.index(choice);
      sum =
          function.begin[i] < function.begin[i + 1] ? sum + function.points[function.begin[i]][0] : infinity;
      if (sum >= least) break;
    }
    least = std::min(least, sum);
  }
  return least <= limits_[0] ? least : infinity;
}

void Fronts::eliminate(int position) {
  int node = at(order_.nodes, position);
  std::vector<int>& holds = at(buckets_, position).holds;
  std::stable_sort(holds.begin(), holds.end(), [&](int a, int b) {
    return at(functions_, a).points.size() < at(functions_, b).points.size();
  });
  Function given = empty(at(order_.scope, position));
  std::vector<int> choice(problem_.nodes.size());
  std::vector<Front> steps;
  double worst = 0;
  size_t entries = 1;
  for (int n : given.scope) entries *= static_cast<size_t>(problem_.choices(n));
  const bool numbers = problem_.space.size() == 1;  // then a front is a number
  for (size_t entry = 0; entry < entries && numbers; ++entry, next(problem_, given.scope, choice)) {
    const double least = least_of(holds, node, choice);
    if (least < infinity) given.points.push_back({least});
    given.begin.push_back(given.points.size());
  }
  for (size_t entry = numbers ? entries : 0; entry < entries && ended();
       ++entry, next(problem_, given.scope, choice)) {
    Sums sums(problem_.space, limits_);
    double slack = 0;
    for (int c = 0; c < problem_.choices(node); ++c) {
      at(choice, node) = c;
      Spent spent = combine(holds, choice, steps);
      slack = std::max(slack, spent.slack);
      add_last(holds, choice, steps, sums);
      left_ -= spent.sums;
    }
    left_ -= sums.made();
    Front all = sums.take();
    slack += thin(problem_.space, all, most_);
    worst = std::max(worst, slack);
    given.points.insert(given.points.end(), all.begin(), all.end());
    given.begin.push_back(given.points.size());
  }
  slack_ += worst;
  at(buckets_, position).gives = static_cast<int>(functions_.size());
  place(std::move(given));
}

Fronts::Points Fronts::front(const std::vector<int>& choice) const {
  std::vector<Front> steps;
  Spent spent = combine(last_, choice, steps);
  Sums sums(problem_.space, limits_);
  add_last(last_, choice, steps, sums);
  Points front{sums.take(), slack_ + spent.slack};
  front.slack += thin(problem_.space, front.points, most_);
  return front;
}

// target[f]: the point of function f that is part of `point`; false if `point` is not a sum of all
// `functions`.
bool Fronts::follow(const std::vector<int>& functions, const std::vector<int>& choice, const Cost& point,
                    std::vector<Cost>& target) const {
  std::vector<Front> steps;
  combine(functions, choice, steps);
  Cost want = point;
  for (size_t f = functions.size(); f-- > 0;) {
    const Function& function = at(functions_, functions[f]);
    size_t i = function.index(choice);
    bool found = false;
    for (size_t q = function.begin[i]; q < function.begin[i + 1] && !found; ++q) {
      for (const Cost& p : steps[f]) {
        if (problem_.space.add(p, function.points[q]) != want) continue;
        at(target, functions[f]) = function.points[q];
        want = p;
        found = true;
        break;
      }
    }
    if (!found) return false;
  }
  return true;
}

void Fronts::trace(std::vector<int>& choice, const Cost& point) const {
  std::vector<Cost> target(functions_.size());
  bool found = follow(last_, choice, point, target);
  for (size_t position = buckets_.size(); position-- > 0;) {
    const Bucket& bucket = buckets_[position];
    int node = order_.nodes[position];
    const Cost& want = at(target, bucket.gives);
    int choices = problem_.choices(node);
    for (int c = 0; c < choices; ++c) {
      at(choice, node) = c;
      if ((found = follow(bucket.holds, choice, want, target))) break;
    }
    if (!found) break;
  }
  if (!found) throw Error::fault("search", "a point of a front cannot be traced back");
}

}  // namespace boxcar::search
