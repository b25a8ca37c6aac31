// How the processes of a failed run end, and which one of them reports the reason for all.
//
//   Endings endings(4);
//   endings.ended(2, {true, Exit::fault, "device 2: out of luck"});   // the cause
//   endings.ended(0, {false, Exit::fault, "waits for ..."});          // was told of it
//   endings.is_speaker(0, 5);      // true: it has waited long enough for the rest
//   endings.agreed(0).what();      // "process 2: device 2: out of luck"
//
// Process 0 speaks or, if it has not ended, the first one that is a cause. The others wait for mpirun to end
// them, which it does when the speaker exits. From any thread.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sbp/error.h"

namespace boxcar::backends {

struct Ending {
  bool is_cause = false;  // false: it ends because another does
  Exit code = Exit::fault;
  std::string text;
};

class Endings {
 public:
  // Seconds that the speaker waits for others to end, and after which a process speaks whatever it knows.
  static constexpr double patience = 5, longest = 20;

  explicit Endings(int processes) : endings_(static_cast<size_t>(processes)) {}
  void ended(int process, Ending ending);
  // Another process speaks.
  void another_speaks();
  bool is_spoken() const;
  // Whether this process, which has ended, is to speak; `waited` seconds after its end. Once another has
  // spoken, only after `longest`, in which mpirun should have ended this one.
  bool is_speaker(int process, double waited) const;
  // The speaker's error: the first cause's text, with its process unless all say the same. Without a cause,
  // its own.
  Error agreed(int speaker) const;

 private:
  bool all_ended() const;
  int first_cause(int otherwise) const;

  mutable std::mutex mutex_;
  std::vector<std::optional<Ending>> endings_;
  bool is_spoken_ = false;
};

}  // namespace boxcar::backends
