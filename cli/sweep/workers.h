// Work on several cores by processes, for work that only one thread of a process may do at a time: SimGrid
// simulates one plan at a time.
//
//   const auto square = [](int64_t n) { return std::to_string(n * n); };
//   run_in_processes({{1, 2}, {3}}, 2, square, [&](std::vector<Finished> finished) {
//     // {1, "1", ""}, {3, "9", ""}, ... in any order; false ends the work
//     return true;
//   });
//
// Numbers of one group go to one process as far as no other one idles, one after the other, so that it may
// keep what they have in common. A process that dies loses the number that it was at, and another one takes
// its place. When this process dies, the others do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace boxcar::cli {

struct Finished {
  int64_t number = 0;
  std::string text;   // what `work` returned
  std::string fault;  // why it did not: an exception's text, "ended by signal 11 (Segmentation fault)"
};

// `work` runs in at most `processes` children, which are forked from here: no other thread may run.
// `finished` is called here, with all that has come since the last call, and with nothing every 0.2 s or so.
// Returns when all numbers are done or `finished` returns false; children are gone by then. Throws Error
// (fault) where no process can be started.
void run_in_processes(const std::vector<std::vector<int64_t>>& groups, int processes,
                      const std::function<std::string(int64_t)>& work,
                      const std::function<bool(std::vector<Finished>)>& finished);

// Which number comes next for a process that has just done one of group `last` (-1: of none).
//
//   GroupQueue queue({{1, 2}, {3}});
//   queue.take(-1)   // group 0, number 1;  queue.take(-1): group 1, number 3;  queue.take(0): group 0,
//   number 2
class GroupQueue {
 public:
  struct Taken {
    int64_t group = -1;  // -1: nothing is left
    int64_t number = 0;
  };

  explicit GroupQueue(std::vector<std::vector<int64_t>> groups);
  // The next of `last`; else the first group that nobody has begun; else of the group with the most left.
  Taken take(int64_t last);

 private:
  std::vector<std::vector<int64_t>> groups_;  // in reverse
  size_t next_ = 0;                           // the first group that nobody has begun
};

}  // namespace boxcar::cli
