#include "apart.h"

#include <fmt/format.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>

namespace boxcar::tests {
namespace {

constexpr size_t most_text = 4000;
// A waiting check uses no processor time, so the wall clock ends it. Other work on the machine may slow a
// check by this factor.
constexpr int clock_per_processor_second = 10;

std::string failures(const ::testing::TestPartResultArray& results) {
  std::string text;
  for (int i = 0; i < results.size(); ++i)
    if (const auto& part = results.GetTestPartResult(i); part.failed())
      text += fmt::format("{}{}", text.empty() ? "" : "\n", part.message());
  return text;
}

std::string run(const std::function<void()>& check) {
  ::testing::TestPartResultArray results;
  const ::testing::ScopedFakeTestPartResultReporter reporter(
      ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
  try {
    check();
  } catch (const std::exception& error) {
    return fmt::format("threw {}\n{}", error.what(), failures(results));
  }
  return failures(results);
}

[[noreturn]] void report(int pipe, std::string text) {
  text.resize(std::min(text.size(), most_text));
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = write(pipe, text.data() + sent, text.size() - sent);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  close(pipe);
  _exit(0);  // skips destructors of objects that the parent has too
}

// Reads until the other end is closed; false where that takes too long.
bool read_all(int pipe, int seconds, std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd ready{pipe, POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return false;
    char buffer[4096];
    const ssize_t n = read(pipe, buffer, sizeof buffer);
    if (n <= 0) return true;
    text.append(buffer, static_cast<size_t>(n));
  }
}

}  // namespace

std::string failure_of(const std::function<void()>& check, int seconds) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    close(ends[0]);
    const auto limit = static_cast<rlim_t>(seconds);
    const rlimit none{0, 0}, processor{limit, limit};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_CPU, &processor);
    report(ends[1], run(check));
  }
  close(ends[1]);
  std::string text;
  const int clock = seconds * clock_per_processor_second;
  const bool ended = read_all(ends[0], clock, text);
  close(ends[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended) return fmt::format("has not ended after {} s\n{}", clock, text);
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
    return fmt::format("has not ended after {} s of processor time\n{}", seconds, text);
  if (WIFSIGNALED(status))
    return fmt::format("ended by signal {} ({})\n{}", WTERMSIG(status), strsignal(WTERMSIG(status)), text);
  return text;
}

}  // namespace boxcar::tests
