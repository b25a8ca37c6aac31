#include "sim/machine.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::sim {
namespace {

constexpr int most_steps = 32;  // looked at if no number is given
// How far a queue without dependencies may run ahead of the oldest unfinished step. No plan bound by credits
// gets so far; without the limit a queue of acts that take no time would never end.
constexpr int most_ahead = 64;
constexpr int instants_between_looks = 256;

}  // namespace

Machine::Machine(const Wiring& wiring, double slowdown, std::vector<char> timeline, bool periodic)
    : wiring_(wiring),
      slowdown_(slowdown),
      keep_timeline_(std::move(timeline)),
      rings_(time_, static_cast<int>(wiring.actors.size())),
      meter_(wiring),
      queues_(wiring.queues.size()),
      acts_(wiring.actors.size()),
      elastic_(wiring.units.size()),
      is_woken_(wiring.queues.size(), 0),
      turns_(wiring.turns.size(), 0),
      periodic_(periodic) {
  for (double capacity : wiring.link_capacity) time_.add_link(capacity);
  for (const WiredActor& actor : wiring.actors) acts_per_step_ += actor.per_step;
  add_actors();
  if (periodic_) choose_reference();
}

void Machine::add_actors() {
  std::vector<actors::InSpec> ins;
  std::vector<actors::OutSpec> outs;
  for (size_t a = 0; a < wiring_.actors.size(); ++a) {
    ins.clear();
    outs.clear();
    for (int i = wiring_.in_begin[a]; i < wiring_.in_begin[a + 1]; ++i) {
      const WiredActor& producer = at(wiring_.actors, at(wiring_.producers, i).actor);
      const ir::Program& program = wiring_.program(at(wiring_.units, producer.unit));
      ins.push_back({at(wiring_.in_repeat, i), at(program.registers, at(wiring_.in_register, i)).count});
    }
    const ir::Program& program = wiring_.program(at(wiring_.units, wiring_.actors[a].unit));
    for (int o = wiring_.out_begin[a]; o < wiring_.out_begin[a + 1]; ++o) {
      const ir::Register& reg = at(program.registers, at(wiring_.out_register, o));
      int readers = at(wiring_.reader_begin, o + 1) - at(wiring_.reader_begin, o);
      outs.push_back({reg.count, reg.initial, reg.every, readers});
      slot_begin_.push_back(static_cast<int>(acked_.size()));
      acked_.resize(acked_.size() + static_cast<size_t>(reg.count), 0);
      if (readers > 0) meter_.change(wiring_.actors[a].unit, at(wiring_.out_bytes, o) * reg.initial, 0);
    }
    table_.add(ins, outs);
  }
}

void Machine::run(int steps, const std::function<void()>& look) {
  steps_ = steps;
  may_end_early_ = steps == 0 && std::none_of(keep_timeline_.begin(), keep_timeline_.end(), std::identity());
  send_initial();
  for (int queue = 0; queue < static_cast<int>(queues_.size()); ++queue) wake(queue);
  if (acts_per_step_ == 0) return;
  start_ready();
  int64_t instants = 0;
  time_.run([&](Ticks now, std::span<const int> tags) {
    if (look && ++instants % instants_between_looks == 0) look();
    step(now, tags);
  });
  if (!done_) deadlock();
}

void Machine::send_initial() {
  for (int actor = 0; actor < table_.size(); ++actor) {
    table_.start(actor, effects_);
    deliver(actor);
    const WiredActor& wired = at(wiring_.actors, actor);
    bool source = at(wiring_.in_begin, actor) == at(wiring_.in_begin, actor + 1);
    // Actors that wait for no message are ready from the start; a message makes the others ready.
    if (source && table_.ready(actor) && !at(wiring_.queues, wired.queue).ordered && wired.per_step > 0) {
      offer(actor);
    }
  }
}

void Machine::step(Ticks now, std::span<const int> tags) {
  now_ = stamp_ = now;
  for (int lead : tags) event(lead);
  start_ready();
  if (step_ended_) step_over();
  if (sample_due_ && !done_) look_for_period();
}

void Machine::event(int lead) {
  if (done_) return;
  if (rings_.owns(lead)) {
    std::optional<int> over = rings_.ended(lead);
    if (!over) return;
    lead = *over;
  }
  ActState& act = at(acts_, lead);
  const WiredActor& wired = at(wiring_.actors, lead);
  if (act.flowing) {
    act.flowing = false;
    finish(lead);
  } else if (act.due != now_) {
    return;  // the act was slowed or sped up meanwhile
  } else if (flows(wired)) {
    const Load& load = at(wiring_.loads, wired.load);
    act.flowing = true;
    act.due = -1;
    if (load.ring >= 0) {
      rings_.start(lead, at(wiring_.rings, load.ring), load.bytes);
    } else {
      time_.flow(at(wiring_.paths, load.path).links, load.bytes, lead);
    }
  } else {
    finish(lead);
  }
}

// True if a communication is a flow on SimGrid's links; otherwise nothing can slow it and it is a wait.
bool Machine::flows(const WiredActor& actor) const {
  if (actor.load < 0) return false;
  const Load& load = at(wiring_.loads, actor.load);
  return load.ring >= 0 || at(wiring_.paths, load.path).shared;
}

std::span<const int> Machine::members(const int& lead) const {
  int joint = at(wiring_.actors, lead).joint;
  return joint < 0 ? std::span<const int>(&lead, 1) : std::span<const int>(at(wiring_.joints, joint));
}

int Machine::queue_of(int item) const {
  auto actors = static_cast<int>(wiring_.actors.size());
  return item < actors ? at(wiring_.actors, item).queue : at(wiring_.turns, item - actors).queue;
}

void Machine::deliver(int actor) {
  for (const actors::Effect& effect : effects_) {
    if (effect.kind == actors::MessageKind::req) {
      int port = at(wiring_.out_begin, actor) + effect.port;
      for (int r = at(wiring_.reader_begin, port); r < at(wiring_.reader_begin, port + 1); ++r) {
        const Port& reader = at(wiring_.readers, r);
        receive(reader.actor, actor, {actors::MessageKind::req, reader.port, effect.slot});
      }
    } else {
      const Port& producer = at(wiring_.producers, at(wiring_.in_begin, actor) + effect.port);
      receive(producer.actor, actor, {actors::MessageKind::ack, producer.port, effect.slot});
    }
  }
  effects_.clear();
}

void Machine::receive(int actor, int cause, const actors::Message& message) {
  bool became_ready =
      message.kind == actors::MessageKind::ack ? take_ack(actor, message) : table_.receive(actor, message);
  const WiredActor& wired = at(wiring_.actors, actor);
  if (!became_ready) return;
  at(acts_, actor).cause = cause;
  at(acts_, actor).caused = now_;
  if (!at(wiring_.queues, wired.queue).ordered && wired.per_step > 0) offer(actor);
  wake(wired.queue);
}

// The last ack for a slot gives it back. Acks of a group's members come when the group ends, but the members'
// own ends count.
bool Machine::take_ack(int actor, const actors::Message& message) {
  int port = at(wiring_.out_begin, actor) + message.port;
  Ticks& acked = at(acked_, at(slot_begin_, port) + message.slot);
  acked = std::max(acked, stamp_);
  int before = table_.out_counter(actor, message.port);
  bool became_ready = table_.receive(actor, message);
  if (table_.out_counter(actor, message.port) > before) {
    meter_.change(at(wiring_.actors, actor).unit, -at(wiring_.out_bytes, port), acked);
    acked = 0;
  }
  return became_ready;
}

// A ready actor stands in line on its open queue, unless it is too far ahead.
void Machine::offer(int actor) {
  const WiredActor& wired = at(wiring_.actors, actor);
  if (too_far(table_.acts(actor) / wired.per_step)) {
    ahead_.push_back(actor);
  } else {
    at(queues_, wired.queue).ready.push_back(actor);
  }
}

bool Machine::too_far(int64_t step) const {
  return step >= static_cast<int64_t>(step_ends_.size()) + most_ahead;
}

void Machine::wake(int queue) {
  if (at(is_woken_, queue)) return;
  at(is_woken_, queue) = 1;
  woken_.push_back(queue);
}

// Queues in ascending order, also those that are woken meanwhile (a turn that becomes possible).
void Machine::start_ready() {
  while (!woken_.empty() && !done_) {
    std::vector<int> batch;
    batch.swap(woken_);
    std::sort(batch.begin(), batch.end());
    for (int queue : batch) at(is_woken_, queue) = 0;
    for (int queue : batch) go_on(queue);
  }
}

void Machine::go_on(int queue_index) {
  QueueState& queue = at(queues_, queue_index);
  if (queue.busy) return;
  const WiredQueue& wired = at(wiring_.queues, queue_index);
  if (!wired.ordered) {
    if (queue.ready.empty()) return;
    int item = queue.ready.front();
    queue.ready.pop_front();
    if (!is_turn(item)) at(acts_, item).index = table_.acts(item);
    return arrive(queue_index, item);
  }
  int place = head(queue_index);
  if (place < 0 || too_far(queue.step)) return;
  int item = at(wiring_.items, place);
  if (is_turn(item)) {
    ++turns_[static_cast<size_t>(item) - wiring_.actors.size()];
  } else {
    if (!table_.ready(item)) return;
    const Unit& unit = at(wiring_.units, wired.unit);
    int64_t act = static_cast<int64_t>(queue.step) * at(wiring_.actors, item).per_step +
                  at(at(wiring_.occurrence, unit.program), queue.run);
    int group = at(wiring_.group_at, place);
    if (group >= 0 && runs_as_one(at(wiring_.groups, group), act))
      return begin_group(queue_index, group, act);
    at(acts_, item).index = act;
  }
  ++queue.next;
  arrive(queue_index, item);
}

// The place in the wiring's items whose turn it is; -1 if the queue never has any.
int Machine::head(int queue_index) {
  QueueState& queue = at(queues_, queue_index);
  const WiredQueue& wired = at(wiring_.queues, queue_index);
  const auto& schedule = wiring_.program(at(wiring_.units, wired.unit)).schedule;
  for (size_t tried = 0; tried <= schedule.size() && !schedule.empty(); ++tried) {
    int phase = wired.items + at(schedule, queue.run).phase;
    int begin = at(wiring_.item_begin, phase), end = at(wiring_.item_begin, phase + 1);
    for (; begin + queue.next < end; ++queue.next) {
      if (!skip_turn(at(wiring_.items, begin + queue.next))) return begin + queue.next;
    }
    queue.next = 0;
    if (++queue.run == static_cast<int>(schedule.size())) {
      queue.run = 0;
      ++queue.step;
    }
    // A period has the same number of runs of each phase, so those of one are enough to see it.
    if (queue_index == reference_ && repeated_in_ != queue.step &&
        at(schedule, queue.run).phase == schedule.front().phase)
      sample_due_ = true;
  }
  return -1;
}

// Skips the turn of an act that does not yet send (every > 1).
bool Machine::skip_turn(int item) {
  if (!is_turn(item)) return false;
  size_t turn = static_cast<size_t>(item) - wiring_.actors.size();
  if ((turns_[turn] + 1) % wiring_.turns[turn].every == 0) return false;
  ++turns_[turn];
  return true;
}

void Machine::arrive(int queue_index, int item) {
  at(queues_, queue_index).busy = true;
  at(queues_, queue_index).item = item;
  int actor = is_turn(item) ? wiring_.turns[static_cast<size_t>(item) - wiring_.actors.size()].pull : item;
  int lead = wiring_.lead_of(actor);
  auto all = members(lead);
  if (all.size() == 1) return begin(lead);
  if (!is_turn(item)) {
    int other = all.back();  // a pull asks for its turn if no order gives it one
    if (is_turn(other) && !at(wiring_.queues, queue_of(other)).ordered) {
      at(queues_, queue_of(other)).ready.push_back(other);
      wake(queue_of(other));
    }
  }
  if (++at(acts_, lead).arrived < static_cast<int>(all.size())) return;
  at(acts_, lead).arrived = 0;
  begin(lead);
}

void Machine::count_step(int64_t step, int acts) {
  while (left_.size() <= static_cast<size_t>(step)) left_.push_back(acts_per_step_);
  at(left_, step) -= acts;
  if (at(left_, step) > 0) return;
  step_ends_.push_back(now_);
  step_ended_ = true;
}

// At the end of an instant in which a step ended.
void Machine::step_over() {
  step_ended_ = false;
  samples_of_last_step_ = std::exchange(samples_, {});
  if (enough()) {
    account_unfinished();
    done_ = true;
    time_.stop();
    return;
  }
  std::vector<int> ahead = std::exchange(ahead_, {});
  for (int waiting : ahead) offer(waiting);
  for (int queue = 0; queue < static_cast<int>(queues_.size()); ++queue) wake(queue);
  start_ready();
}

// Enough steps: the number asked for, or the state recurred, or (after at most 32) it hardly will.
bool Machine::enough() {
  auto steps = static_cast<int>(step_ends_.size());
  // If several steps end in one instant, only the last one's end is a state of its own.
  while (static_cast<int>(states_.size()) < steps - 1) states_.push_back({states_.size(), 0});
  states_.push_back(fingerprint(true));
  marks_.resize(states_.size(), timeline_.size());
  for (int step = steps - 2; step >= 0 && period_ == 0; --step) {
    if (at(states_, step) == states_.back()) period_ = steps - 1 - step;
  }
  if (steps_ == 0) return period_ > 0 || steps >= most_steps;
  if (steps >= steps_ || !periodic_ || period_ == 0) return steps >= steps_;
  // The last step run must have run within the regime in all queues, also in those that are steps ahead.
  if (settled_ == 0) settled_ = steps + period_ + ahead();
  return steps >= settled_;
}

// The number of steps by which the farthest queue is past the one that ended last.
int Machine::ahead() const {
  int64_t most = 0;
  for (const QueueState& queue : queues_) most = std::max<int64_t>(most, queue.step);
  for (int a = 0; a < table_.size(); ++a) {
    if (at(wiring_.actors, a).per_step > 0)
      most = std::max(most, table_.acts(a) / at(wiring_.actors, a).per_step);
  }
  return static_cast<int>(most - static_cast<int64_t>(step_ends_.size())) + 1;
}

}  // namespace boxcar::sim
