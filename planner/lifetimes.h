// The times at which each register of a program holds something, as proved by the program's own order.
//
// Time is counted on the *main* queue, the one that computes: its act at place p (run of the schedule, then
// actor) covers [2p, 2p + 1). A version lives from the start of its producer's first act to the end of its
// readers' last act. An act of another queue has no place: it starts after the last main act that it waits
// for, and has ended before the first main act that waits for it.
//
//   compute: a (place 0) -> %x -> all_reduce on net -> %y -> b (place 1)
//   %x lives [0, 2): b starts when all_reduce has ended;  %y lives [1, 3): all_reduce starts when a has ended
//
// A version lives always if nothing on the main queue bounds it, if other devices pull it, or if its register
// has initial slots.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::planner {

// Half open. The end may lie in the next step.
struct Life {
  int64_t begin = 0, end = 0;
  friend auto operator<=>(const Life&, const Life&) = default;
};

class Lifetimes {
 public:
  Lifetimes(const ir::Plan& plan, int program);

  int64_t step() const { return step_; }          // the length of one step in these units
  int main_queue() const { return main_queue_; }  // -1: no queue is ordered, so all live always
  // A life that is the same inside each run of one phase, counted from the run's start. Phase -1: there is
  // none, or the register has no bytes on the device.
  struct InRun {
    int phase = -1;
    Life life;
  };
  const InRun& in_run(int reg) const { return at(in_run_, reg); }
  // One life per version of a step, ordered by begin; nullopt if the register lives always.
  std::optional<std::vector<Life>> lives(int reg) const;
  // Whether the two are never alive at the same time.
  bool apart(int reg, int other) const;
  // The start of a run of the schedule.
  int64_t run_begin(size_t run) const { return static_cast<int64_t>(run) * 2 * width_; }

 private:
  struct Reader {
    int actor = 0, repeat = 1;
  };
  bool main(int actor) const { return at(program_.actors, actor).queue == main_queue_; }
  int acts(int actor) const {
    return static_cast<int>(at(phase_runs_, at(program_.actors, actor).phase).size());
  }
  int64_t place(int actor, int64_t act) const;  // act may lie in another step
  std::optional<int64_t> start(int actor, int64_t act, int depth) const;
  std::optional<int64_t> finish(int actor, int64_t act, int depth) const;
  bool too_far(int depth) const;
  std::optional<Life> life(int reg, int64_t version) const;
  bool always(int reg) const;
  InRun find_in_run(int reg) const;

  const ir::Program& program_;
  int main_queue_ = -1;
  int64_t width_ = 1;  // actors: places of one run
  int64_t step_ = 0;
  std::vector<std::vector<int>> phase_runs_;  // by phase: the runs of the schedule
  std::vector<std::vector<Reader>> readers_;  // by register
  std::vector<bool> pulled_;                  // by register: other devices read it
  std::vector<InRun> in_run_;
  mutable int looks_ = 0;  // number of acts of other queues looked at, for the life being computed
};

}  // namespace boxcar::planner
