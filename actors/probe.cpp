#include "actors/probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {

Probe::Probe(const ir::Program& program, std::vector<Use> uses) : program_(program), uses_(std::move(uses)) {
  for (size_t r = 0; r < program.registers.size(); ++r) {
    const ir::Register& reg = program.registers[r];
    slots_.emplace_back(static_cast<size_t>(reg.count));
    const auto index = static_cast<int>(r);
    if (uses_[r].in_place) hold(index, 0);
    if (uses_[r].readers == 0) continue;
    for (int s = 0; s < reg.initial; ++s) {
      if (!uses_[r].in_place) hold(index, s);
      slot(index, s).readers = uses_[r].readers;
    }
  }
}

void Probe::hold(int index, int number) {
  const ir::Register& r = reg(index);
  slot(index, number).held = true;
  if (r.bytes == 0) return;
  const int64_t begin = r.offset + r.bytes * number, end = begin + r.bytes;
  auto next = spans_.lower_bound(begin);
  const bool before = next != spans_.begin() && std::prev(next)->second.end > begin;
  if (before || (next != spans_.end() && next->first < end)) {
    const Span& other = before ? std::prev(next)->second : next->second;
    throw Error::fault("%" + r.name, fmt::format("slot {} is written over %{}, which holds something", number,
                                                 reg(other.reg).name));
  }
  spans_[begin] = {end, index};
  held_ += r.bytes;
  peak_ = std::max(peak_, held_);
  reach_ = std::max(reach_, end);
  if (end > program_.arena_bytes || held_ > program_.arena_bytes) {
    throw Error::fault(
        "%" + r.name, fmt::format("slot {} ends at byte {} and {} bytes are held, of {} planned", number, end,
                                  held_, program_.arena_bytes));
  }
}

void Probe::drop(int index, int number) {
  const ir::Register& r = reg(index);
  slot(index, number).held = false;
  if (r.bytes == 0) return;
  spans_.erase(r.offset + r.bytes * number);
  held_ -= r.bytes;
}

void Probe::write(int index, int number) {
  const std::lock_guard lock(mutex_);
  const Slot& s = slot(index, number);
  if (s.readers > 0) {
    throw Error::fault("%" + reg(index).name,
                       fmt::format("slot {} is written, but {} still read it", number, s.readers));
  }
  if (!s.held) hold(index, number);
}

void Probe::written(int index, int number) {
  const std::lock_guard lock(mutex_);
  const Use& use = at(uses_, index);
  slot(index, number).readers = use.readers;
  if (use.readers == 0 && !use.in_place) drop(index, number);
}

void Probe::release(int index, int number) {
  const std::lock_guard lock(mutex_);
  Slot& s = slot(index, number);
  if (s.readers == 0)
    throw Error::fault("%" + reg(index).name, fmt::format("slot {} has no readers", number));
  if (--s.readers == 0 && !at(uses_, index).in_place) drop(index, number);
}

int64_t Probe::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

int64_t Probe::reach() const {
  const std::lock_guard lock(mutex_);
  return reach_;
}

}  // namespace boxcar::actors
