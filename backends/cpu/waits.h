// Waits of a process's threads for each other and for other processes. All of them end at once when the run
// fails.
//
//   Waits waits(transport);                     // or null
//   waits.until(lock, changed, [&] { return !queue.empty(); }, [] { return "process 1"; });
//   waits.abort("device 3: out of range");      // every until(), now and from here on, throws that
//
// From any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "backends/transport.h"

namespace boxcar::backends::cpu {

class Waits {
 public:
  explicit Waits(Transport* transport) : transport_(transport) {}

  // The first reason counts. Other processes are told, unless the transport has failed already.
  void abort(const std::string& why);

  // Throws Error (fault) "waits for WHOM: REASON" if there is a reason to give up.
  void check(const std::string& whom);
  // The same for a wait that may depend, directly or not, on other processes. If one of them is the reason,
  // the text is "waits for WHOM: REASON; " and who waits for what.
  void check_with_others(const std::string& whom);

  // Returns when ready(), called under the lock, is true. Checks now and then for a reason to give up, and
  // then throws Error (fault) "waits for WHOM: REASON".
  template <typename Ready, typename Whom>
  void until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Ready ready, Whom whom) {
    if (changed.wait_for(lock, patience, ready)) return;
    std::optional<Waiting::Entry> entry;
    if (transport_) entry.emplace(transport_->waiting(), whom());
    do {
      lock.unlock();
      check(whom());
      lock.lock();
    } while (!changed.wait_for(lock, patience, ready));
  }

 private:
  static constexpr std::chrono::milliseconds patience{50};

  void check(const std::string& whom, bool others);

  Transport* transport_;
  std::mutex mutex_;
  std::string why_;  // empty: none yet
};

}  // namespace boxcar::backends::cpu
