#include "planner/solve/pareto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/search/search.h"

namespace boxcar::search {
namespace {

Candidate candidate(double seconds, int64_t bytes, int gpus) {
  Candidate c;
  c.seconds = seconds, c.peak_bytes = bytes, c.job.gpus = gpus;
  c.job.cluster.price_per_gpu_hour = 1;
  return c;
}

// By the definition: no other is as good everywhere and better somewhere; of equal ones, one stays.
TEST(Pareto, IsTheFrontByItsDefinition) {
  std::mt19937 draw(7);
  const auto number = [&](int most) { return static_cast<int>(draw() % static_cast<unsigned>(most)) + 1; };
  for (int round = 0; round < 200; ++round) {
    std::vector<Goal> goals{Goal::time, Goal::memory};
    if (round % 2 == 0) goals.push_back(Goal::cost);
    std::vector<Candidate> all;
    for (int i = number(12); i > 0; --i) all.push_back(candidate(number(4), number(4), number(3)));
    const auto no_worse = [&](const Candidate& a, const Candidate& b) {
      return std::all_of(goals.begin(), goals.end(),
                         [&](Goal goal) { return simulated(goal, a) <= simulated(goal, b); });
    };
    const std::vector<Candidate> front = pareto_front(all, goals);
    ASSERT_FALSE(front.empty());
    for (const Candidate& c : all)  // each is matched or beaten by the front
      EXPECT_TRUE(
          std::any_of(front.begin(), front.end(), [&](const Candidate& f) { return no_worse(f, c); }));
    for (const Candidate& f : front)
      for (const Candidate& other : front) EXPECT_TRUE(&f == &other || !no_worse(other, f));
    for (size_t i = 1; i < front.size(); ++i)
      EXPECT_LE(simulated(goals[0], front[i - 1]), simulated(goals[0], front[i]));
  }
}

bool beats(const std::vector<double>& a, const std::vector<double>& b) {
  bool better = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    better = better || a[i] < b[i];
  }
  return better;
}

TEST(ParetoOfRows, IsWhatBruteForceFinds) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const size_t count = random() % 60, width = 1 + random() % 4;
    const int most = trial % 3 == 0 ? 3 : 1000;  // with many equal values
    std::vector<std::vector<double>> rows(count, std::vector<double>(width));
    for (auto& row : rows)
      for (double& value : row)
        value = static_cast<double>(static_cast<int>(random() % static_cast<unsigned>(most)) - most / 2);
    std::vector<size_t> expected;
    for (size_t i = 0; i < count; ++i)
      if (std::none_of(rows.begin(), rows.end(), [&](const auto& other) { return beats(other, rows[i]); }))
        expected.push_back(i);
    EXPECT_EQ(pareto_front(rows), expected);
  }
}

}  // namespace
}  // namespace boxcar::search
