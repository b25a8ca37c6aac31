#include "backends/cpu/mailboxes.h"

#include <cstdint>
#include <cstring>

#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

// Followed by the receivers' ranks, the group's name and the bytes.
struct Head {
  int32_t from = 0, receivers = 0, name = 0;  // the name's length
};

size_t size(int32_t n) { return static_cast<size_t>(n); }

}  // namespace

std::vector<std::byte> to_message(const std::string& group, int from, std::span<const int> to,
                                  std::span<const std::byte> bytes) {
  const Head head{from, static_cast<int32_t>(to.size()), static_cast<int32_t>(group.size())};
  std::vector<std::byte> message;
  message.reserve(sizeof head + to.size_bytes() + group.size() + bytes.size());
  const auto append = [&](std::span<const std::byte> more) {
    message.insert(message.end(), more.begin(), more.end());
  };
  append(std::as_bytes(std::span(&head, 1)));
  append(std::as_bytes(to));
  append(std::as_bytes(std::span(group)));
  append(bytes);
  return message;
}

void Mailbox::put(Bytes bytes) {
  std::lock_guard lock(mutex_);
  bytes_.push_back(std::move(bytes));
  changed_.notify_one();
}

void Mailboxes::put(std::span<const std::byte> message) {
  Head head;
  const auto read = [&](void* to, size_t bytes) {
    if (bytes > message.size()) throw Error::fault("", "a message between groups is cut short");
    if (bytes > 0) std::memcpy(to, message.data(), bytes);
    message = message.subspan(bytes);
  };
  read(&head, sizeof head);
  std::vector<int> to(size(head.receivers));
  read(to.data(), to.size() * sizeof(int));
  std::string group(size(head.name), ' ');
  read(group.data(), group.size());
  const auto bytes = std::make_shared<const std::vector<std::byte>>(message.begin(), message.end());
  for (int rank : to) box(group, head.from, rank).put(bytes);
}

Mailbox& Mailboxes::box(const std::string& group, int from, int to) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Mailbox>& box = boxes_[{group, from, to}];
  if (!box) box = std::make_unique<Mailbox>();
  return *box;
}

}  // namespace boxcar::backends::cpu
