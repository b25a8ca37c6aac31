// Messages from other threads to one thread: a ring with many producers and one consumer. It is never full,
// because credits bound the number of messages in flight and the ring holds that many.
//
//   Mailbox box(64, 100);
//   box.push(word);                  // any thread; not 0
//   box.wait(50ms);                  // the owner: spins, then sleeps until there is a word or time is up
//   while (box.pop(word)) ...        // the owner: the oldest one
//
// Messages of one thread are popped in the order in which it pushed them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "actors/actor.h"

namespace boxcar::actors {

class Mailbox {
 public:
  // Holds at least `capacity` words. Looks `spins` times for one before it sleeps.
  Mailbox(int64_t capacity, int spins);

  void push(uint64_t word) {
    const uint64_t at = tail_.fetch_add(1, std::memory_order_seq_cst);
    cells_[at & mask_].store(word, std::memory_order_release);
    if (asleep_.load(std::memory_order_seq_cst)) wake();
  }
  bool pop(uint64_t& word) {
    std::atomic<uint64_t>& cell = cells_[head_ & mask_];
    word = cell.load(std::memory_order_acquire);
    if (word == 0) return false;
    cell.store(0, std::memory_order_relaxed);
    ++head_;
    return true;
  }
  // Waits until pop() would find a word, wake() is called or `most` is over.
  void wait(std::chrono::milliseconds most);
  void wake();

 private:
  bool empty() const { return cells_[head_ & mask_].load(std::memory_order_acquire) == 0; }

  std::vector<std::atomic<uint64_t>> cells_;  // 0: empty
  uint64_t mask_ = 0;
  int spins_ = 0;
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
  alignas(64) std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable woken_;
};

// A message to an actor, by its number in its thread's table, as one word that is never 0.
inline constexpr int port_bits = 18, slot_bits = 20;
inline uint64_t to_word(int actor, const Message& message) {
  return uint64_t{1} | static_cast<uint64_t>(message.kind == MessageKind::ack) << 1 |
         static_cast<uint64_t>(message.slot) << 2 | static_cast<uint64_t>(message.port) << (2 + slot_bits) |
         static_cast<uint64_t>(actor) << (2 + slot_bits + port_bits);
}
inline int actor_in(uint64_t word) { return static_cast<int>(word >> (2 + slot_bits + port_bits)); }
inline Message message_in(uint64_t word) {
  const auto field = [&](int shift, int bits) {
    return static_cast<int>(word >> shift & ((uint64_t{1} << bits) - 1));
  };
  return {(word & 2) != 0 ? MessageKind::ack : MessageKind::req, field(2 + slot_bits, port_bits),
          field(2, slot_bits)};
}

}  // namespace boxcar::actors
