// The meeting place of a group's members in one process. Each member has a seat, on which it posts the slices
// that it gives and says when it has read the others' slices.
//
//   turn 1 of member 0: seat 0: post({a, b}) ... read seat 1's slices ... say done
//   turn 1 of member 1: seat 1: post({c, d}) ... read seat 0's slices ... say done
//
// A seat keeps the slices of two turns; its owner posts a third only when the readers of the first are done.
// A seat is written by its owner alone and read by all.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cpu/waits.h"
#include "sbp/at.h"

namespace boxcar::backends::cpu {

// Bytes that one member gives to another.
struct Slice {
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

class alignas(64) Seat {
 public:
  // For the owner. Turns count from 1; posted slices stay until the next turn but one.
  int64_t turn() const { return posted_.load(std::memory_order_relaxed); }
  void post(std::span<const Slice> slices);
  void say_done() { advance(done_, turn()); }

  // For the others: wait until this seat's owner has posted for `turn`, or has said that it is done with it.
  template <typename Whom>
  void wait_posted(int64_t turn, Waits& waits, Whom whom) {
    wait(posted_, turn, waits, whom);
  }
  template <typename Whom>
  void wait_done(int64_t turn, Waits& waits, Whom whom) {
    wait(done_, turn, waits, whom);
  }
  Slice slice(int64_t turn, int rank) const { return at(slices_[turn & 1], rank); }

 private:
  static constexpr int spins = 200;

  void advance(std::atomic<int64_t>& counter, int64_t turn);

  template <typename Whom>
  void wait(const std::atomic<int64_t>& counter, int64_t turn, Waits& waits, Whom whom) {
    for (int i = 0; i < spins; ++i) {
      if (counter.load(std::memory_order_acquire) >= turn) return;
      pause();
    }
    std::unique_lock lock(mutex_);
    asleep_.fetch_add(1);
    struct Awake {
      std::atomic<int>& asleep;
      ~Awake() { asleep.fetch_sub(1); }
    } awake{asleep_};
    waits.until(
        lock, changed_, [&] { return counter.load() >= turn; }, whom);
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::atomic<int64_t> posted_{0}, done_{0};
  std::atomic<int> asleep_{0};
  std::vector<Slice> slices_[2];
  std::mutex mutex_;
  std::condition_variable changed_;
};

// A group as one process has it. Seats by rank; those of members elsewhere stay empty.
struct Meeting {
  explicit Meeting(std::span<const int> group) : devices(group.begin(), group.end()), seats(group.size()) {}
  const std::vector<int> devices;
  std::vector<Seat> seats;
};

}  // namespace boxcar::backends::cpu
