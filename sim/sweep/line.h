// The line between a process that hands out numbers and one that works on them: a stream socket, to a child
// or to another machine. Numbers go one way, an answer to each comes back; closing it ends the work.
//
//   serve(socket, [](int64_t n) { return std::to_string(n * n); });    // in the worker
//
//   send_number(socket, 3);
//   Answers answers;
//   answers.read(socket);   // whenever poll says so
//   answers.next()          // {"9", false}
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace boxcar::sweep {

struct Answer {
  std::string text;
  bool fault = false;  // text is an exception's
};

// Both return false if the other end is gone. Neither raises SIGPIPE.
bool send_number(int socket, int64_t number);
bool send_answer(int socket, const Answer& answer);

// Answers each number that comes, until the other end is gone. An exception of `work` is an answer.
void serve(int socket, const std::function<std::string(int64_t)>& work);

// A worker's answers, as far as they have arrived.
class Answers {
 public:
  // Reads the available bytes, without waiting. False: the other end is gone, or sends an answer of more than
  // `most` bytes.
  bool read(int socket, uint64_t most = uint64_t{1} << 32);
  std::optional<Answer> next();  // the first whole one

 private:
  std::string bytes_;
};

}  // namespace boxcar::sweep
