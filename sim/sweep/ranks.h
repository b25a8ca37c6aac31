// A sweep in processes that a launcher started together, on one machine or many: mpirun, Slurm's srun. The
// first one, rank 0, hands out points and writes the file of runs; the others join it.
//
//   const Launch launch = started_together();          // {3, 64, "..."}: rank 3 of 64
//
//   Meeting meeting("runs.db", launch, program, text); // rank 0: listens, and writes runs.db.ranks
//   run_in_processes(groups, {.here = 1, .door = meeting.door()}, work, finished);
//
//   // The others, until rank 0 ends:
//   join("runs.db", launch, program, {.workers = 1, .worker_of = worker_of});
//
// The launcher starts processes and does nothing else: no message is MPI's, since MPI ends all processes when
// one dies. runs.db.ranks says where rank 0 listens, so all machines must share the folder. Each rank runs
// points in a child that is connected to rank 0 by TCP. A child that dies, by a fault or for lack of memory,
// is replaced. A rank that dies takes its children along, and rank 0 sees closed connections, also for a
// machine that is silent for `silence_s`.
#pragma once

#include <functional>
#include <string>

#include "sim/sweep/program.h"
#include "sim/sweep/workers.h"

namespace boxcar::sweep {

struct Launch {
  int rank = 0;
  int size = 1;
  std::string id = {};  // the same in all ranks of a launch, and in no other launch
};

// From the variables that Open MPI, Slurm, MPICH and Intel MPI (by PMI) set. {0, 1}: no launcher set any.
Launch started_together();

inline constexpr int silence_s = 45;

class Meeting {
 public:
  // `sweep` is the text of the sweep, which the others take from here. Throws Error (fault) if there is no
  // socket, Error (bad input) if the file cannot be written.
  Meeting(const std::string& runs, const Launch& launch, const Program& program, const std::string& sweep);
  // Removes the file, after at most ten seconds in which the others may find it: they would look for longer.
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  Door& door() { return door_; }
  // Ranks that have not come by now are not waited for: the sweep was interrupted.
  void expect_no_more();

 private:
  void wait_for_others();

  std::string path_;
  size_t others_;
  Door door_;
};

// What a rank that joins does.
struct Part {
  int workers = 1;  // children at a time
  // Makes the work from the text of the sweep, when rank 0 has given the first number.
  std::function<NumberWork(const std::string& sweep)> worker_of;
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // of a child that was lost
};

// Answers rank 0, until it ends. Throws Error (cannot run) if rank 0 is not found within two minutes, or is
// of another version; Error (fault) if no process can be started; and as worker_of does.
void join(const std::string& runs, const Launch& launch, const Program& program, const Part& part);

}  // namespace boxcar::sweep
