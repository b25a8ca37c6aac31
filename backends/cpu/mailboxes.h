// Slices from members in other processes, kept until the member that they are for takes them.
//
// A message has a group's name, the sender's rank, the receivers' ranks in one process, and the bytes, which
// receivers share:
//
//   transport.send(1, Channel::control, to_message("dp.0", 0, {2, 3}, bytes));
//   mailboxes.put(message);                                        // there, by the progress thread
//   mailboxes.box("dp.0", 0, 2).take(waits, whom)                  // there, by the member of rank 2
//
// Messages from one member to another come out in the order in which they were sent, even if they arrive
// before the group is made here.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cpu/waits.h"

namespace boxcar::backends::cpu {

using Bytes = std::shared_ptr<const std::vector<std::byte>>;

std::vector<std::byte> to_message(const std::string& group, int from, std::span<const int> to,
                                  std::span<const std::byte> bytes);

class Mailbox {
 public:
  void put(Bytes bytes);
  // Waits for the next slice.
  template <typename Whom>
  Bytes take(Waits& waits, Whom whom) {
    std::unique_lock lock(mutex_);
    waits.until(
        lock, changed_, [this] { return !bytes_.empty(); }, whom);
    Bytes first = std::move(bytes_.front());
    bytes_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Bytes> bytes_;
};

class Mailboxes {
 public:
  // Throws Error (fault) if the bytes are not a message.
  void put(std::span<const std::byte> message);
  // Lives as long as this.
  Mailbox& box(const std::string& group, int from, int to);

 private:
  std::mutex mutex_;
  std::map<std::tuple<std::string, int, int>, std::unique_ptr<Mailbox>> boxes_;
};

}  // namespace boxcar::backends::cpu
