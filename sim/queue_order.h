// The fixed order of an ordered queue over the steps, and proofs from it.
//
//   schedule F F B F B B, actors f (F) and b (B):  act 0 of b comes after act 1 of f, before act 2
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "ir/plan.h"

namespace boxcar::sim {

// Act number u x mul + add of an actor, for u = 0, 1, 2, ...
struct ActSeries {
  int actor = 0;
  int mul = 1, add = 0;
};

class QueueOrder {
 public:
  explicit QueueOrder(const ir::Program& program);

  // True if for every u the act of `a` comes before that of `b`. Both actors are on one ordered queue. False
  // if the series do not advance alike over a step or begin before act 0.
  bool always_before(const ActSeries& a, const ActSeries& b);

  int acts_per_step(int actor) const;

 private:
  struct Place {
    int64_t step, run;
    auto operator<=>(const Place&) const = default;
  };
  Place place(int phase, int64_t act) const;
  bool check(int phase_a, const ActSeries& a, int phase_b, const ActSeries& b, bool a_first) const;

  const ir::Program& program_;
  std::vector<std::vector<int>> runs_;  // by phase: indices into the schedule
  std::map<std::tuple<int, int, int, int, int, int, bool>, bool> known_;
};

}  // namespace boxcar::sim
