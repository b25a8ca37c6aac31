// Work on several cores by processes, for work that only one thread of a process may do at a time: SimGrid
// simulates one plan at a time.
//
//   const auto square = [](int64_t n) { return std::to_string(n * n); };
//   run_in_processes({{1, 2}, {3}}, {.here = 2}, square, [&](std::vector<Finished> finished) {
//     // {1, "1", ""}, {3, "9", ""}, ... in any order; false ends the work
//     return true;
//   });
//
// Numbers of one group go to one process, one after the other, unless another process is idle, so that it may
// keep what they have in common. Processes are children, or come from other machines (ranks.h). Each is a
// socket (line.h), and one that dies is a closed socket; its number goes once to another process. When this
// process dies, so do its children, and the others see a closed socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace boxcar::sweep {

struct Finished {
  int64_t number = 0;
  std::string text;   // what `work` returned
  std::string fault;  // why it did not: an exception's text, "ended by signal 11 (Segmentation fault)"
};

// The entrance for processes that this one has not started.
struct Door {
  int listener = -1;           // a socket that listens; -1: none come
  std::string password;        // each begins with an answer: the password, followed by its name
  std::set<std::string> came;  // so far
};

// Whether the text is a process's first answer; if so, notes it.
bool greet(Door& door, const std::string& text);

struct Processes {
  int here = 1;  // children at most
  Door* door = nullptr;
  // A number without an answer for this long, and for ten times as long as any other took, is also given to
  // another process: the first one may have stopped. The first answer counts.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // of a process that was lost
};

// Runs the point of a number, and returns its answer.
using NumberWork = std::function<std::string(int64_t)>;

// `work` runs in children, which are forked from here: no other thread may run. No two numbers are the same.
// `finished` is called here, with all that has come since the last call, and with nothing about every 0.2 s.
// Returns when all numbers are done or `finished` returns false; children are gone by then. Throws Error
// (fault) if no process can be started.
void run_in_processes(const std::vector<std::vector<int64_t>>& groups, const Processes& processes,
                      const NumberWork& work, const std::function<bool(std::vector<Finished>)>& finished);

// The next number for a process that has just done one of group `last` (-1: of none), and the numbers that
// are not done.
//
//   GroupQueue queue({{1, 2}, {3}});
//   queue.take(-1)   // group 0, number 1;  queue.take(-1): group 1, number 3
//   queue.lost(1)    // false: 1 is to be taken again
//   queue.take(1)    // group 0, number 1
//   queue.done(1)    // true;  queue.left(): 2
class GroupQueue {
 public:
  struct Taken {
    int64_t group = -1;  // -1: nothing is to be taken
    int64_t number = 0;
  };

  explicit GroupQueue(std::vector<std::vector<int64_t>> groups);
  // The next of `last`, else of the first group that nobody has begun, else of the group with the most left.
  Taken take(int64_t last);
  bool done(int64_t number);  // false: it was done before
  // Its holder will not answer. True: it was taken twice and lost each time, and is given up.
  bool lost(int64_t number);
  void late(int64_t number);             // another may take it too, once
  size_t left() const { return left_; }  // numbers neither done nor given up

 private:
  struct Out {
    size_t group = 0;
    int times = 0;    // that it was taken
    int holders = 0;  // that may still answer
  };
  bool waits(const Out& out, int64_t number) const;  // to be taken again

  std::vector<std::vector<int64_t>> groups_;  // in reverse
  std::map<int64_t, Out> out_;                // numbers that were taken and are not done
  size_t next_ = 0;                           // the first group that nobody has begun
  size_t left_ = 0;
};

}  // namespace boxcar::sweep
