#include "backends/mpi/termination.h"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "sbp/error.h"

namespace boxcar::backends {
namespace {

// mpirun sends SIGTERM at once when a process dies, and SIGKILL a second later. In between the other threads
// begin to wait for the dead process, which the message should say.
constexpr std::chrono::milliseconds until_others_wait{400};

}  // namespace

Termination::Termination(std::function<std::string()> words) : words_(std::move(words)) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::thread([this] { watch(); });
}

Termination::~Termination() {
  stopping_ = true;
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Termination::watch() {
  const timespec moment{0, 100'000'000};
  while (!stopping_) {
    if (sigtimedwait(&signals_, nullptr, &moment) != SIGTERM) continue;
    std::this_thread::sleep_for(until_others_wait);
    if (const std::string words = words_(); !words.empty()) fmt::print(stderr, "{}\n", words);
    std::fflush(stderr);
    std::_Exit(static_cast<int>(Exit::fault));
  }
}

}  // namespace boxcar::backends
