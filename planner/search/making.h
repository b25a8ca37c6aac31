// A candidate's plan, made on a thread of its own while others are simulated.
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

struct Stopped {};  // in the middle of a candidate

struct Made {
  Candidate candidate;      // resolved, with its peak and the layouts that were found
  ir::Plan plan;            // verified
  double deaf_seconds = 0;  // the longest between two looks, so the longest to end it
};

class Making {
 public:
  // Begins. The layout of every op is chosen, as `asked`, where the candidate or its model asks for it, or
  // where the degrees' layouts may have partial values that are switched off, or break a pin. `graphs` has to
  // outlive it.
  Making(Candidate candidate, LayoutRequest asked, Graphs& graphs);
  ~Making() { stop(); }  // and waits
  Making(Making&&) = default;

  // Waits, and calls `look` every few ms; what it throws ends the work. Throws Error (bad input) where no
  // plan can be made. Once.
  Made take(const std::function<void()>& look);

  const Move* move() const { return move_; }  // that proposed the candidate

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
