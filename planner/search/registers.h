// The numbers of slots of least total weight (bytes) with which a plan keeps a period.
//
//   a (3 s) -> %x -> b (5 s), each once a step: edge a -> b, and one from b back to a with as many tokens as
//   %x has slots. Period 5: cycle a b takes 8 s, so 2 tokens: 2 slots. Period 8: 1 slot.
//
// The plan is a marked graph (planner/marked_graph.h): its period is the largest time / tokens of a cycle.
// More slots never make it slower. So if a cycle is too slow, one of the registers on it needs more. The
// search is best first. Each register starts with the slots that it would need if all others had any number.
// A cycle that is still too slow branches into its registers, one slot more for each. Cycles without a
// register in common bound the weight still to be added. The first counts without a slow cycle are the
// cheapest. The problem is hard in general, so the search may end earlier; then it gives counts that keep the
// period and a proved bound.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "planner/marked_graph.h"

namespace boxcar::search {

// A register and one of its readers. Version v of a step is free again after act release[v]. With `count`
// slots, the version written count - initial versions later, at act acquire[v + count - initial], waits for
// that; if the index is past the end, it is in the next step. Acts are nodes. Acquire acts always follow one
// another.
struct SlotUse {
  std::vector<int> acquire, release;  // of equal length, not empty
  int initial = 0;                    // slots that are readable before the first step
};

struct CountedRegister {
  double weight = 1;  // of a slot, above 0
  int least = 1;      // minimum count; at least the `initial` of its uses
  std::vector<SlotUse> uses;
};

struct CountProblem {
  planner::MarkedGraph graph;                      // without the edges from registers
  std::vector<planner::MarkedGraph::Edge> starts;  // they order starts, not ends: only tokens count
  std::vector<CountedRegister> registers;
};

// The period with these counts; infinity if the graph deadlocks.
double period_of(const CountProblem& problem, const std::vector<int>& counts);
// The period with any number of slots: no counts have a smaller one.
double least_period(const CountProblem& problem);

struct Counts {
  bool found = false;       // false: the period is below the least one
  std::vector<int> counts;  // by register
  double weight = 0;
  double lower = 0;  // no counts that keep the period weigh less
  bool optimal() const { return found && weight <= lower * (1 + 1e-9); }
};
// `most`: number of counts that may be examined. `look` is called before every search for a cycle; an
// exception from it ends the work. Errors: input (an invalid register, see above).
Counts least_counts(const CountProblem& problem, double period, int64_t most = 5000,
                    const std::function<void()>& look = {});

// The registers of a plan whose queues are all ordered, by a view of it with the issue order, and seconds by
// node of the view. Registers that are updated in place keep their count and are in `graph`. A slot weighs
// its bytes on all devices, at least 1e-6.
struct PlanCounts {
  CountProblem problem;
  std::vector<std::pair<int, int>> registers;  // program, register
};
PlanCounts counts_of_plan(const planner::StepView& view, const std::vector<double>& seconds);

}  // namespace boxcar::search
