#include "backends/peers.h"

#include <fmt/format.h>

#include <algorithm>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends {

Peers::Peers(int process, int processes, double silence)
    : process_(process), silence_(silence), peers_(static_cast<size_t>(processes)) {}

void Peers::tick(double now) {
  std::lock_guard lock(mutex_);
  const double gap = now - now_;
  if (gap > nap) {
    for (Peer& peer : peers_) peer.heard += gap;
  }
  now_ = now;
}

void Peers::heard(int process) {
  std::lock_guard lock(mutex_);
  at(peers_, process).heard = now_;
}

void Peers::failed(int process, const std::string& why) {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failed_ = process;
  failure_ = process == process_ ? why : fmt::format("process {} failed: {}", process, why);
}

void Peers::done(int process) {
  std::lock_guard lock(mutex_);
  at(peers_, process).done = true;
}

bool Peers::all_done() const {
  std::lock_guard lock(mutex_);
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.done; });
}

bool Peers::any_failed() const {
  std::lock_guard lock(mutex_);
  return !failure_.empty();
}

bool Peers::another_failed() const {
  std::lock_guard lock(mutex_);
  return failed_ >= 0 && failed_ != process_;
}

void Peers::check() const {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error::fault("", failure_);
  for (int p = 0; p < static_cast<int>(peers_.size()); ++p) {
    const Peer& peer = at(peers_, p);
    const double silent = now_ - peer.heard;
    if (p == process_ || peer.done || silent < silence_) continue;
    throw Error::fault("", fmt::format("process {} has not been heard from for {:.0f} s", p, silent));
  }
}

}  // namespace boxcar::backends
