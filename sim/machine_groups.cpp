// Groups of neighbouring acts that run as one (merge.h).
#include <algorithm>

#include "sbp/at.h"
#include "sim/machine.h"

namespace boxcar::sim {

// A member that is ready now is still ready when its turn comes: nothing takes a readable or a free slot
// away. So if all are ready, they run back to back.
bool Machine::runs_as_one(const WiredGroup& group, int64_t act) const {
  for (int modulus : group.moduli) {
    if ((act + 1) % modulus == 0) return false;
  }
  return std::all_of(group.ported.begin(), group.ported.end(),
                     [&](int actor) { return table_.ready(actor); });
}

void Machine::begin_group(int queue_index, int group_index, int64_t act) {
  QueueState& queue = at(queues_, queue_index);
  const WiredGroup& group = at(wiring_.groups, group_index);
  int first = at(wiring_.items, group.first_item),
      last = at(wiring_.items, group.first_item + group.size - 1);
  queue.next += group.size;
  queue.busy = true;
  queue.item = last;
  queue.group = group_index;
  at(acts_, first).index = at(acts_, last).index = act;
  note_wait(first);
  for (int actor : group.ported) table_.begin(actor);
  at(acts_, last).start = now_;
  if (slowdown_ > 0) {
    std::vector<Ticks>& lengths = at(elastic_, at(wiring_.queues, queue_index).unit).lengths;
    lengths.clear();
    for (int m = 0; m < group.size; ++m)
      lengths.push_back(at(wiring_.actors, at(wiring_.items, group.first_item + m)).alone);
    return start_elastic(last);
  }
  at(acts_, last).due = now_ + group.total;
  time_.wait(at(acts_, last).due, last);
}

void Machine::finish_group(int queue_index) {
  QueueState& queue = at(queues_, queue_index);
  const WiredGroup& group = at(wiring_.groups, queue.group);
  int unit = at(wiring_.queues, queue_index).unit, last = queue.item;
  int64_t act = at(acts_, last).index, step = act / at(wiring_.actors, last).per_step;
  member_times(queue_index);
  queue.busy = false;
  queue.group = -1;
  queue.idle_since = now_;
  queue.last = last;
  wake(queue_index);
  at(elastic_, unit).actor = -1;
  meter_.act(last, static_cast<int>(step), times_.front(), now_);
  for (int m = 0; m < group.size; ++m) {
    int actor = at(wiring_.items, group.first_item + m);
    account_begin(actor, act, at(times_, m));
    bool ported = table_.acting(actor);
    if (ported || at(keep_timeline_, unit)) {
      if (!ported) table_.begin(actor);
      end_act(actor, act, at(times_, m), at(times_, m + 1));
    } else {
      account_end(actor, act, at(times_, m + 1));
    }
  }
  meter_.apply_changes(unit, now_);
  count_step(step, group.size);
}

// Writes the start of each member of the running group, and the end of the last one, into times_.
void Machine::member_times(int queue_index) {
  const QueueState& queue = at(queues_, queue_index);
  const WiredGroup& group = at(wiring_.groups, queue.group);
  times_.assign(1, at(acts_, queue.item).start);
  if (slowdown_ > 0) {
    const std::vector<Ticks>& ends = at(elastic_, at(wiring_.queues, queue_index).unit).ends;
    times_.insert(times_.end(), ends.begin(), ends.end());
    return;
  }
  for (int m = 0; m < group.size; ++m)
    times_.push_back(times_.back() + at(wiring_.actors, at(wiring_.items, group.first_item + m)).alone);
}

// Counts bytes that groups still running at the last step's end have taken and given back by then.
void Machine::account_unfinished() {
  for (int q = 0; q < static_cast<int>(queues_.size()); ++q) {
    if (at(queues_, q).group >= 0) account_unfinished(q);
  }
  for (int unit = 0; unit < static_cast<int>(wiring_.units.size()); ++unit) {
    meter_.apply_changes(unit, std::max<Ticks>(now_, 1));
  }
}

void Machine::account_unfinished(int queue_index) {
  const QueueState& queue = at(queues_, queue_index);
  const WiredGroup& group = at(wiring_.groups, queue.group);
  const int64_t act = at(acts_, queue.item).index;
  member_times(queue_index);
  for (int m = 0; m < group.size && at(times_, m) <= now_; ++m) {
    const int actor = at(wiring_.items, group.first_item + m);
    account_begin(actor, act, at(times_, m));
    if (at(times_, m + 1) <= now_) account_end(actor, act, at(times_, m + 1));
  }
}

}  // namespace boxcar::sim
