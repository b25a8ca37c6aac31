#include "planner/holdings.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "ir/plan_roles.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

int64_t sum(const BytesByKind& kinds) { return std::accumulate(kinds.begin(), kinds.end(), int64_t{0}); }

void add(BytesByKind& kinds, const ir::Register& reg, int64_t slots) {
  at(kinds, reg.memory) += reg.bytes * slots;
}

// Far beyond any memory, but small enough that a sum of several fits in 64 bits. A plan from elsewhere may
// repeatedly leave bytes that none of its runs uses up.
constexpr int64_t most_left = int64_t{1} << 58;

// Calls `run` with each run of the schedule and the bytes that earlier runs left and no run has used up.
template <class Run>
void each_run(const ir::Program& program, const std::vector<Span>& spans, Run run) {
  const std::vector<BytesByKind> none(program.phases.size(), BytesByKind(ir::memory_kinds));
  std::vector<BytesByKind> made = none, used_up = none;
  for (size_t r = 0; r < spans.size(); ++r)
    if (const ir::Register& reg = program.registers[r]; spans[r].from != spans[r].to) {
      at(at(made, spans[r].from), reg.memory) += reg.bytes;
      at(at(used_up, spans[r].to), reg.memory) += reg.bytes;
    }
  BytesByKind now(ir::memory_kinds);
  for (const ir::PhaseRun& one : program.schedule) {
    run(one, now);
    for (size_t kind = 0; kind < now.size(); ++kind)
      now[kind] = std::clamp(now[kind] + at(made, one.phase)[kind] - at(used_up, one.phase)[kind], -most_left,
                             most_left);
  }
}

}  // namespace

std::vector<Span> spans_of(const ir::Program& program) {
  const auto phase_of = [&program](int actor) -> const ir::PlanPhase& {
    return program.phase_of(at(program.actors, actor));
  };
  std::vector<int> runs(program.phases.size());
  for (const ir::PhaseRun& run : program.schedule) ++at(runs, run.phase);
  const auto runs_of = [&](int actor) { return at(runs, at(program.actors, actor).phase); };
  const auto lives_in_step = [&](const ir::Register& reg, const ir::Input& input, int reader) {
    return reg.producer >= 0 && reg.producer != reader && reg.initial == 0 && reg.every == 1 &&
           input.repeat == 1 && runs_of(reg.producer) == runs_of(reader);
  };
  std::vector<int> last(program.registers.size(), -1);
  std::vector<bool> lives_on(program.registers.size());
  for (size_t a = 0; a < program.actors.size(); ++a)
    for (const ir::Input& input : program.actors[a].inputs) {
      const auto reader = static_cast<int>(a);
      if (input.program >= 0) continue;
      const ir::Register& reg = at(program.registers, input.reg);
      if (!lives_in_step(reg, input, reader)) {
        at(lives_on, input.reg) = true;
        continue;
      }
      int& latest = at(last, input.reg);  // kinds are in the order in which a micro-batch runs them
      if (latest < 0 || phase_of(latest).kind <= phase_of(reader).kind) latest = reader;
    }
  std::vector<Span> spans(program.registers.size());
  for (size_t r = 0; r < program.registers.size(); ++r) {
    const int producer = program.registers[r].producer;
    if (last[r] < 0 || lives_on[r]) continue;
    const bool same = at(program.actors, producer).phase == at(program.actors, last[r]).phase;
    if (same || phase_of(producer).kind < phase_of(last[r]).kind)
      spans[r] = {at(program.actors, producer).phase, at(program.actors, last[r]).phase, last[r]};
  }
  return spans;
}

bool is_allocated(const ir::Plan& plan) { return plan.facts.contains("caching_allocator"); }

Holdings::Holdings(const ir::Plan& plan, int program, bool allocates)
    : program_(at(plan.programs, program)),
      lifetimes_(plan, program),
      spans_(allocates ? spans_of(program_) : std::vector<Span>(program_.registers.size())),
      always_(ir::memory_kinds) {
  if (plan.facts.contains("gradients_stay"))
    for (const ir::Actor& actor : program_.actors)
      for (const ir::Input& input : actor.inputs)
        if (ir::is_sum_of_gradients(program_, actor, input)) at(spans_, input.reg) = {};
  for (size_t r = 0; r < program_.registers.size(); ++r)
    if (in_run(static_cast<int>(r)))
      spans_[r] = {};
    else if (spans_[r].from < 0)
      add(always_, program_.registers[r], program_.registers[r].count);
}

bool Holdings::in_run(int reg) const {
  return lifetimes_.in_run(reg).phase >= 0 && at(program_.registers, reg).offset >= 0;
}

BytesByKind Holdings::in_phase(int phase) const {
  struct Event {
    int64_t time = 0;  // as in Lifetimes
    int64_t slots = 0;
    int reg = 0;
  };
  std::vector<Event> events;
  for (size_t r = 0; r < program_.registers.size(); ++r) {
    const auto reg = static_cast<int>(r);
    const ir::Register& its = program_.registers[r];
    const Lifetimes::InRun& in = lifetimes_.in_run(reg);
    if (in_run(reg) && in.phase == phase) {
      events.push_back({in.life.begin, its.count, reg});
      events.push_back({in.life.end, -int64_t{its.count}, reg});
    }
    if (spans_[r].from == phase) events.push_back({2 * int64_t{its.producer}, 1, reg});
    if (spans_[r].to == phase) events.push_back({2 * int64_t{spans_[r].reader} + 1, -1, reg});
  }
  std::ranges::sort(events, {}, [](const Event& e) { return std::tuple(e.time, e.slots, e.reg); });
  BytesByKind now = always_, best = always_;
  for (const Event& event : events) {
    add(now, at(program_.registers, event.reg), event.slots);
    if (sum(now) > sum(best)) best = now;
  }
  return best;
}

BytesByKind Holdings::most() const {
  std::vector<BytesByKind> by_phase;
  for (int phase = 0; phase < static_cast<int>(program_.phases.size()); ++phase)
    by_phase.push_back(in_phase(phase));
  BytesByKind best = always_;
  each_run(program_, spans_, [&](const ir::PhaseRun& run, const BytesByKind& now) {
    BytesByKind kinds = at(by_phase, run.phase);
    for (size_t kind = 0; kind < now.size(); ++kind) kinds[kind] += now[kind];
    if (sum(kinds) > sum(best)) best = kinds;
  });
  return best;
}

int64_t kept_activations(const ir::Program& program) {
  std::vector<Span> spans = spans_of(program);
  std::vector<int64_t> left(program.phases.size());
  for (size_t r = 0; r < spans.size(); ++r) {
    const ir::Register& reg = program.registers[r];
    if (reg.memory != ir::MemoryKind::activations || spans[r].from == spans[r].to) spans[r] = {};
    if (spans[r].from >= 0) at(left, spans[r].from) += reg.bytes;
  }
  int64_t most = 0;
  each_run(program, spans, [&](const ir::PhaseRun& run, const BytesByKind& now) {
    most = std::max(most, sum(now) + at(left, run.phase));
  });
  return most;
}

}  // namespace boxcar::planner
