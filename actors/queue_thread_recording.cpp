// The work of a queue's thread for recorded steps (runtime.h, `graphs`).
#include <fmt/format.h>

#include <algorithm>

#include "actors/queue_thread.h"
#include "sbp/at.h"

namespace boxcar::actors {
namespace {

Error refused(const std::string& where, const std::string& why) {
  return Error::input("graphs of steps", fmt::format("{}: {}", where, why));
}

}  // namespace

void QueueThread::check_recording() const {
  if (!ordered_) throw refused(works_[0].name, "acts on a queue without a fixed order");
  const auto abroad = [](const Target& target) { return target.route == Route::network; };
  for (const Work& work : works_) {
    bool leaves = std::any_of(work.producers.begin(), work.producers.end(), abroad);
    for (const auto& readers : work.readers)
      leaves = leaves || std::any_of(readers.begin(), readers.end(), abroad);
    if (leaves)
      throw refused(work.name,
                    "exchanges data with another process by way of the host; run such steps as acts");
    for (const int r : work.out_regs)
      if (work.acts_per_step % reg(r).every != 0)
        throw refused(work.name, fmt::format("%{} is not whole at a step's end", reg(r).name));
  }
}

void QueueThread::take_messages_left() {
  while (take()) {
  }
  rewind();
}

void QueueThread::advance() {
  for (int a = 0; a < table_.size(); ++a) table_.advance(a, at(works_, a).acts_per_step);
  rewind();
}

// A register without initial slots is read in the step that writes it, so each step may begin at its first
// slot.
void QueueThread::rewind() {
  for (int a = 0; a < table_.size(); ++a) {
    const Work& work = at(works_, a);
    for (size_t o = 0; o < work.out_regs.size(); ++o)
      if (reg(work.out_regs[o]).initial == 0) table_.rewind_out(a, static_cast<int>(o));
    for (size_t i = 0; i < work.in_regs.size(); ++i) {
      const ir::Program& source = state_.layout.program(work.sources[i]);
      if (at(source.registers, work.in_regs[i]).initial == 0) table_.rewind_in(a, static_cast<int>(i));
    }
  }
}

std::byte* QueueThread::staged(const Work& work, int recording, int64_t act) const {
  return host_.get() + ring_bytes_ + recording * staged_bytes_ + work.staged + act * staged_size(work);
}

template <typename Visit>
void QueueThread::for_staged(bool watched, int64_t step, Visit visit) const {
  for (size_t a = 0; a < works_.size(); ++a) {
    const Work& work = works_[a];
    if (work.staged < 0 || (work.watched >= 0) != watched) continue;
    try {
      for (int64_t act = 0; act < work.acts_per_step; ++act) visit(a, moment(work, step, act), act);
    } catch (const std::exception& error) {
      throw named(static_cast<int>(a), error);
    }
  }
}

void QueueThread::stage(int recording, int64_t step) {
  for_staged(false, step, [&](size_t a, const backends::Moment& moment, int64_t act) {
    const Work& work = works_[a];
    fill(work, moment, {staged(work, recording, act), static_cast<size_t>(work.outputs[0].bytes)});
  });
}

void QueueThread::report(int recording, int64_t step) const {
  for_staged(true, step, [&](size_t a, const backends::Moment& moment, int64_t act) {
    const Work& work = works_[a];
    const ir::Register& watched = reg(at(work.out_regs, work.watched));
    const auto bytes = static_cast<size_t>(watched.type.bytes());
    state_.hooks.watched(thread_.device, watched, moment, {staged(work, recording, act), bytes});
  });
}

}  // namespace boxcar::actors
