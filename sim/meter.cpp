#include "sim/meter.h"

#include <algorithm>

#include "sbp/at.h"

namespace boxcar::sim {

Meter::Meter(const Wiring& wiring) : wiring_(wiring), held_(wiring.units.size()) {
  for (size_t unit = 0; unit < held_.size(); ++unit) {
    change(static_cast<int>(unit), wiring.units[unit].held_bytes, 0);
  }
}

StepMeter& Meter::of(int unit, int step) {
  while (steps_.size() <= static_cast<size_t>(step)) {
    steps_.emplace_back(wiring_.units.size());
    for (size_t u = 0; u < wiring_.units.size(); ++u) {
      steps_.back()[u].busy.assign(static_cast<size_t>(wiring_.units[u].queues), 0);
    }
  }
  return at(at(steps_, step), unit);
}

void Meter::act(int actor, int step, Ticks start, Ticks end) {
  const WiredActor& wired = at(wiring_.actors, actor);
  const WiredQueue& queue = at(wiring_.queues, wired.queue);
  StepMeter& meter = of(wired.unit, step);
  at(meter.busy, queue.local) += end - start;
  if (wired.queue != at(wiring_.units, wired.unit).compute_queue) return;
  if (meter.first < 0) meter.first = start;
  meter.last = std::max(meter.last, end);
}

void Meter::change(int unit, int64_t bytes, Ticks when) {
  if (bytes == 0) return;
  auto& pending = at(held_, unit).pending;
  size_t place = pending.size();
  while (place > 0 && pending[place - 1].when > when) --place;
  if (place > 0 && pending[place - 1].when == when) {
    pending[place - 1].bytes += bytes;
  } else {
    pending.insert(pending.begin() + static_cast<std::ptrdiff_t>(place), {when, bytes});
  }
}

void Meter::apply_changes(int unit, Ticks before) {
  Held& held = at(held_, unit);
  size_t applied = 0;
  for (; applied < held.pending.size() && held.pending[applied].when < before; ++applied) {
    held.level += held.pending[applied].bytes;
    held.peak = std::max(held.peak, held.level);
  }
  held.pending.erase(held.pending.begin(), held.pending.begin() + static_cast<std::ptrdiff_t>(applied));
}

int64_t Meter::level(int unit) const {
  const Held& held = at(held_, unit);
  int64_t level = held.level;
  for (const Change& change : held.pending) level += change.bytes;
  return level;
}

std::vector<Ticks> Meter::relative(int step, Ticks now) const {
  std::vector<Ticks> all;
  for (const Held& held : held_) {
    all.insert(all.end(), {held.level, static_cast<Ticks>(held.pending.size())});
    for (const Change& change : held.pending) all.insert(all.end(), {change.when - now, change.bytes});
  }
  for (size_t u = 0; static_cast<size_t>(step) < steps_.size() && u < held_.size(); ++u) {
    const StepMeter& unit = at(steps_, step)[u];
    all.push_back(unit.first < 0 ? 1 : unit.last - now);  // ends are not after now
  }
  return all;
}

std::vector<Ticks> Meter::totals(int step) const {
  std::vector<Ticks> totals;
  for (size_t s = static_cast<size_t>(step); s < steps_.size(); ++s) {
    for (const StepMeter& unit : steps_[s]) {
      totals.push_back(unit.exposed);
      totals.insert(totals.end(), unit.busy.begin(), unit.busy.end());
    }
  }
  return totals;
}

void Meter::repeat(int step, Ticks since, const std::vector<Ticks>& before, int64_t times, Ticks period) {
  size_t next = 0;
  auto add = [&](Ticks& value) {
    value += times * (value - (next < before.size() ? before[next] : 0));
    ++next;
  };
  for (size_t s = static_cast<size_t>(step); s < steps_.size(); ++s) {
    for (StepMeter& unit : steps_[s]) {
      if (unit.last > since) unit.last += times * period;
      add(unit.exposed);
      for (Ticks& busy : unit.busy) add(busy);
    }
  }
  for (Held& held : held_) {
    for (Change& change : held.pending) change.when += times * period;
  }
}

void Meter::end_step_like_last(int step, const std::vector<Ticks>& before, Ticks shift) {
  size_t next = 0;
  for (int u = 0; u < static_cast<int>(wiring_.units.size()); ++u) {
    const StepMeter like = of(u, step - 1);
    StepMeter& unit = of(u, step);
    const auto gained = [&](Ticks total) { return total - (next < before.size() ? before[next] : 0); };
    unit.exposed += gained(like.exposed), ++next;
    for (size_t q = 0; q < unit.busy.size(); ++q) unit.busy[q] += gained(like.busy[q]), ++next;
    if (unit.first < 0 && like.first >= 0) unit.first = like.first + shift;
    unit.last = like.last + shift;
  }
}

int64_t Meter::peak(int unit) const { return at(held_, unit).peak; }

}  // namespace boxcar::sim
