// Draws legal jobs so that every pair of values of two dimensions comes up.
//
//   Coverage coverage;
//   Drawer drawer(seed);
//   if (auto job = drawer.draw(coverage)) ..., coverage.add(*job);
//
// A job begins with a pair that has not been there. What planner and command line refuse is mended where the
// message says, the pair being kept; a pair that no legal job was found for is noted with the message.
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

// A value of a dimension, by their indices.
struct Setting {
  int dimension = 0, value = 0;
  friend auto operator<=>(const Setting&, const Setting&) = default;
};
using Pair = std::pair<Setting, Setting>;  // the first of the dimension that comes first
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

  std::vector<int> first_;  // by dimension: number of values before
  std::vector<bool> seen_;  // by pair of values
  std::vector<Pair> all_;
  size_t covered_ = 0;
  int values_ = 0;
};

// Why a job cannot be; nothing where it can. No more than `most_devices` devices.
struct Refusal {
  std::string where, message;
};
inline constexpr int most_devices = 8;
std::optional<Refusal> refusal(const RandomJob& job);

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : random_(seed) {}

  // Nothing where no legal job has the pair that was tried. What is refused on the way is shown to `refused`,
  // which may be null.
  std::optional<RandomJob> draw(const Coverage& coverage);
  // A legal job with these two; nothing, and the last message in failed(), where none was found.
  std::optional<RandomJob> draw(const Pair& pair);
  // Pairs that no legal job was found for, with what refused the last one.
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
