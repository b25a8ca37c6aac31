// Weeks of a run whose failed nodes are away until they are repaired, with failures drawn at random.
//
//   Fleet fleet;
//   fleet.run = run;                          // of campaign.h: steps of 6 s, one failure in 3 h on all nodes
//   fleet.nodes = 128, fleet.spares = 2;      // nodes that the plan takes; nodes that stand by
//   fleet.repair_seconds = 12 * 3600;         // until a failed node is there again
//   fleet.step_seconds_on = {{126, 6.2}, {112, 6.9}};  // plans for fewer nodes
//   const Weeks weeks = drawn_weeks(fleet, best_interval(run));
//   weeks.goodput                             // 0.83
//
// A failure stops the run and takes one of its nodes away. The run continues from the last whole checkpoint,
// restart_seconds later: with a spare if there is one, otherwise with the fastest plan for the nodes that are
// left, otherwise when a node has come back. If a node comes back and a faster plan has its nodes again, the
// run restarts with it at the end of the next checkpoint, and loses only restart_seconds. Spares do not fail.
// Times between failures are exponentially distributed; on fewer nodes they are longer in proportion.
//
// If checkpoints are written while steps run (`beside`), the next steps begin at once, and a state counts
// when it has been written. Two are never written at the same time: steps wait.
//
// With instant repairs and checkpoints for which the run waits, this is the process whose mean campaign.h has
// by Daly's formula. tests/sim/weeks_test.cpp compares the two.
#pragma once

#include <cstdint>
#include <map>

#include "sim/campaign/campaign.h"

namespace boxcar::campaign {

struct Fleet {
  Campaign run;                                // mtbf_seconds is that of `nodes` nodes, and finite
  int nodes = 1;                               // nodes that the run's plan takes, at least 1
  int spares = 0;                              // beside them
  double repair_seconds = 0;                   // s from a node's failure until it may be used again
  bool beside = false;                         // checkpoints are written while the run goes on
  std::map<int, double> step_seconds_on = {};  // s of a step of the same samples, by fewer nodes than `nodes`
};

// Means over weeks, in the long run.
struct Weeks {
  double goodput = 0;        // steps that are kept, in s of the whole plan's steps, over all time
  double low = 0, high = 0;  // of 9 in 10 weeks
  double waiting = 0;        // share of the time with too few nodes
  double on_fewer = 0;       // share of the time on fewer nodes than the plan takes
  double restarting = 0;     // share of the time from a failure, or a change of the plan, to the next step
  double failures = 0;       // a week
};

// With a checkpoint after every `interval` steps, at least 1. The same for the same seed.
Weeks drawn_weeks(const Fleet& fleet, int64_t interval, int weeks = 1000, uint64_t seed = 1);

// Steps between checkpoints: best_interval() or, with `beside`, the fewest for which no step has to wait.
int64_t interval_of(const Fleet& fleet);

// The most nodes that are away at once in all but 1 of 1000 moments, if the run never stands still.
int most_away(const Fleet& fleet);

}  // namespace boxcar::campaign
