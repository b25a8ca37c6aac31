#include <algorithm>
#include <utility>

#include "sim/sweep/workers.h"

namespace boxcar::sweep {
namespace {

constexpr int most_times = 2;  // that a number is taken

}  // namespace

GroupQueue::GroupQueue(std::vector<std::vector<int64_t>> groups) : groups_(std::move(groups)) {
  for (std::vector<int64_t>& group : groups_) {
    std::reverse(group.begin(), group.end());
    left_ += group.size();
  }
}

GroupQueue::Taken GroupQueue::take(int64_t last) {
  const auto take_from = [&](size_t group) {
    const Taken taken{static_cast<int64_t>(group), groups_[group].back()};
    groups_[group].pop_back();
    Out& out = out_[taken.number];
    out.group = group, ++out.times, ++out.holders;
    return taken;
  };
  if (last >= 0 && !groups_[static_cast<size_t>(last)].empty()) return take_from(static_cast<size_t>(last));
  while (next_ < groups_.size() && groups_[next_].empty()) ++next_;
  if (next_ < groups_.size()) return take_from(next_++);
  const auto fullest = std::max_element(groups_.begin(), groups_.end(),
                                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (fullest == groups_.end() || fullest->empty()) return {};
  return take_from(static_cast<size_t>(fullest - groups_.begin()));
}

bool GroupQueue::waits(const Out& out, int64_t number) const {
  const std::vector<int64_t>& group = groups_[out.group];
  return std::find(group.begin(), group.end(), number) != group.end();
}

bool GroupQueue::done(int64_t number) {
  const auto found = out_.find(number);
  if (found == out_.end()) return false;
  std::erase(groups_[found->second.group], number);
  out_.erase(found);
  --left_;
  return true;
}

bool GroupQueue::lost(int64_t number) {
  const auto found = out_.find(number);
  if (found == out_.end()) return false;
  Out& out = found->second;
  if (--out.holders > 0 || waits(out, number)) return false;
  if (out.times >= most_times) return done(number);
  groups_[out.group].push_back(number);
  return false;
}

void GroupQueue::late(int64_t number) {
  const auto found = out_.find(number);
  if (found == out_.end() || found->second.times >= most_times || waits(found->second, number)) return;
  groups_[found->second.group].push_back(number);
}

}  // namespace boxcar::sweep
