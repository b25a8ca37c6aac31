#include "sim/models/expert_exchange.h"

#include <algorithm>
#include <map>
#include <utility>

namespace boxcar::sim {
namespace {

// The probability that none of `top_k` different experts of `all` is one of `some`:
// C(all - some, top_k) / C(all, top_k).
double misses(int64_t all, int64_t some, int64_t top_k) {
  double probability = 1;
  for (int64_t i = 0; i < top_k; ++i)
    probability *= static_cast<double>(std::max<int64_t>(0, all - some - i)) / static_cast<double>(all - i);
  return probability;
}

// The probability that a token chooses an expert of [begin, end).
double chosen(const ExpertChoice& choice, int64_t begin, int64_t end) {
  const int64_t group = choice.experts / choice.groups;
  // By chosen groups of those seen so far, and experts of [begin, end) in these.
  std::map<std::pair<int64_t, int64_t>, double> states{{{0, 0}, 1.0}};
  int64_t seen = 0;
  for (int64_t g = begin / group; g * group < end; ++g, ++seen) {
    const int64_t shared = std::min(end, (g + 1) * group) - std::max(begin, g * group);
    std::map<std::pair<int64_t, int64_t>, double> next;
    for (const auto& [state, probability] : states) {
      const auto [groups, experts] = state;
      const double takes =
          static_cast<double>(choice.top_groups - groups) / static_cast<double>(choice.groups - seen);
      if (takes > 0) next[{groups + 1, experts + shared}] += probability * takes;
      if (takes < 1) next[state] += probability * (1 - takes);
    }
    states = std::move(next);
  }
  double none = 0;
  for (const auto& [state, probability] : states)
    none += probability * misses(group * choice.top_groups, state.second, choice.top_k);
  return 1 - none;
}

}  // namespace

double expected_places(const ExpertChoice& choice, int64_t places) {
  double expected = 0;
  for (int64_t place = 0; place < places; ++place)
    expected += chosen(choice, place * choice.experts / places, (place + 1) * choice.experts / places);
  return expected;
}

ExchangedBytes bytes_by_node(const ExpertChoice& choice, double bytes, const Span& span) {
  const double copy = bytes / static_cast<double>(choice.top_k);  // of all tokens; of a part, times parts
  const auto to_others = [&](int64_t places, int others, int of) {
    return copy * expected_places(choice, places * choice.parts) * others / of;
  };
  return {to_others(span.nodes, span.ranks - span.fewest(), span.ranks),
          to_others(span.ranks, span.ranks_per_node - 1, span.ranks_per_node)};
}

}  // namespace boxcar::sim
