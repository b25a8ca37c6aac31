// The turns in which a process's communication is put on its device where steps are recorded: all processes
// keep to one order (planner/communication_order.h), each to its own part. Queues' threads and links wait for
// their turns here.
//
//   Turns turns(state);
//   {
//     const Turns::Turn turn(turns, device, actor);      // of a pull, the puller's; waits
//     ... launch it ...
//   }                                                    // the next one's turn
//
// From any thread. A turn comes each time the actor acts, in each recorded step. Without an order, or while
// nothing is recorded, nobody waits.
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
    // Throws Stopped where the run has failed.
    Turn(Turns& turns, int device, int actor);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns* const turns_;  // null: nobody waits
  };

 private:
  const RunState& state_;
  std::vector<std::pair<int, int>> order_;  // this process's part of a step
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0;
};

}  // namespace boxcar::actors
