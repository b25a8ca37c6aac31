// Output: results to stdout, the rest to stderr, files never half-written.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace boxcar::cli {

// Writes beside `path`, then puts the whole file there, on disk (backends/host/files.h); on failure nothing
// is left behind. Devices and pipes are written to directly. Throws Error (bad input) naming path and reason.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);
// Throws as write_file would, before the work whose result is to be written.
void check_writable(const std::string& path);
// Prints results on stdout. Throws Error (fault) if they cannot be written (a full disk).
void print(const std::string& text);
// Notes for the user beside the results, on stderr: "boxcar: <text>".
void tell(const std::string& text);
// While it lives, the same note is printed once, for work on many similar jobs. One at a time.
class TellOnce {
 public:
  TellOnce();
  ~TellOnce();
  TellOnce(const TellOnce&) = delete;
  TellOnce& operator=(const TellOnce&) = delete;

 private:
  friend void tell(const std::string& text);
  std::set<std::string> told_;
};
// By flag, in order: {{"JOB.yaml", "a.yaml"}, {"--trace", "t.json"}}. Throws Error (bad input), at the later
// flag, if two name one file.
void check_apart(const std::vector<std::pair<std::string, std::string>>& files);
std::string read_file(const std::string& path);
// Follows a message that a text is not what was expected: its kind, as far as its beginning tells.
std::string other_kind(std::string_view text);

// One line on stderr, overwritten by the next and cleared at the end. Steps are shown only on a terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  void step(const std::string& what);
  // The same for a part of long work. If stderr is no terminal, a line of its own now and then.
  void part(const std::string& what, std::chrono::seconds every = std::chrono::seconds(10));

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  Clock::time_point told_ = Clock::now();
  bool shown_, plain_;  // plain: NO_COLOR is set, so only a carriage return and spaces
  size_t width_ = 0;    // of the text shown
};

}  // namespace boxcar::cli
