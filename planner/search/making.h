// A candidate's plan, made on a separate thread while others are simulated.
//
//   Making making(candidate, asked, graphs);
//   ...
//   Made made = making.take(look);
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>

#include "planner/search/candidate.h"

namespace boxcar::search {

struct Stopped {};  // thrown in the middle of a candidate

struct Made {
  Candidate candidate;      // resolved, with its peak and the layouts that were found
  ir::Plan plan;            // verified; empty if too_slow
  bool too_slow = false;    // the layouts take too long
  double deaf_seconds = 0;  // the longest time between two looks, so the longest time to end it
};

class Making {
 public:
  // Begins. The layout of every op is chosen by `asked` if the candidate or its model requires it, or if the
  // degrees' layouts may have partial values that are switched off, or break a pin. If the layouts that are
  // found take more than `most_seconds` by themselves, no plan is made. `graphs` has to outlive it.
  Making(Candidate candidate, LayoutRequest asked, Graphs& graphs, double most_seconds = infinity);
  ~Making() { stop(); }  // and waits
  Making(Making&&) = default;

  // Waits, and calls `look` every few ms. An exception from `look` ends the work. Throws Error (bad input) if
  // no plan can be made. May be called once.
  Made take(const std::function<void()>& look);

  const Move* move() const { return move_; }  // the move that proposed the candidate

  // Ends the work at its next look.
  void stop() {
    if (stop_) *stop_ = true;
  }

 private:
  const Move* move_;
  std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
  std::future<Made> made_;
};

}  // namespace boxcar::search
