// Measurements of every unit in a run: time by queue and step, waits for transfers, bytes held in registers.
//
//   compute acts of step 0 at [0, 2] and [3, 4] s, the wait between them for a pull that ran [1.5, 3]:
//   busy 3, span 4, exposed 1
#pragma once

#include <cstdint>
#include <vector>

#include "sim/ticks.h"
#include "sim/wiring.h"

namespace boxcar::sim {

struct StepMeter {
  Ticks first = -1, last = 0;  // compute queue: first act's start, last act's end
  Ticks exposed = 0;           // compute queue idle while its next act waits for a transfer
  std::vector<Ticks> busy;     // by queue of the unit
};

class Meter {
 public:
  explicit Meter(const Wiring& wiring);

  // An act of `actor` in `step` took [start, end] on its queue.
  void act(int actor, int step, Ticks start, Ticks end);
  // The compute queue of `unit` waited `wait` for a transfer before an act of `step`.
  void exposed(int unit, int step, Ticks wait) { of(unit, step).exposed += wait; }

  // Bytes of slots taken (positive) or given back at `when`, not before the time up to which changes are
  // applied. The level after all changes of an instant counts.
  void change(int unit, int64_t bytes, Ticks when);
  // Applies changes before `before`; none before it may come later.
  void apply_changes(int unit, Ticks before);
  int64_t level(int unit) const;  // now
  int64_t peak(int unit) const;   // of applied changes

  // All that decides later peaks, and the end of each unit's last compute act in `step`: times relative to
  // `now`.
  std::vector<Ticks> relative(int step, Ticks now) const;

  const StepMeter& step(int unit, int step) { return of(unit, step); }

  // Times of all units from step `step` on, flat. repeat() takes those of an earlier moment `since` as
  // `before`: everything in between comes `times` more, each time `period` later.
  std::vector<Ticks> totals(int step) const;
  void repeat(int step, Ticks since, const std::vector<Ticks>& before, int64_t times, Ticks period);
  // Adds to `step` all that the step before still added after its totals were `before`, `shift` earlier. Both
  // were in the same state then: totals(step - 1) gave `before`, and relative() was what it is now.
  void end_step_like_last(int step, const std::vector<Ticks>& before, Ticks shift);

 private:
  struct Change {
    Ticks when = 0;
    int64_t bytes = 0;
  };
  struct Held {
    int64_t level = 0, peak = 0;  // of applied changes
    std::vector<Change> pending;  // in order of time
  };
  StepMeter& of(int unit, int step);

  const Wiring& wiring_;
  std::vector<std::vector<StepMeter>> steps_;  // by step, unit
  std::vector<Held> held_;
};

}  // namespace boxcar::sim
