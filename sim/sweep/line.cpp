#include "sim/sweep/line.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

#include "sbp/as_error.h"

namespace boxcar::sweep {
namespace {

// Before an answer's text. Machines of one sweep have the same byte order.
struct AnswerHeader {
  uint64_t size = 0;
  uint64_t fault = 0;
};

bool send_all(int socket, const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = send(socket, bytes, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n, size -= static_cast<size_t>(n);
  }
  return true;
}

bool receive_number(int socket, int64_t& number) {
  ssize_t n = 0;
  while ((n = recv(socket, &number, sizeof number, MSG_WAITALL)) < 0 && errno == EINTR) {
  }
  return n == sizeof number;
}

}  // namespace

bool send_number(int socket, int64_t number) { return send_all(socket, &number, sizeof number); }

bool send_answer(int socket, const Answer& answer) {
  const AnswerHeader header{answer.text.size(), answer.fault ? 1u : 0u};
  return send_all(socket, &header, sizeof header) && send_all(socket, answer.text.data(), answer.text.size());
}

void serve(int socket, const std::function<std::string(int64_t)>& work) {
  Answer answer;
  for (int64_t number = 0; receive_number(socket, number);) {
    try {
      answer = {work(number), false};
    } catch (const std::exception& e) {
      answer = {as_error(e).what(), true};
    }
    if (!send_answer(socket, answer)) return;
  }
}

bool Answers::read(int socket, uint64_t most) {
  std::array<char, 65536> part{};
  const ssize_t n = recv(socket, part.data(), part.size(), MSG_DONTWAIT);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  bytes_.append(part.data(), static_cast<size_t>(n));
  AnswerHeader header;
  if (bytes_.size() >= sizeof header) std::memcpy(&header, bytes_.data(), sizeof header);
  return n > 0 && header.size <= most;
}

std::optional<Answer> Answers::next() {
  AnswerHeader header;
  if (bytes_.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof header);
  if (bytes_.size() - sizeof header < header.size) return std::nullopt;
  Answer answer{bytes_.substr(sizeof header, header.size), header.fault != 0};
  bytes_.erase(0, sizeof header + header.size);
  return answer;
}

}  // namespace boxcar::sweep
