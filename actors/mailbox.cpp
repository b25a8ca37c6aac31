#include "actors/mailbox.h"

#include <bit>
#include <thread>

namespace boxcar::actors {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Mailbox::Mailbox(int64_t capacity, int spins)
    : cells_(std::bit_ceil(static_cast<uint64_t>(capacity) + 1)), mask_(cells_.size() - 1), spins_(spins) {}

void Mailbox::wait(std::chrono::milliseconds most) {
  for (int i = 0; i < spins_; ++i) {
    if (!empty()) return;
    pause();
  }
  std::unique_lock lock(mutex_);
  asleep_.store(true, std::memory_order_seq_cst);
  // A sender that takes its place after this sees that the owner sleeps, and waits for the lock.
  if (tail_.load(std::memory_order_seq_cst) == head_) woken_.wait_for(lock, most);
  asleep_.store(false, std::memory_order_relaxed);
  lock.unlock();
  // One that took its place before still has to store the word.
  while (tail_.load(std::memory_order_relaxed) != head_ && empty()) std::this_thread::yield();
}

void Mailbox::wake() {
  const std::lock_guard lock(mutex_);
  woken_.notify_one();
}

}  // namespace boxcar::actors
