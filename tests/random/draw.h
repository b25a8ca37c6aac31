// Draws legal jobs so that every pair of values of two dimensions occurs.
//
//   Coverage coverage;
//   Drawer drawer(seed);
//   if (auto job = drawer.draw(coverage)) ..., coverage.add(*job);
//
// A job begins with a pair not seen before. If the planner or command line refuses it, the drawer changes the
// values that the message names and keeps the pair. A pair without a legal job is noted with the message.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "random_job.h"

namespace boxcar::tests {

// A value of a dimension, by index.
struct Setting {
  int dimension = 0, value = 0;
  friend auto operator<=>(const Setting&, const Setting&) = default;
};
using Pair = std::pair<Setting, Setting>;  // ordered by dimension
std::string to_text(const Pair& pair);     // "parallel.tp=2 parallel.zero=3"

class Coverage {
 public:
  Coverage();
  void add(const RandomJob& job);
  bool has(const Pair& pair) const;
  size_t pairs() const { return all_.size(); }
  size_t covered() const { return covered_; }
  const std::vector<Pair>& all() const { return all_; }

 private:
  size_t index(const Pair& pair) const;

  std::vector<int> first_;  // by dimension: number of values in earlier dimensions
  std::vector<bool> seen_;  // by pair of values
  std::vector<Pair> all_;
  size_t covered_ = 0;
  int values_ = 0;
};

// Why a job is refused; nothing if it is legal. At most `most_devices` devices.
struct Refusal {
  std::string where, message;
};
inline constexpr int most_devices = 8;
std::optional<Refusal> refusal(const RandomJob& job);

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : random_(seed) {}

  // Nothing if the pair that was tried has no legal job. Shows refused jobs to `refused`, which may be null.
  std::optional<RandomJob> draw(const Coverage& coverage);
  // A legal job with this pair. If none is found: nothing, with the last message in failed().
  std::optional<RandomJob> draw(const Pair& pair);
  // Pairs without a legal job, each with the last refusal.
  const std::map<Pair, std::string>& failed() const { return failed_; }

 private:
  size_t below(size_t limit);
  RandomJob scatter(const RandomJob& kept);
  void mend(RandomJob& job, const RandomJob& kept, const Refusal& why);

  std::mt19937_64 random_;
  std::map<Pair, std::string> failed_;
  std::map<Pair, int> tries_;
};

}  // namespace boxcar::tests
