#include "actors/mailbox.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "sbp/at.h"

namespace boxcar::actors {
namespace {

TEST(Mailbox, KeepsWhatAMessageSays) {
  for (const MessageKind kind : {MessageKind::req, MessageKind::ack})
    for (const int actor : {0, 1, (1 << 24) - 1})
      for (const int port : {0, 7, (1 << port_bits) - 1})
        for (const int slot : {0, 5, (1 << slot_bits) - 1}) {
          const Message message{kind, port, slot};
          const uint64_t word = to_word(actor, message);
          EXPECT_NE(word, 0U);
          EXPECT_EQ(actor_in(word), actor);
          EXPECT_EQ(message_in(word), message);
        }
}

// Senders have as much credit as there is room; the receiver returns it. With and without spinning.
void pass(int spins) {
  constexpr int senders = 3, credit = 5, words = 400;
  Mailbox box(senders * credit, spins);
  std::array<std::atomic<int>, senders> taken{};
  std::vector<std::thread> running;
  for (int s = 0; s < senders; ++s)
    running.emplace_back([&, s] {
      for (int i = 1; i <= words; ++i) {
        while (i - at(taken, s).load() > credit) std::this_thread::yield();
        box.push(static_cast<uint64_t>(s) << 32 | static_cast<uint64_t>(i));
      }
    });
  for (int left = senders * words; left > 0;) {
    uint64_t word = 0;
    if (!box.pop(word)) {
      box.wait(std::chrono::hours(1));
      continue;
    }
    const auto sender = static_cast<size_t>(word >> 32);
    ASSERT_EQ(static_cast<int>(word & 0xffffffff), ++taken[sender]);  // in order
    --left;
  }
  for (std::thread& thread : running) thread.join();
  uint64_t word = 0;
  EXPECT_FALSE(box.pop(word));
}

TEST(Mailbox, KeepsTheOrderOfEverySender) {
  pass(0);
  pass(1000);
}

TEST(Mailbox, WakeEndsAWait) {
  Mailbox box(1, 0);
  std::atomic<bool> woken{false};
  std::thread waits([&] {
    box.wait(std::chrono::hours(1));
    woken = true;
  });
  while (!woken) {
    box.wake();
    std::this_thread::yield();
  }
  waits.join();
}

}  // namespace
}  // namespace boxcar::actors
