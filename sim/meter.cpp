#include "sim/meter.h"

#include <algorithm>

namespace boxcar::sim {

Meter::Meter(const Wiring& wiring) : wiring_(wiring), held_(wiring.units.size()) {
  for (size_t unit = 0; unit < held_.size(); ++unit) {
    held_[unit].settled = held_[unit].peak = wiring.units[unit].held_bytes;
  }
}

StepMeter& Meter::at(int unit, int step) {
  while (steps_.size() <= static_cast<size_t>(step)) {
    steps_.emplace_back(wiring_.units.size());
    for (size_t u = 0; u < wiring_.units.size(); ++u) {
      steps_.back()[u].busy.assign(static_cast<size_t>(wiring_.units[u].queues), 0);
    }
  }
  return steps_[static_cast<size_t>(step)][static_cast<size_t>(unit)];
}

void Meter::act(int actor, int step, Ticks start, Ticks end) {
  const WiredActor& wired = wiring_.actors[static_cast<size_t>(actor)];
  const WiredQueue& queue = wiring_.queues[static_cast<size_t>(wired.queue)];
  StepMeter& meter = at(wired.unit, step);
  meter.busy[static_cast<size_t>(queue.local)] += end - start;
  if (wired.queue != wiring_.units[static_cast<size_t>(wired.unit)].compute_queue) return;
  if (meter.first < 0) meter.first = start;
  meter.last = std::max(meter.last, end);
}

void Meter::settle(Held& held, Ticks now) {
  if (held.instant == now) return;
  held.settled += held.taken - held.given;
  held.peak = std::max(held.peak, held.settled);
  held.taken = held.given = 0;
  held.instant = now;
}

void Meter::take(int unit, int64_t bytes, Ticks now) {
  Held& held = held_[static_cast<size_t>(unit)];
  settle(held, now);
  held.taken += bytes;
}

void Meter::give(int unit, int64_t bytes, Ticks now) {
  Held& held = held_[static_cast<size_t>(unit)];
  settle(held, now);
  held.given += bytes;
}

int64_t Meter::peak(int unit) {
  Held& held = held_[static_cast<size_t>(unit)];
  settle(held, held.instant + 1);
  return held.peak;
}

}  // namespace boxcar::sim
