#include "backends/cpu/meeting.h"

namespace boxcar::backends::cpu {

void Seat::post(std::span<const Slice> slices) {
  const int64_t next = turn() + 1;
  slices_[next & 1].assign(slices.begin(), slices.end());
  advance(posted_, next);
}

// A waiting thread counts itself as asleep before its last look, and the counter moves before sleepers are
// looked for: one of the two sees the other.
void Seat::advance(std::atomic<int64_t>& counter, int64_t turn) {
  counter.store(turn);
  if (asleep_.load() == 0) return;
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace boxcar::backends::cpu
