#include "planner/solve/tables.h"

#include <algorithm>
#include <cmath>

#include "sbp/at.h"

namespace boxcar::search {
namespace {

double weigh(const Space& space, const Cost& weights, const Cost& cost) {
  if (is_forbidden(space, cost)) return infinity;
  double value = 0;
  for (int k = 0; k < space.sums; ++k) value += at(weights, k) * at(cost, k);
  return value;
}

// sum = base + values
void add(const std::vector<double>& base, const double* values, std::vector<double>& sum) {
  double* into = sum.data();
  const double* from = base.data();
  for (size_t c = 0, n = sum.size(); c < n; ++c) into[c] = from[c] + values[c];
}

// The least of a + b, four at a time, because a minimum waits for the previous one.
inline double least_sum(const double* a, const std::vector<double>& b) {
  double least[4] = {infinity, infinity, infinity, infinity};
  const size_t n = b.size(), whole = n / 4 * 4;
  for (size_t c = 0; c < whole; c += 4)
    for (size_t i = 0; i < 4; ++i) least[i] = std::min(least[i], a[c + i] + b[c + i]);
  for (size_t c = whole; c < n; ++c) least[0] = std::min(least[0], a[c] + b[c]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

}  // namespace

size_t Tables::Function::index(const std::vector<int>& choice) const {
  size_t index = 0;
  for (size_t i = 0; i < scope.size(); ++i) index += stride[i] * static_cast<size_t>(at(choice, scope[i]));
  return index;
}

size_t Tables::Function::stride_of(int node) const {
  for (size_t i = 0; i < scope.size(); ++i) {
    if (scope[i] == node) return stride[i];
  }
  return 0;
}

Tables::Tables(const Assignment& problem, const Order& order, const Cost& weights, const Effort& effort)
    : problem_(problem),
      order_(order),
      most_(static_cast<double>(effort.table)),
      buckets_(problem.nodes.size()) {
  const Space& space = problem.space;
  for (int node = 0; node < static_cast<int>(problem.nodes.size()); ++node) {
    Function own = filled({node}, 0);
    for (size_t c = 0; c < own.values.size(); ++c)
      own.values[c] = weigh(space, weights, at(problem.nodes, node)[c]);
    add(std::move(own));
  }
  for (const auto& edge : problem.edges) {
    bool forward = at(order.position, edge.a) < at(order.position, edge.b);
    Function pair = filled(forward ? std::vector{edge.a, edge.b} : std::vector{edge.b, edge.a}, 0);
    size_t of_a = pair.stride_of(edge.a), of_b = pair.stride_of(edge.b), i = 0;
    for (int a = 0; a < problem.choices(edge.a); ++a) {
      for (int b = 0; b < problem.choices(edge.b); ++b) {
        pair.values[static_cast<size_t>(a) * of_a + static_cast<size_t>(b) * of_b] =
            weigh(space, weights, edge.costs[i++]);
      }
    }
    add(std::move(pair));
  }
  for (int position = 0; position < static_cast<int>(order.nodes.size()); ++position) {
    if (effort.look) effort.look();
    eliminate(position);
  }
}

Tables::Function Tables::filled(std::vector<int> scope, double value) const {
  Function function;
  function.stride.assign(scope.size(), 1);
  size_t entries = 1;
  for (size_t i = 0; i < scope.size(); ++i) {  // nodes that are eliminated first are contiguous
    function.stride[i] = entries;
    entries *= static_cast<size_t>(problem_.choices(scope[i]));
  }
  function.scope = std::move(scope);
  function.values.assign(entries, value);
  return function;
}

void Tables::add(Function function) {
  function.forbids =
      std::find(function.values.begin(), function.values.end(), infinity) != function.values.end();
  at(buckets_, at(order_.position, function.scope[0])).holds.push_back(static_cast<int>(functions_.size()));
  functions_.push_back(std::move(function));
}

std::vector<int> Tables::scope_of(const std::vector<int>& part, int node) const {
  std::vector<int> scope;
  for (int f : part) {
    for (int n : at(functions_, f).scope) {
      if (n != node && std::find(scope.begin(), scope.end(), n) == scope.end()) scope.push_back(n);
    }
  }
  std::sort(scope.begin(), scope.end(),
            [&](int a, int b) { return at(order_.position, a) < at(order_.position, b); });
  return scope;
}

// All of the bucket, or parts whose functions are small enough: the widest functions first, each into the
// first part that has room. A function that is too large by itself existed before.
std::vector<std::vector<int>> Tables::parts(const Bucket& bucket, int node) const {
  auto entries = [&](const std::vector<int>& part) {
    double n = 1;
    for (int other : scope_of(part, node)) n *= problem_.choices(other);
    return n;
  };
  if (entries(bucket.holds) <= most_) return {bucket.holds};
  std::vector<int> wide = bucket.holds;
  std::stable_sort(wide.begin(), wide.end(), [&](int a, int b) {
    return at(functions_, a).values.size() > at(functions_, b).values.size();
  });
  std::vector<std::vector<int>> parts;
  for (int f : wide) {
    auto room = std::find_if(parts.begin(), parts.end(), [&](std::vector<int> part) {
      part.push_back(f);
      return entries(part) <= most_;
    });
    if (room == parts.end()) {
      parts.push_back({f});
    } else {
      room->push_back(f);
    }
  }
  return parts;
}

// Functions of other buckets only over nodes of `scope`. Entries that they forbid need not be computed.
std::vector<int> Tables::masks(const std::vector<int>& scope) const {
  std::vector<int> masks;
  for (int node : scope)
    for (int f : at(buckets_, at(order_.position, node)).holds) {
      const std::vector<int>& own = at(functions_, f).scope;
      const bool inside = std::all_of(own.begin(), own.end(), [&](int n) {
        return std::find(scope.begin(), scope.end(), n) != scope.end();
      });
      if (inside && at(functions_, f).forbids) masks.push_back(f);
    }
  return masks;
}

// Calls take(i, sum) for every entry i of a table over `scope` that is not forbidden: sum is by choice of the
// node. Sums that do not depend on the first nodes of the scope are computed once for all their choices.
// Those for neighbouring choices of the first node, one row each, are computed together.
template <typename Take>
void Tables::sums(const std::vector<int>& part, int node, const std::vector<int>& scope, Take take) const {
  struct Walk {
    const double* values;         // of all choices of the node, which is the first of its scope
    std::vector<size_t> strides;  // over the scope
    size_t first = 0;             // the first node of the scope on which it depends
  };
  const auto walk_over = [&](int f) {
    Walk walk{at(functions_, f).values.data(), {}};
    for (int n : scope) walk.strides.push_back(at(functions_, f).stride_of(n));
    while (walk.first < scope.size() && walk.strides[walk.first] == 0) ++walk.first;
    return walk;
  };
  std::vector<Walk> masks, walks;
  for (int f : this->masks(scope)) masks.push_back(walk_over(f));
  for (int f : part) walks.push_back(walk_over(f));
  const auto choices = static_cast<size_t>(problem_.choices(node));
  // By node of the scope: the sum of the functions that depend on no earlier one. The first is in `rows`.
  std::vector<std::vector<double>> from(scope.size() + 1, std::vector<double>(choices));
  const auto add_up = [&](size_t k) {
    const std::vector<double>* base = k < scope.size() ? &from[k + 1] : &from[k];
    for (const Walk& walk : walks) {
      if (walk.first != k) continue;
      search::add(*base, walk.values, from[k]);
      base = &from[k];
    }
    if (base != &from[k]) from[k] = *base;
  };
  if (scope.empty()) {
    add_up(0);
    return take(0, from[0].data());
  }
  const auto extent = [&](size_t k) { return static_cast<size_t>(problem_.choices(scope[k])); };
  const auto is_possible = [&](size_t row) {
    return std::all_of(masks.begin(), masks.end(),
                       [&](const Walk& mask) { return mask.values[row * mask.strides[0]] < infinity; });
  };
  // Functions of the node and the first node of the scope hold these rows one after the other.
  std::vector<double> rows(extent(0) * choices);
  const auto add_rows = [&](size_t begin, size_t end) {
    bool is_first = true;  // some function depends on the first node of the scope
    for (const Walk& walk : walks) {
      if (walk.first != 0) continue;
      const double* base = from[1].data();
      double* into = rows.data();
      if (is_first)
        for (size_t row = begin; row < end; ++row)
          for (size_t c = 0, at = row * choices; c < choices; ++c)
            into[at + c] = base[c] + walk.values[at + c];
      else
        for (size_t c = begin * choices; c < end * choices; ++c) into[c] += walk.values[c];
      is_first = false;
    }
  };
  std::vector<size_t> digit(scope.size());
  size_t entries = 1;
  for (size_t k = 0; k < scope.size(); ++k) entries *= extent(k);
  size_t changed = scope.size();
  for (size_t i = 0; i < entries; i += extent(0)) {
    for (size_t k = changed; k > 0; --k) add_up(k);
    for (size_t row = 0; row < extent(0); ++row) {
      const size_t begin = row;
      while (row < extent(0) && is_possible(row)) ++row;
      add_rows(begin, row);
      for (size_t one = begin; one < row; ++one) take(i + one, &rows[one * choices]);
    }
    for (changed = 1; changed < scope.size(); ++changed) {
      const bool wraps = ++digit[changed] == extent(changed);
      for (std::vector<Walk>* some : {&masks, &walks})
        for (Walk& walk : *some) {
          walk.values += walk.strides[changed];
          if (wraps) walk.values -= walk.strides[changed] * extent(changed);
        }
      if (!wraps) break;
      digit[changed] = 0;
    }
  }
}

// By part and choice: shifts each part's least cost of a choice to the mean over parts.
std::vector<std::vector<double>> Tables::shifts(const std::vector<std::vector<int>>& parts, int node) const {
  std::vector<std::vector<double>> least;
  size_t choices = static_cast<size_t>(problem_.choices(node));
  for (const std::vector<int>& part : parts) {
    least.emplace_back(choices, parts.size() == 1 ? 0 : infinity);
    if (parts.size() == 1) return least;
    sums(part, node, scope_of(part, node), [&](size_t, const double* sum) {
      for (size_t c = 0; c < choices; ++c) least.back()[c] = std::min(least.back()[c], sum[c]);
    });
  }
  for (size_t c = 0; c < choices; ++c) {
    double mean = 0;
    for (const auto& of : least) mean += of[c] / static_cast<double>(parts.size());
    for (auto& of : least) of[c] = std::isfinite(mean) ? mean - of[c] : 0;
  }
  return least;
}

void Tables::eliminate(int position) {
  int node = at(order_.nodes, position);
  const auto parts = this->parts(at(buckets_, position), node);
  cut_ |= parts.size() > 1;
  const auto shifts = this->shifts(parts, node);
  for (size_t p = 0; p < parts.size(); ++p) {
    Function given = filled(scope_of(parts[p], node), infinity);
    sums(parts[p], node, given.scope,
         [&](size_t i, const double* sum) { given.values[i] = least_sum(sum, shifts[p]); });
    if (given.scope.empty()) {
      at(buckets_, position).constant += given.values[0];
      root_ += given.values[0];
    } else {
      at(buckets_, position).gives.push_back(static_cast<int>(functions_.size()));
      add(std::move(given));
    }
  }
}

double Tables::given(const std::vector<int>& choice) const {
  double value = root_;
  for (size_t position = order_.nodes.size(); position < buckets_.size(); ++position)
    for (int f : buckets_[position].holds) value += at(functions_, f).values[at(functions_, f).index(choice)];
  return value;
}

void Tables::trace(std::vector<int>& choice) const {
  std::vector<double> lifted;
  for (size_t position = order_.nodes.size(); position-- > 0;) {
    lifts(static_cast<int>(position), choice, lifted);
    at(choice, order_.nodes[position]) =
        static_cast<int>(std::min_element(lifted.begin(), lifted.end()) - lifted.begin());
  }
}

void Tables::lifts(int position, const std::vector<int>& choice, std::vector<double>& out) const {
  int node = at(order_.nodes, position);
  const Bucket& bucket = at(buckets_, position);
  double known = bucket.constant;
  for (int f : bucket.gives) known += at(functions_, f).values[at(functions_, f).index(choice)];
  out.assign(static_cast<size_t>(problem_.choices(node)), -known);
  for (int f : bucket.holds) {
    const Function& function = at(functions_, f);
    size_t step = function.stride_of(node);
    size_t base = function.index(choice) - step * static_cast<size_t>(at(choice, node));
    for (size_t c = 0; c < out.size(); ++c) out[c] += function.values[base + c * step];
  }
}

}  // namespace boxcar::search
