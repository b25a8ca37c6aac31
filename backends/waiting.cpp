#include "backends/waiting.h"

namespace boxcar::backends {
namespace {

thread_local const Waiting::Act* current_act = nullptr;

}  // namespace

Waiting::Act::Act(std::string_view name) : name_(name), outer_(current_act) { current_act = this; }
Waiting::Act::~Act() { current_act = outer_; }

std::string Waiting::here() {
  std::string text;
  for (const Act* act = current_act; act; act = act->outer_) {
    text = std::string(act->name_) + (text.empty() ? "" : ": ") + text;
  }
  return text;
}

Waiting::Entry::Entry(Waiting& waiting, const std::string& whom) : waiting_(waiting) {
  const std::string act = here();
  std::string line = act + (act.empty() ? "" : " ") + "waits for " + whom;
  std::lock_guard lock(waiting_.mutex_);
  line_ = waiting_.lines_.insert(waiting_.lines_.end(), std::move(line));
}

Waiting::Entry::~Entry() {
  std::lock_guard lock(waiting_.mutex_);
  waiting_.lines_.erase(line_);
}

std::string Waiting::text() const {
  std::lock_guard lock(mutex_);
  std::string text;
  for (const std::string& line : lines_) text += (text.empty() ? "" : "; ") + line;
  return text;
}

}  // namespace boxcar::backends
