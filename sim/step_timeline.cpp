#include "sim/step_timeline.h"

#include <algorithm>
#include <numeric>

#include "sbp/at.h"

namespace boxcar::sim {

bool is_own(const ir::Actor& actor, const ir::Input& input) {
  return input.peers < 0 &&
         std::find(actor.outputs.begin(), actor.outputs.end(), input.reg) != actor.outputs.end();
}

StepTimeline::StepTimeline(const ir::Plan& plan, const Result& result) : plan_(plan), result_(result) {
  steps_ = static_cast<int>(result.step_ends.size());
  begin_ = steps_ > 1 ? at(result.step_ends, steps_ - 2) : 0;
  end_ = steps_ > 0 ? result.step_ends.back() : 0;
  classes_.resize(result_.classes.size());
  class_of_.assign(static_cast<size_t>(plan_.devices), -1);
  for (size_t cls = 0; cls < classes_.size(); ++cls) {
    ClassTimeline& c = classes_[cls];
    c.program = &at(plan_.programs, result_.classes[cls].program);
    c.acts.resize(c.program->actors.size());
    c.last.resize(c.program->actors.size());
    std::vector<int> runs(c.program->phases.size(), 0);
    for (const ir::PhaseRun& run : c.program->schedule) ++at(runs, run.phase);
    for (const ir::Actor& actor : c.program->actors) c.per_step.push_back(at(runs, actor.phase));
    for (int device : result_.classes[cls].devices) at(class_of_, device) = static_cast<int>(cls);
  }
  for (auto act = result_.timeline.begin(); act != result_.timeline.end();) {
    const auto next = std::find_if(act, result_.timeline.end(), [&](const Act& other) {
      return other.cls != act->cls || other.actor != act->actor;
    });
    ClassTimeline& c = at(classes_, act->cls);
    const auto actor = static_cast<size_t>(act->actor);
    c.acts[actor] = {act, next};
    c.last[actor] = c.acts[actor].subspan(static_cast<size_t>((steps_ - 1) * c.per_step[actor]));
    act = next;
  }
  for (size_t cls = 0; cls < classes_.size(); ++cls) all_kept_ = all_kept_ && kept(cls);
}

bool StepTimeline::kept(size_t cls) const {
  const auto& acts = classes_[cls].acts;
  return std::any_of(acts.begin(), acts.end(), [](std::span<const Act> one) { return !one.empty(); });
}

bool StepTimeline::in_last_step(size_t cls, const Act& act) const {
  return act.index >= (steps_ - 1) * at(classes_[cls].per_step, act.actor);
}

double StepTimeline::first_start() const {
  double first = begin_;
  for (const ClassTimeline& c : classes_)
    for (const std::span<const Act> acts : c.last)
      if (!acts.empty()) first = std::min(first, acts.front().start);
  return first;
}

int StepTimeline::peer_class(size_t cls, const ir::Peers& peers) const {
  const int device = at(peers.source, result_.classes[cls].devices[0]);
  return device < 0 ? -1 : at(class_of_, device);
}

StepTimeline::Source StepTimeline::source_of(size_t cls, const ir::Input& input) const {
  if (input.peers < 0) return {cls, &at(classes_[cls].program->registers, input.reg)};
  const auto from = static_cast<size_t>(peer_class(cls, at(plan_.peers, input.peers)));
  return {from, &at(classes_[from].program->registers, input.reg)};
}

const Act* StepTimeline::writer_of(const Source& source, const ir::Input& input, int index) const {
  int slot = index / input.repeat - source.reg->initial;
  if (slot < 0 || source.reg->producer < 0) return nullptr;
  const auto& acts = at(classes_[source.cls].acts, source.reg->producer);
  auto at = static_cast<size_t>((slot + 1) * source.reg->every - 1);
  return at < acts.size() ? &acts[at] : nullptr;
}

void StepTimeline::each_holding(size_t cls, const Held& held) const {
  const ClassTimeline& c = classes_[cls];
  std::vector<std::vector<double>> ends(
      c.program->registers.size());  // by register, by publication (initial ones first)
  auto read = [&](size_t reg, int slot, double end) {
    if (ends[reg].size() <= static_cast<size_t>(slot)) ends[reg].resize(static_cast<size_t>(slot) + 1, -1);
    at(ends[reg], slot) = std::max(at(ends[reg], slot), end);
  };
  for (size_t reader = 0; reader < classes_.size(); ++reader) {
    const ClassTimeline& r = classes_[reader];
    for (size_t a = 0; a < r.acts.size(); ++a) {
      for (const ir::Input& input : r.program->actors[a].inputs) {
        if (is_own(r.program->actors[a], input) || (input.peers < 0 && reader != cls)) continue;
        if (input.peers >= 0 && source_of(reader, input).cls != cls) continue;
        for (const Act& act : r.acts[a])
          read(static_cast<size_t>(input.reg), act.index / input.repeat, act.end);
      }
    }
  }
  for (size_t reg = 0; reg < ends.size(); ++reg) {
    const ir::Register& r = c.program->registers[reg];
    if (r.bytes == 0 || r.producer < 0) continue;
    const auto& acts = at(c.acts, r.producer);
    for (int slot = 0; slot < r.initial; ++slot) {
      held(r, 0, static_cast<size_t>(slot) < ends[reg].size() ? at(ends[reg], slot) : 0, false);
    }
    for (size_t first = 0; first < acts.size(); first += static_cast<size_t>(r.every)) {
      size_t last = std::min(acts.size(), first + static_cast<size_t>(r.every)) - 1;
      size_t slot = first / static_cast<size_t>(r.every) + static_cast<size_t>(r.initial);
      const bool is_read = slot < ends[reg].size() && ends[reg][slot] >= 0;
      const double until = is_read ? std::max(ends[reg][slot], acts[last].end) : acts[last].end;
      held(r, acts[first].start, until, !is_read && !ends[reg].empty());
    }
  }
}

std::vector<HeldBytes> StepTimeline::held_over_time(size_t cls, int windows) const {
  struct Change {
    double time;
    int64_t bytes;
    size_t kind;
  };
  std::vector<Change> changes;
  HeldBytes held{};
  const ir::Program& program = *classes_[cls].program;
  const auto is_state = [&](const ir::Register& reg) {
    if (reg.producer < 0) return false;
    const ir::Actor& writer = at(program.actors, reg.producer);
    return std::any_of(writer.inputs.begin(), writer.inputs.end(), [&](const ir::Input& input) {
      return is_own(writer, input) && &at(program.registers, input.reg) == &reg;
    });
  };
  for (const ir::Register& reg : program.registers)
    if (is_state(reg)) held[static_cast<size_t>(reg.memory)] += reg.bytes * reg.count;
  each_holding(cls, [&](const ir::Register& reg, double from, double to, bool for_later) {
    if (is_state(reg)) return;
    if (for_later) to = end_ + (end_ - begin_);
    const auto kind = static_cast<size_t>(reg.memory);
    changes.push_back({from, reg.bytes, kind});
    changes.push_back({to, -reg.bytes, kind});
  });
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
  });
  std::vector<HeldBytes> most(static_cast<size_t>(windows));
  auto change = changes.begin();
  const auto apply = [&] { held[change->kind] += change->bytes, ++change; };
  const auto sum = [](const HeldBytes& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  };
  while (change != changes.end() && change->time <= begin_) apply();
  for (int window = 0; window < windows; ++window) {
    HeldBytes& here = at(most, window);
    here = held;
    const double until = begin_ + (window + 1) * (end_ - begin_) / windows;
    while (change != changes.end() && change->time <= until) {
      apply();
      if (sum(held) > sum(here)) here = held;
    }
  }
  return most;
}

}  // namespace boxcar::sim
