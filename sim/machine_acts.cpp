// An act from its beginning to its end: slots taken and given back, its time, waits for it.
#include <algorithm>
#include <cmath>

#include "sbp/at.h"
#include "sim/machine.h"

namespace boxcar::sim {

void Machine::begin(int lead) {
  ActState& act = at(acts_, lead);
  auto all = members(lead);
  act.start = now_;
  if (at(wiring_.actors, lead).communication) {
    Ticks since = now_;
    for (int item : all) since = std::min(since, chain_start(item));
    act.since = since;
  }
  for (int item : all) begin_member(item);
  begin_wait(lead);
}

// Start of the unbroken chain of communications that led to the beginning of `item` now.
Ticks Machine::chain_start(int item) const {
  const QueueState& queue = at(queues_, queue_of(item));
  Ticks since = now_;
  auto follow = [&](int before) {
    if (before < 0 || !at(wiring_.actors, before).communication) return;
    since = std::min(since, at(acts_, wiring_.lead_of(before)).since);
  };
  if (queue.idle_since == now_) follow(queue.last);
  if (!is_turn(item) && at(acts_, item).caused == now_) follow(at(acts_, item).cause);
  return since;
}

void Machine::begin_member(int item) {
  int unit = at(wiring_.queues, queue_of(item)).unit;
  int actor = is_turn(item) ? wiring_.turns[static_cast<size_t>(item) - wiring_.actors.size()].pull : item;
  const WiredActor& wired = at(wiring_.actors, actor);
  if (wired.slows) slow(unit, 1);
  if (is_turn(item)) return;
  note_wait(actor);
  table_.begin(actor);
  account_begin(actor, at(acts_, actor).index, now_);
}

// A compute queue that was idle until a communication ended has waited for it.
void Machine::note_wait(int actor) {
  const WiredActor& wired = at(wiring_.actors, actor);
  if (wired.queue != at(wiring_.units, wired.unit).compute_queue) return;
  const ActState& act = at(acts_, actor);
  Ticks idle = now_ - at(queues_, wired.queue).idle_since;
  if (idle <= 0 || act.caused != now_ || !at(wiring_.actors, act.cause).communication) return;
  Ticks since = at(acts_, wiring_.lead_of(act.cause)).since;
  meter_.exposed(wired.unit, static_cast<int>(act.index / wired.per_step), std::min(idle, now_ - since));
}

void Machine::begin_wait(int lead) {
  const WiredActor& wired = at(wiring_.actors, lead);
  if (is_elastic(wired)) {
    at(elastic_, wired.unit).lengths.assign(1, wired.alone);
    return start_elastic(lead);
  }
  at(acts_, lead).due = now_ + (flows(wired) ? wired.wait : wired.alone);
  time_.wait(at(acts_, lead).due, lead);
}

// Collectives slow compute acts.
bool Machine::is_elastic(const WiredActor& actor) const {
  return slowdown_ > 0 && actor.queue == at(wiring_.units, actor.unit).compute_queue && !actor.communication;
}

// Begins the compute act or group, whose lengths are set, that ends with an event of `lead`.
void Machine::start_elastic(int lead) {
  Elastic& elastic = at(elastic_, at(wiring_.actors, lead).unit);
  elastic.actor = lead;
  elastic.member = 0;
  elastic.updated = now_;
  elastic.left = elastic.lengths.front();
  plan_ends(elastic);
}

void Machine::slow(int unit, int change) {
  if (slowdown_ <= 0) return;
  Elastic& elastic = at(elastic_, unit);
  const bool before = elastic.communications > 0;
  const bool after = elastic.communications + change > 0;
  const bool changes = before != after && elastic.actor >= 0 && elastic.ends.back() > now_;
  if (changes) {
    for (; elastic.ends[elastic.member] <= now_; ++elastic.member) {
      elastic.updated = elastic.ends[elastic.member];
      elastic.left = elastic.lengths[elastic.member + 1];
    }
    const auto passed = static_cast<double>(now_ - elastic.updated);
    elastic.left = std::max<Ticks>(0, elastic.left - std::llround(passed * (before ? 1 - slowdown_ : 1)));
    elastic.updated = now_;
  }
  elastic.communications += change;
  if (changes) plan_ends(elastic);
}

Ticks Machine::stretched(const Elastic& elastic, Ticks length) const {
  if (elastic.communications == 0) return length;
  return std::llround(static_cast<double>(length) / (1 - slowdown_));
}

// When the member in flight and those after it end at the present speed; the last one's end is an event.
void Machine::plan_ends(Elastic& elastic) {
  elastic.ends.resize(elastic.member);
  elastic.ends.push_back(elastic.updated + stretched(elastic, elastic.left));
  for (size_t m = elastic.member + 1; m < elastic.lengths.size(); ++m)
    elastic.ends.push_back(elastic.ends.back() + stretched(elastic, elastic.lengths[m]));
  at(acts_, elastic.actor).due = elastic.ends.back();
  time_.wait(elastic.ends.back(), elastic.actor);
}

void Machine::finish(int lead) {
  at(acts_, lead).due = -1;
  if (at(queues_, queue_of(lead)).group >= 0) return finish_group(queue_of(lead));
  for (int item : members(lead)) finish_member(item);
}

void Machine::finish_member(int item) {
  int queue_index = queue_of(item);
  QueueState& queue = at(queues_, queue_index);
  int unit = at(wiring_.queues, queue_index).unit;
  int actor = is_turn(item) ? wiring_.turns[static_cast<size_t>(item) - wiring_.actors.size()].pull : item;
  const WiredActor& wired = at(wiring_.actors, actor);
  if (wired.slows) slow(unit, -1);
  queue.busy = false;
  queue.idle_since = now_;
  queue.last = actor;
  wake(queue_index);
  if (is_turn(item)) return;
  if (at(elastic_, unit).actor == actor) at(elastic_, unit).actor = -1;
  Ticks start = at(acts_, wiring_.lead_of(actor)).start;
  int64_t act = at(acts_, actor).index, step = act / wired.per_step;
  meter_.act(actor, static_cast<int>(step), start, now_);
  end_act(actor, act, start, now_);
  if (!at(wiring_.queues, queue_index).ordered && table_.ready(actor)) offer(actor);
  if (wired.queue == at(wiring_.units, unit).compute_queue) meter_.apply_changes(unit, now_);
  count_step(step, 1);
}

// Ends an act that took [start, end] for the state machine, and sends its messages now.
void Machine::end_act(int actor, int64_t act, Ticks start, Ticks end) {
  const WiredActor& wired = at(wiring_.actors, actor);
  if (at(keep_timeline_, wired.unit)) {
    timeline_.push_back({wired.unit, wired.local, static_cast<int>(act), to_seconds(start), to_seconds(end)});
  }
  table_.end(actor, effects_);
  account_end(actor, act, end);
  stamp_ = end;
  deliver(actor);
  stamp_ = now_;
}

// The slots that an act takes when it begins, and those that it gives back when it ends without a message.
void Machine::account_begin(int actor, int64_t act, Ticks when) {
  int unit = at(wiring_.actors, actor).unit;
  for (int h = at(wiring_.hold_begin, actor); h < at(wiring_.hold_begin, actor + 1); ++h) {
    const Hold& hold = at(wiring_.holds, h);
    if (hold.take && act % hold.every == 0) meter_.change(unit, hold.bytes, when);
  }
  for (int o = at(wiring_.out_begin, actor); o < at(wiring_.out_begin, actor + 1); ++o) {
    if (act % at(wiring_.out_every, o) == 0) meter_.change(unit, at(wiring_.out_bytes, o), when);
  }
}

void Machine::account_end(int actor, int64_t act, Ticks when) {
  int unit = at(wiring_.actors, actor).unit;
  for (int h = at(wiring_.hold_begin, actor); h < at(wiring_.hold_begin, actor + 1); ++h) {
    const Hold& hold = at(wiring_.holds, h);
    if (!hold.take && (act + 1) % hold.every == 0) meter_.change(unit, -hold.bytes, when);
  }
  for (int o = at(wiring_.out_begin, actor); o < at(wiring_.out_begin, actor + 1); ++o) {
    bool unread = at(wiring_.reader_begin, o) == at(wiring_.reader_begin, o + 1);
    if (unread && (act + 1) % at(wiring_.out_every, o) == 0)
      meter_.change(unit, -at(wiring_.out_bytes, o), when);
  }
}

}  // namespace boxcar::sim
