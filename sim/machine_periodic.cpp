// A regime that repeats, inside a step or from step to step, is repeated by arithmetic.
//
// The state decides all that happens: positions of queues, messages arrived and not yet used, ends of acts
// and flows. Suppose that it recurs: all ends are later by the same time, and all queues are the same number
// of runs further in schedules that continue alike. Then the acts in between come again, as long as the
// schedules continue alike and no rate (a gradient accumulated over m acts, a weight read by m acts) is
// completed. Times, positions and counters are advanced by that many periods at once.
//
// If no number of steps is asked for, a step that comes to a state of the step before ends as that one did.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sbp/at.h"
#include "sim/machine.h"

namespace boxcar::sim {
namespace {

constexpr size_t least_runs = 8;  // of a schedule for which it may be worthwhile

// Two independent 64-bit mixes of a sequence of numbers.
class Hash {
 public:
  void add(int64_t value) {
    auto bits = static_cast<uint64_t>(value);
    high_ = (high_ ^ bits) * 0x9E3779B97F4A7C15u;
    high_ ^= high_ >> 29;
    low_ = (low_ + bits + 0x632BE59BD9B4E019u) * 0xD6E8FEB86659FD93u;
    low_ ^= low_ >> 32;
  }
  uint64_t high() const { return high_; }
  uint64_t low() const { return low_; }

 private:
  uint64_t high_ = 0x243F6A8885A308D3u, low_ = 0x13198A2E03707344u;
};

}  // namespace

// The compute queue of the longest schedule, and the rates of all queues' actors.
void Machine::choose_reference() {
  size_t longest = least_runs - 1;
  for (const Unit& unit : wiring_.units) {
    if (unit.compute_queue < 0 || !at(wiring_.queues, unit.compute_queue).ordered) continue;
    size_t runs = wiring_.program(unit).schedule.size();
    if (runs <= longest) continue;
    longest = runs;
    reference_ = unit.compute_queue;
  }
  if (reference_ < 0) return;
  moduli_.resize(queues_.size());
  for (size_t q = 0; q < queues_.size(); ++q) {
    moduli_[q].resize(wiring_.program(at(wiring_.units, wiring_.queues[q].unit)).phases.size());
  }
  for (int a = 0; a < static_cast<int>(wiring_.actors.size()); ++a) {
    std::vector<int>& moduli = at(at(moduli_, at(wiring_.actors, a).queue), wiring_.actor(a).phase);
    auto add = [&](int rate) {
      if (rate > 1 && std::find(moduli.begin(), moduli.end(), rate) == moduli.end()) moduli.push_back(rate);
    };
    for (int i = at(wiring_.in_begin, a); i < at(wiring_.in_begin, a + 1); ++i) add(at(wiring_.in_repeat, i));
    for (int o = at(wiring_.out_begin, a); o < at(wiring_.out_begin, a + 1); ++o)
      add(at(wiring_.out_every, o));
    for (int h = at(wiring_.hold_begin, a); h < at(wiring_.hold_begin, a + 1); ++h)
      add(at(wiring_.holds, h).every);
  }
}

Machine::Fingerprint Machine::fingerprint(bool with_rates) const {
  Hash hash;
  auto over = static_cast<int>(step_ends_.size());
  for (int q = 0; q < static_cast<int>(queues_.size()); ++q) {
    const QueueState& queue = at(queues_, q);
    const WiredQueue& wired = at(wiring_.queues, q);
    const auto& schedule = wiring_.program(at(wiring_.units, wired.unit)).schedule;
    hash.add(queue.step - over);
    hash.add(schedule.empty() ? -1 : with_rates ? queue.run : at(schedule, queue.run).phase);
    hash.add(queue.next);
    hash.add(queue.busy ? queue.item : -1);
    hash.add(queue.group);
    for (int item : queue.ready) hash.add(item);
    if (queue.idle_since == now_) hash.add(queue.last);
    if (!queue.busy) {
      if (wired.compute) hash.add(now_ - queue.idle_since);
      continue;
    }
    int actor = is_turn(queue.item)
                    ? wiring_.turns[static_cast<size_t>(queue.item) - wiring_.actors.size()].pull
                    : queue.item;
    const ActState& act = at(acts_, wiring_.lead_of(actor));
    hash.add(act.flowing ? -2 : act.due < 0 ? -1 : act.due - now_);
    if (act.flowing) hash.add(std::llround(time_.bytes_left(wiring_.lead_of(actor)) / 4));
    if (act.flowing || act.due >= 0)
      hash.add(now_ - (at(wiring_.actors, actor).communication ? act.since : act.start));
  }
  for (int a = 0; a < table_.size(); ++a) {
    int ports = at(wiring_.in_begin, a + 1) - at(wiring_.in_begin, a);
    for (int port = 0; port < ports; ++port) {
      hash.add(table_.in_counter(a, port));
      int repeat = at(wiring_.in_repeat, at(wiring_.in_begin, a) + port);
      if (with_rates && repeat > 1) hash.add(table_.acts(a) % repeat);
    }
    for (int o = at(wiring_.out_begin, a); with_rates && o < at(wiring_.out_begin, a + 1); ++o) {
      if (at(wiring_.out_every, o) > 1) hash.add(table_.acts(a) % at(wiring_.out_every, o));
    }
  }
  for (size_t turn = 0; with_rates && turn < turns_.size(); ++turn) {
    hash.add(turns_[turn] % wiring_.turns[turn].every);
  }
  for (const Elastic& elastic : elastic_) {
    if (slowdown_ <= 0) break;
    hash.add(elastic.communications);
    if (elastic.actor < 0) continue;
    hash.add(static_cast<int64_t>(elastic.member));
    hash.add(now_ - elastic.updated);
    hash.add(elastic.left);
    for (Ticks end : elastic.ends) hash.add(end - now_);
  }
  for (int actor : ahead_) hash.add(actor);
  for (int64_t number : rings_.state()) hash.add(number);
  return {hash.high(), hash.low()};
}

Machine::Sample Machine::sample() const {
  Sample sample;
  sample.now = now_;
  for (const QueueState& queue : queues_) {
    sample.step.push_back(queue.step);
    sample.run.push_back(queue.run);
  }
  for (int a = 0; a < table_.size(); ++a) {
    if (!at(wiring_.queues, at(wiring_.actors, a).queue).ordered) sample.open_acts.push_back(table_.acts(a));
  }
  for (int unit = 0; unit < static_cast<int>(wiring_.units.size()); ++unit)
    sample.levels.push_back(meter_.level(unit));
  sample.turns = turns_;
  sample.left = left_;
  sample.totals = meter_.totals(static_cast<int>(step_ends_.size()));
  sample.timeline = timeline_.size();
  return sample;
}

// The reference queue has come to the next run of its schedule.
void Machine::look_for_period() {
  sample_due_ = false;
  if (!ahead_.empty()) return;
  Fingerprint state = fingerprint(false);
  auto before =
      std::find_if(samples_.rbegin(), samples_.rend(), [&](const Sample& s) { return s.state == state; });
  Sample now = sample();
  now.state = state;
  if (may_end_early_) {
    now.exact = fingerprint(true);
    now.measured = measured();
    const auto same = std::find_if(samples_of_last_step_.begin(), samples_of_last_step_.end(),
                                   [&](const Sample& s) { return ends_like(s, now); });
    if (same != samples_of_last_step_.end()) return end_step_like(*same, now);
  }
  if (before != samples_.rend()) {
    int64_t times = repeats(*before, now);
    if (times > 0) {
      repeat(*before, now, times);
      repeated_in_ = at(queues_, reference_).step;
      return;
    }
  }
  samples_.push_back(std::move(now));
}

// Times relative to now: of bytes that change later, of each unit's last compute act, and of acks that may be
// the last of their slot though another comes later, because a member of a running group counts from its own
// end on.
std::vector<Ticks> Machine::measured() const {
  std::vector<Ticks> all = meter_.relative(static_cast<int>(step_ends_.size()), now_);
  std::vector<Ticks> earliest(wiring_.actors.size(), now_);  // by actor: when its next ack may count
  for (const QueueState& queue : queues_) {
    if (queue.group < 0) continue;
    const WiredGroup& group = at(wiring_.groups, queue.group);
    for (int m = 0; m < group.size; ++m)
      at(earliest, at(wiring_.items, group.first_item + m)) = at(acts_, queue.item).start;
  }
  for (int a = 0; a < table_.size(); ++a) {
    const ir::Program& program = wiring_.program(at(wiring_.units, at(wiring_.actors, a).unit));
    for (int o = at(wiring_.out_begin, a); o < at(wiring_.out_begin, a + 1); ++o) {
      Ticks first = now_;
      for (int r = at(wiring_.reader_begin, o); r < at(wiring_.reader_begin, o + 1); ++r)
        first = std::min(first, at(earliest, at(wiring_.readers, r).actor));
      const ir::Register& reg = at(program.registers, at(wiring_.out_register, o));
      const int64_t oldest =
          reg.initial + table_.acts(a) / reg.every;  // slots in the order of their versions
      for (int64_t version = oldest; version < oldest + reg.count; ++version) {
        const Ticks acked = at(acked_, at(slot_begin_, o) + version % reg.count);
        all.push_back(acked > first ? now_ - acked : -1);
      }
    }
  }
  return all;
}

// Whether the state is that of `before`, a step later. The fingerprint does not say how many acts are over.
bool Machine::ends_like(const Sample& before, const Sample& now) const {
  if (before.exact != now.exact || before.measured != now.measured) return false;
  const auto left = [&](const Sample& sample, size_t step) {
    return step < sample.left.size() ? sample.left[step] : acts_per_step_;
  };
  for (size_t step = 0; step < now.left.size(); ++step)
    if (left(now, step + 1) != left(before, step)) return false;
  size_t open = 0;
  for (int a = 0; a < table_.size(); ++a) {
    const WiredActor& wired = at(wiring_.actors, a);
    if (at(wiring_.queues, wired.queue).ordered) continue;
    if (now.open_acts[open] - before.open_acts[open] != wired.per_step) return false;
    ++open;
  }
  return true;
}

// Ends the step as the one before ended after the state `before`, with the same state at its end.
void Machine::end_step_like(const Sample& before, const Sample& now) {
  const Ticks shift = now.now - before.now;
  meter_.end_step_like_last(static_cast<int>(step_ends_.size()), before.totals, shift);
  step_ends_.push_back(step_ends_.back() + shift);
  marks_.push_back(timeline_.size());
  period_ = 1;
  done_ = true;
  time_.stop();
}

// How often the acts between the samples are certain to come again.
int64_t Machine::repeats(const Sample& before, const Sample& now) const {
  if (before.step != now.step || before.levels != now.levels || before.now == now.now) return 0;
  int64_t times = std::numeric_limits<int64_t>::max();
  for (int q = 0; q < static_cast<int>(queues_.size()); ++q) {
    times = std::min(times, repeats_of_queue(q, at(before.run, q), at(now.run, q)));
  }
  for (size_t turn = 0; turn < turns_.size(); ++turn) {
    if (wiring_.turns[turn].every > 1 && before.turns[turn] != now.turns[turn]) return 0;
  }
  size_t open = 0;
  for (int a = 0; a < table_.size(); ++a) {
    const WiredActor& wired = at(wiring_.actors, a);
    if (at(wiring_.queues, wired.queue).ordered) continue;
    int64_t was = before.open_acts[open], is = now.open_acts[open], acts = is - was;
    ++open;
    if (acts == 0) continue;
    if (was / wired.per_step != is / wired.per_step) return 0;
    if (!at(at(moduli_, wired.queue), wiring_.actor(a).phase).empty()) return 0;
    times = std::min(times, (wired.per_step - is % wired.per_step - 1) / acts);
  }
  return times == std::numeric_limits<int64_t>::max() ? 0 : times;
}

// The queue went from run `before` to run `now` of its schedule.
int64_t Machine::repeats_of_queue(int queue, int before, int now) const {
  const WiredQueue& wired = at(wiring_.queues, queue);
  if (!wired.ordered || before == now) return std::numeric_limits<int64_t>::max();
  const auto& schedule = wiring_.program(at(wiring_.units, wired.unit)).schedule;
  int length = now - before, run = now;
  while (run < static_cast<int>(schedule.size()) &&
         at(schedule, run).phase == at(schedule, run - length).phase)
    ++run;
  int64_t times = (run - 1 - now) / length;  // the run that the queue comes to is alike too
  for (int phase = 0; phase < static_cast<int>(at(moduli_, queue).size()); ++phase) {
    int done = occurrences(queue, phase, now);
    int acts = done - occurrences(queue, phase, before);
    for (int rate : at(at(moduli_, queue), phase)) {
      // `done` acts of this phase or one more are over, the first of a slot among them, the last not.
      if (acts > 0) times = std::min<int64_t>(times, done % rate == 0 ? 0 : (rate - 2 - done % rate) / acts);
    }
  }
  return std::max<int64_t>(times, 0);
}

// Runs of a phase in a step before `run`.
int Machine::occurrences(int queue, int phase, int run) const {
  const Unit& unit = at(wiring_.units, at(wiring_.queues, queue).unit);
  const auto& schedule = wiring_.program(unit).schedule;
  for (int before = run - 1; before >= 0; --before) {
    if (at(schedule, before).phase == phase) return at(at(wiring_.occurrence, unit.program), before) + 1;
  }
  return 0;
}

// Acts between the samples, by actor.
std::vector<int64_t> Machine::acts_between(const Sample& before, const Sample& now) const {
  std::vector<int64_t> acts;
  size_t open = 0;
  for (int a = 0; a < table_.size(); ++a) {
    int queue = at(wiring_.actors, a).queue, phase = wiring_.actor(a).phase;
    if (at(wiring_.queues, queue).ordered) {
      acts.push_back(occurrences(queue, phase, at(now.run, queue)) -
                     occurrences(queue, phase, at(before.run, queue)));
    } else {
      acts.push_back(now.open_acts[open] - before.open_acts[open]);
      ++open;
    }
  }
  return acts;
}

void Machine::repeat(const Sample& before, const Sample& now, int64_t times) {
  Ticks shift = times * (now.now - before.now);
  std::vector<int64_t> acts = acts_between(before, now);
  repeat_timeline(before, now, acts, times);
  for (int a = 0; a < table_.size(); ++a) {
    ActState& act = at(acts_, a);
    if (at(acts, a) > 0) table_.skip(a, times * at(acts, a));
    act.index += times * at(acts, a);
    act.start += shift;
    act.since += shift;
    act.caused += shift;
    if (act.due >= 0) act.due += shift;
  }
  for (Ticks& acked : acked_)
    if (acked != 0) acked += shift;
  for (size_t q = 0; q < queues_.size(); ++q) {
    queues_[q].run += static_cast<int>(times) * (now.run[q] - before.run[q]);
    queues_[q].idle_since += shift;
  }
  for (Elastic& elastic : elastic_) {
    elastic.updated += shift;
    for (Ticks& end : elastic.ends) end += shift;
  }
  for (size_t turn = 0; turn < turns_.size(); ++turn)
    turns_[turn] += times * (now.turns[turn] - before.turns[turn]);
  for (size_t step = 0; step < left_.size(); ++step) {
    int64_t was = step < before.left.size() ? before.left[step] : acts_per_step_;
    left_[step] -= times * (was - left_[step]);
  }
  meter_.repeat(static_cast<int>(step_ends_.size()), before.now, before.totals, times, now.now - before.now);
  time_.skip(shift);
  now_ += shift;
  stamp_ = now_;
}

// Acts that ended between the samples end again, `times` times.
void Machine::repeat_timeline(const Sample& before, const Sample& now, const std::vector<int64_t>& acts,
                              int64_t times) {
  double period = to_seconds(now.now - before.now);
  for (int64_t k = 1; k <= times; ++k) {
    for (size_t i = before.timeline; i < now.timeline; ++i) {
      Act act = timeline_[i];
      int actor = at(wiring_.units, act.cls).first_actor + act.actor;
      act.index += static_cast<int>(k * at(acts, actor));
      act.start += static_cast<double>(k) * period;
      act.end += static_cast<double>(k) * period;
      timeline_.push_back(act);
    }
  }
}

}  // namespace boxcar::sim
