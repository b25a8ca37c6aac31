// The turns in which a process's communication is put on its device when steps are recorded. All processes
// follow one order (planner/communication_order.h), each its own part. Queues' threads and links wait here
// for their turns.
//
//   Turns turns(state);
//   {
//     const Turns::Turn turn(turns, device, actor);      // waits; of a pull: the puller's
//     ... launch it ...
//   }                                                    // now it is the next one's turn
//
// Turns may be taken from any thread. A turn comes each time the actor acts, in each recorded step. Without
// an order, or while nothing is recorded, there is no wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "actors/run_state.h"

namespace boxcar::actors {

class Turns {
 public:
  explicit Turns(const RunState& state);

  class Turn {
   public:
    // Throws Stopped if the run has failed.
    Turn(Turns& turns, int device, int actor);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns* const turns_;  // null: no wait
  };

 private:
  const RunState& state_;
  std::vector<std::pair<int, int>> order_;  // this process's part of a step
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0;
};

}  // namespace boxcar::actors
