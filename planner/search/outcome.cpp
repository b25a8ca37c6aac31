#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "planner/search/search.h"
#include "planner/solve/pareto.h"

namespace boxcar::search {

void add(Dropped& all, const Dropped& more) {
  for (const auto& [why, count] : more) all[why] += count;
}

int64_t left_out(const Dropped& dropped) {
  int64_t all = 0;
  for (const auto& [why, count] : dropped) all += count;
  return all;
}

Outcome merged(Outcome a, Outcome b, Goal goal) {
  const auto rank = [&](const Candidate& c) {
    return std::tuple(simulated(goal, c), c.seconds, c.peak_bytes);
  };
  const auto is_before = [&](const Candidate& x, const Candidate& y) { return rank(x) < rank(y); };
  // Each list keeps its order, because a plainer plan may come before one that is hardly better
  // (attempts.cpp).
  std::vector<Candidate> all;
  auto of_a = a.best.begin(), of_b = b.best.begin();
  while (of_a != a.best.end() || of_b != b.best.end()) {
    const bool from_b = of_a == a.best.end() || (of_b != b.best.end() && is_before(*of_b, *of_a));
    all.push_back(std::move(from_b ? *of_b++ : *of_a++));
  }
  a.best = std::move(all);
  for (size_t c = 1; c < a.best.size(); ++c) a.best[c].plan.reset();
  if (a.alternatives.empty()) a.alternatives = std::move(b.alternatives);
  a.by_estimate |= b.by_estimate;
  a.ended &= b.ended, a.spent |= b.spent;
  add(a.dropped, b.dropped), add(a.unmade, b.unmade);
  add(a.moves, b.moves);
  a.points += b.points, a.over_memory += b.over_memory, a.over_time += b.over_time, a.compiled += b.compiled;
  const auto bytes = [](const Candidate& c) {
    return c.peak_bytes > 0 ? static_cast<double>(c.peak_bytes) : c.estimated_bytes;
  };
  if (bytes(b.smallest) < bytes(a.smallest)) a.smallest = std::move(b.smallest);
  const auto seconds = [](const Candidate& c) { return c.seconds > 0 ? c.seconds : c.estimated_seconds; };
  if (b.fastest && (!a.fastest || seconds(*b.fastest) < seconds(*a.fastest)))
    a.fastest = std::move(b.fastest);
  if (a.unknown_least.empty()) a.unknown_least = b.unknown_least;
  if (a.least && b.least)
    a.least = std::min(*a.least, *b.least);
  else
    a.least.reset();
  return a;
}

std::vector<Candidate> pareto_front(std::vector<Candidate> all, const std::vector<Goal>& goals) {
  const auto values = [&](const Candidate& c) {
    std::vector<double> of;
    for (Goal goal : goals) of.push_back(simulated(goal, c));
    return of;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Candidate& a, const Candidate& b) { return values(a) < values(b); });
  all.erase(std::unique(all.begin(), all.end(),
                        [&](const Candidate& a, const Candidate& b) { return values(a) == values(b); }),
            all.end());
  std::vector<std::vector<double>> rows;
  for (const Candidate& c : all) rows.push_back(values(c));
  std::vector<Candidate> front;
  for (const size_t row : pareto_front(rows)) front.push_back(std::move(all[row]));
  return front;
}

}  // namespace boxcar::search
