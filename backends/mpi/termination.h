// Last message: on SIGTERM, prints what a process waits for, unless empty, and ends it with exit code 3.
//
//   Termination termination([&] { return "process 3: ..."; });
//
// Blocks SIGTERM in the calling thread, and so in those that it starts from here on, for as long as it lives;
// a thread of its own takes the signal.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace boxcar::backends {

class Termination {
 public:
  explicit Termination(std::function<std::string()> words);
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

 private:
  void watch();

  std::function<std::string()> words_;
  sigset_t signals_, before_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace boxcar::backends
