// Whether registers of one device ever hold something at the same time, by everything that orders acts of the
// plan on every rank. This is exact; lifetimes.h looks at one queue and does not always have an answer.
//
// Act x of a step comes before act y of the step `tokens` later exactly if a path leads from the end of x to
// the start of y in the plan's marked graph, with at most that many tokens on it. A version is in use from
// the start of the first act that writes it to the end of the last that writes or reads it. Two registers are
// apart if for any two of their versions that share bytes, in steps t apart, the uses of one end before those
// of the other start:
//
//   a -> %x -> b -> %y -> c, each on its own queue: %x and %y share bytes
//   %x of step s is in use from a to b, %y from b to c: while b acts, both are
#pragma once

#include <map>
#include <vector>

#include "planner/marked_graph.h"
#include "planner/step_view.h"

namespace boxcar::planner {

class Uses {
 public:
  // `plan` has passed ir::check and outlives this. Throws Error (cannot run) if it has more acts on all
  // devices than can be looked at.
  explicit Uses(const ir::Plan& plan);

  // REQUIRES: both registers are of `program` and have a place in its arena. True only if they are apart on
  // all its devices. Also false if deciding would take too long.
  bool apart(int program, int reg, int other);

  // Whether acts of `actor` of `program` on a version of `reg` never overlap those of `reader`, an actor of
  // `reader_program`, on the same version, on any device.
  bool ordered(int program, int reg, int actor, int reader_program, int reader);

 private:
  struct Act {
    int node = 0;  // of the graph
    int step = 0;  // after the version's own
  };
  struct Use {
    Act start;
    std::vector<Act> ends;
  };
  struct Edge {
    int to = 0, tokens = 0;
  };

  // A unit's act by global index: 0 is the first act of step 0.
  Act act(int node, int64_t index) const;
  Use use(int device, int reg, int version) const;
  // The least number of steps by which `second` must be later to come after `first` in every order; `never`
  // if no number is enough.
  int behind(const Use& first, const Use& second);
  const std::vector<int>& tokens_from(int node);
  bool before(const Act& first, const Act& second);

  const ir::Plan& plan_;
  StepView view_;
  std::vector<int> first_act_;           // by unit
  std::vector<std::vector<Edge>> next_;  // by 2 x act, its start; the end follows it
  std::map<int, std::vector<int>> tokens_;
};

}  // namespace boxcar::planner
