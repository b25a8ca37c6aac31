// Other processes as one process knows them: when each was heard from last, which failed, which are done.
//
//   Peers peers(0, 3, 15);             // process 0 of 3; 15 s of silence are too long
//   peers.heard(1);                    // at the time of the last tick
//   peers.tick(16.5);                  // seconds since the start; by the progress thread, now and then
//   peers.check();                     // process 2 has not been heard from for 16 s
//
// From any thread. Time in which this process itself did not tick (stopped or starved) does not count as
// others' silence.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace boxcar::backends {

class Peers {
 public:
  // Seconds between two ticks; in a longer gap, this process has slept.
  static constexpr double nap = 2;

  Peers(int process, int processes, double silence);
  void tick(double now);
  void heard(int process);
  // A process, perhaps this one, gives up; the first one counts.
  void failed(int process, const std::string& why);
  // A process needs nothing more: its silence is expected.
  void done(int process);
  bool all_done() const;
  bool any_failed() const;
  // Whether another process was the first to fail.
  bool another_failed() const;
  // Throws Error (fault): "process 1 failed: WHY", "process 2 has not been heard from for 15 s", or this
  // process's own WHY.
  void check() const;

 private:
  struct Peer {
    double heard = 0;
    bool done = false;
  };
  const int process_;
  const double silence_;
  mutable std::mutex mutex_;
  double now_ = 0;
  std::vector<Peer> peers_;
  std::string failure_;
  int failed_ = -1;  // whose failure that is
};

}  // namespace boxcar::backends
