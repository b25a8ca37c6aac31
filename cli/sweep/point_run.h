// One point of a sweep: its identity, and its run.
//
//   PointRunner runner(sweep);
//   runner.identity(sweep.at(1));   // {"6b1f...", ""}: 32 hexadecimal digits; not refused
//   const sweep::RunRow row = runner.run(sweep.at(1));
//   row.cells["step_time_s"]        // 30.14
//   row.cells["status"]             // "simulated"
//
// A run does what `boxcar simulate --what-if` or `boxcar search --what-if` would. A plan depends on no
// constant of the cluster but its memory, so the last compiled plan is kept for the next point that differs
// only in constants. One thread at a time, and one runner that simulates in a process (sim/simulate.h).
#pragma once

#include <memory>
#include <string>

#include "cli/sweep/points.h"
#include "sim/sweep/columns.h"

namespace boxcar::cli {

struct Identity {
  // Digest of the resolved configuration, the description of the cluster and its changes or, if a point is
  // refused, of the keys as given: 128 bits as hexadecimal digits.
  std::string key;
  std::string refused;  // why the job's checks refuse it; empty: they do not
};

// Whether the points of a sweep are searched, and which framework has to be able to run them (empty: any).
struct PointWay {
  bool search = false;
  std::string max_stack;
};

class PointRunner {
 public:
  explicit PointRunner(const Sweep& sweep);  // whose points are run: whether they are searched, and how
  ~PointRunner();
  PointRunner(const PointRunner&) = delete;
  PointRunner& operator=(const PointRunner&) = delete;

  // Both throw only Error (fault) and the system's exceptions: a job that cannot run is a row that says why.
  Identity identity(const SweepPoint& point);
  sweep::RunRow run(const SweepPoint& point);
  int compiled() const;  // plans so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace boxcar::cli
