#include "backends/mpi/endings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace boxcar::backends {

void Endings::ended(int process, Ending ending) {
  const std::lock_guard lock(mutex_);
  endings_.at(static_cast<size_t>(process)) = std::move(ending);
}

void Endings::another_speaks() {
  const std::lock_guard lock(mutex_);
  is_spoken_ = true;
}

bool Endings::is_spoken() const {
  const std::lock_guard lock(mutex_);
  return is_spoken_;
}

bool Endings::all_ended() const {
  return std::all_of(endings_.begin(), endings_.end(), [](const auto& ending) { return ending.has_value(); });
}

int Endings::first_cause(int otherwise) const {
  const auto cause = std::find_if(endings_.begin(), endings_.end(),
                                  [](const auto& ending) { return ending && ending->is_cause; });
  return cause == endings_.end() ? otherwise : static_cast<int>(cause - endings_.begin());
}

bool Endings::is_speaker(int process, double waited) const {
  const std::lock_guard lock(mutex_);
  if (waited >= longest) return true;
  if (is_spoken_) return false;
  if (process == 0) return all_ended() || waited >= patience;
  return !endings_[0] && process == first_cause(process) && waited >= patience;
}

Error Endings::agreed(int speaker) const {
  const std::lock_guard lock(mutex_);
  const int process = first_cause(speaker);
  const Ending& cause = endings_.at(static_cast<size_t>(process)).value();
  const bool all = std::all_of(endings_.begin(), endings_.end(), [&](const auto& ending) {
    return ending && ending->is_cause && ending->text == cause.text;
  });
  return {cause.code, all ? "" : fmt::format("process {}", process), cause.text};
}

}  // namespace boxcar::backends
