// Groups of neighbouring acts that run as one (merge.h).
#include <algorithm>
#include <cmath>

#include "sim/machine.h"

namespace boxcar::sim {
namespace {

size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace

// A member that is ready now is still so when its turn comes: nothing takes a readable or a free slot away.
// So if all are, they run back to back.
bool Machine::runs_as_one(const WiredGroup& group, int64_t act) const {
  for (int modulus : group.moduli) {
    if ((act + 1) % modulus == 0) return false;
  }
  return std::all_of(group.ported.begin(), group.ported.end(),
                     [&](int actor) { return table_.ready(actor); });
}

void Machine::begin_group(int queue_index, int group_index, int64_t act) {
  QueueState& queue = queues_[at(queue_index)];
  const WiredGroup& group = wiring_.groups[at(group_index)];
  int first = wiring_.items[at(group.first_item)],
      last = wiring_.items[at(group.first_item + group.size - 1)];
  queue.next += group.size;
  queue.busy = true;
  queue.item = last;
  queue.group = group_index;
  acts_[at(first)].index = acts_[at(last)].index = act;
  note_wait(first);
  for (int actor : group.ported) table_.begin(actor);
  acts_[at(last)].start = now_;
  start_wait(last, group.total);
}

void Machine::finish_group(int queue_index) {
  QueueState& queue = queues_[at(queue_index)];
  const WiredGroup& group = wiring_.groups[at(queue.group)];
  int unit = wiring_.queues[at(queue_index)].unit, last = queue.item;
  int64_t act = acts_[at(last)].index, step = act / wiring_.actors[at(last)].per_step;
  member_times(queue_index);
  queue.busy = false;
  queue.group = -1;
  queue.idle_since = now_;
  queue.last = last;
  wake(queue_index);
  elastic_[at(unit)].actor = -1;
  meter_.act(last, static_cast<int>(step), times_.front(), now_);
  for (int m = 0; m < group.size; ++m) {
    int actor = wiring_.items[at(group.first_item + m)];
    account_begin(actor, act, times_[at(m)]);
    bool ported = table_.acting(actor);
    if (ported || keep_timeline_) {
      if (!ported) table_.begin(actor);
      end_act(actor, act, times_[at(m)], times_[at(m + 1)]);
    } else {
      account_end(actor, act, times_[at(m + 1)]);
    }
  }
  meter_.settle(unit, now_);
  count_step(step, group.size);
}

// When each member of the running group starts, and the last one ends, into times_.
void Machine::member_times(int queue_index) {
  const QueueState& queue = queues_[at(queue_index)];
  const WiredGroup& group = wiring_.groups[at(queue.group)];
  const Elastic& elastic = elastic_[at(wiring_.queues[at(queue_index)].unit)];
  Ticks start = acts_[at(queue.item)].start, work = 0;
  bool steady = slowdown_ <= 0 || (elastic.done.size() < 2 && now_ - start <= group.total);
  times_.assign(1, start);
  for (int m = 0; m + 1 < group.size; ++m) {
    work += wiring_.actors[at(wiring_.items[at(group.first_item + m)])].alone;
    times_.push_back(steady ? start + work : when_done(elastic, static_cast<double>(work), group.total));
  }
  times_.push_back(now_);
}

// When a slowed act had done `work` of `total` ticks, all of it by now.
Ticks Machine::when_done(const Elastic& elastic, double work, Ticks total) const {
  auto after = std::find_if(elastic.done.begin(), elastic.done.end(),
                            [&](const auto& mark) { return mark.second >= work; });
  if (after == elastic.done.begin()) return elastic.done.front().first;
  auto before = std::prev(after);
  Ticks end = after == elastic.done.end() ? now_ : after->first;
  double done = after == elastic.done.end() ? static_cast<double>(total) : after->second;
  double share = (work - before->second) / (done - before->second);
  return before->first + std::llround(share * static_cast<double>(end - before->first));
}

// What groups that still run when the last step ends have taken and given back by then.
void Machine::account_unfinished() {
  for (int q = 0; q < static_cast<int>(queues_.size()); ++q) {
    if (queues_[at(q)].group >= 0) account_unfinished(q);
  }
  for (int unit = 0; unit < static_cast<int>(wiring_.units.size()); ++unit) {
    meter_.settle(unit, std::max<Ticks>(now_, 1));
  }
}

void Machine::account_unfinished(int queue_index) {
  const QueueState& queue = queues_[at(queue_index)];
  const WiredGroup& group = wiring_.groups[at(queue.group)];
  Elastic& elastic = elastic_[at(wiring_.queues[at(queue_index)].unit)];
  Ticks start = acts_[at(queue.item)].start, work = 0;
  auto done = static_cast<double>(now_ - start);
  if (slowdown_ > 0) {
    double rate = elastic.communications > 0 ? 1 - slowdown_ : 1;
    done = elastic.done.back().second + static_cast<double>(now_ - elastic.updated) * rate;
    elastic.done.emplace_back(now_, done);
  }
  auto when = [&] {
    return slowdown_ > 0 ? when_done(elastic, static_cast<double>(work), group.total) : start + work;
  };
  for (int m = 0; m < group.size && static_cast<double>(work) <= done; ++m) {
    int actor = wiring_.items[at(group.first_item + m)];
    account_begin(actor, acts_[at(queue.item)].index, when());
    work += wiring_.actors[at(actor)].alone;
    if (static_cast<double>(work) <= done) account_end(actor, acts_[at(queue.item)].index, when());
  }
}

}  // namespace boxcar::sim
