#include "planner/arena.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {

namespace {

constexpr int unknown_early = -1;                              // may begin before the phase does
constexpr int unknown_late = std::numeric_limits<int>::max();  // may end after it

// By actor, in half acts of the compute queue within a phase: a time before which it has certainly not begun,
// and one by which it has certainly ended. Compute act k of a phase is at 2k.
class Timing {
 public:
  explicit Timing(const ir::Program& program) : program_(program), readers_(program.registers.size()) {
    const size_t count = program.actors.size();
    position_.assign(count, -1);
    begin_.assign(count, unset);
    end_.assign(count, unset);
    std::vector<int> next(program.phases.size());
    for (size_t a = 0; a < count; ++a) {
      const ir::Actor& actor = program.actors[a];
      if (at(program.queues, actor.queue).kind == ir::QueueKind::compute)
        position_[a] = at(next, actor.phase)++;
      for (const ir::Input& input : actor.inputs)
        if (input.program < 0) at(readers_, input.reg).push_back(static_cast<int>(a));
    }
  }

  const std::vector<int>& readers(size_t reg) const { return readers_[reg]; }

  // The earliest time at which it may write.
  int begin(int a) {
    return known(begin_, a, unknown_early, [&](int actor, const auto& of) {
      int latest = unknown_early;
      for (const ir::Input& input : at(program_.actors, actor).inputs) {
        if (input.program >= 0) continue;
        const int producer = at(program_.registers, input.reg).producer;
        const int time = beside(actor, producer) ? of(producer) : unknown_early;
        if (time != unknown_early) latest = std::max(latest, time + (is_compute(producer) ? 1 : 0));
      }
      return latest;
    });
  }

  // The latest time at which it may read: just before the first compute act that waits for it.
  int end(int a) {
    return known(end_, a, unknown_late, [&](int actor, const auto& of) {
      int first = unknown_late;
      for (int reg : at(program_.actors, actor).outputs)
        for (int reader : at(readers_, reg)) {
          const int time = beside(actor, reader) ? of(reader) : unknown_late;
          if (time != unknown_late) first = std::min(first, is_compute(reader) ? time - 1 : time);
        }
      return first;
    });
  }

 private:
  static constexpr int unset = -2;

  bool is_compute(int a) const { return at(position_, a) >= 0; }
  // Whether `other` is another actor of the same phase.
  bool beside(int a, int other) const {
    return other != a && at(program_.actors, a).phase == at(program_.actors, other).phase;
  }

  // times[a]: for a compute actor, by its place; for any other, from(a, of), where of(b) is b's time. Unknown
  // times are kept on an explicit stack, because a chain of actors may be longer than calls can nest.
  template <class From>
  int known(std::vector<int>& times, int a, int unknown, From from) {
    std::vector<int> open{a};
    const auto of = [&](int other) {
      const int now = at(times, other);
      if (now != unset) return now;
      open.push_back(other);
      return unknown;
    };
    if (at(times, a) != unset) return at(times, a);
    while (!open.empty()) {
      const int actor = open.back();
      int& time = at(times, actor);
      if (is_compute(actor)) {
        time = 2 * at(position_, actor);
      } else if (time == unset) {
        time = unknown;  // an act that waits for itself never begins
        from(actor, of);
      }
      if (open.back() != actor) continue;
      if (!is_compute(actor)) time = from(actor, of);
      open.pop_back();
    }
    return at(times, a);
  }

  const ir::Program& program_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> position_, begin_, end_;
};

struct Lifetime {
  int reg = 0, phase = 0, begin = 0, end = 0;
};

// Whether the register is transient, with its lifetime; false if it lives across phase runs.
bool transient(const ir::Program& program, Timing& timing, int index, Lifetime& life) {
  const ir::Register& reg = at(program.registers, index);
  const ir::Actor& producer = at(program.actors, reg.producer);
  if (reg.count != 1 || reg.initial != 0 || reg.every != 1) return false;
  life = {index, producer.phase, timing.begin(reg.producer), timing.begin(reg.producer)};
  if (life.begin == unknown_early) return false;
  if (timing.readers(static_cast<size_t>(index)).empty()) {
    const int end = timing.end(reg.producer);
    life.end = end;
    return end != unknown_late;
  }
  for (int reader : timing.readers(static_cast<size_t>(index))) {
    const bool in_place = reader == reg.producer;
    if (in_place || at(program.actors, reader).phase != producer.phase) return false;
    const int end = timing.end(reader);
    if (end == unknown_late) return false;
    life.end = std::max(life.end, end);
  }
  return true;
}

// Free ranges between used ones, and after the last one.
class Holes {
 public:
  // The smallest hole that is large enough, the first of equal ones.
  int64_t take(int64_t bytes) {
    const auto hole = by_room_.lower_bound({bytes, 0});
    if (hole == by_room_.end()) return std::exchange(tail_, tail_ + bytes);
    const auto [room, begin] = *hole;
    remove(begin, begin + room);
    if (room > bytes) add(begin + bytes, begin + room);
    return begin;
  }

  void give_back(int64_t begin, int64_t end) {
    auto next = by_begin_.lower_bound(begin);
    if (next != by_begin_.begin() && std::prev(next)->second == begin) {
      const auto before = std::prev(next);
      begin = before->first;
      remove(before->first, before->second);
    }
    if (next != by_begin_.end() && next->first == end) {
      end = next->second;
      remove(next->first, next->second);
    }
    if (end == tail_)
      tail_ = begin;
    else
      add(begin, end);
  }

 private:
  void add(int64_t begin, int64_t end) {
    by_begin_[begin] = end;
    by_room_.insert({end - begin, begin});
  }
  void remove(int64_t begin, int64_t end) {
    by_room_.erase({end - begin, begin});
    by_begin_.erase(begin);
  }

  std::map<int64_t, int64_t> by_begin_;
  std::set<std::pair<int64_t, int64_t>> by_room_;  // room, begin
  int64_t tail_ = 0;
};

// Best fit in order of birth.
int64_t pack(ir::Program& program, std::vector<Lifetime>& lives, int64_t base) {
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.begin < b.begin; });
  using Alive = std::tuple<int, int64_t, int64_t>;  // until, begin, end
  std::priority_queue<Alive, std::vector<Alive>, std::greater<>> alive;
  Holes holes;
  int64_t top = 0;
  for (const Lifetime& life : lives) {
    for (; !alive.empty() && std::get<0>(alive.top()) < life.begin; alive.pop())
      holes.give_back(std::get<1>(alive.top()), std::get<2>(alive.top()));
    ir::Register& reg = at(program.registers, life.reg);
    const int64_t begin = holes.take(reg.bytes), end = begin + reg.bytes;
    reg.offset = base + begin;
    alive.push({life.end, begin, end});
    top = std::max(top, end);
  }
  return top;
}

}  // namespace

std::vector<bool> shares_memory(const ir::Program& program) {
  Timing timing(program);
  std::vector<bool> shares(program.registers.size());
  Lifetime life;
  for (size_t r = 0; r < shares.size(); ++r)
    shares[r] = program.registers[r].bytes > 0 && transient(program, timing, static_cast<int>(r), life);
  return shares;
}

void plan_memory(ir::Program& program) {
  Timing timing(program);
  std::vector<std::vector<Lifetime>> by_phase(program.phases.size());
  int64_t persistent = 0;
  program.host_bytes = 0;
  for (size_t r = 0; r < program.registers.size(); ++r) {
    ir::Register& reg = program.registers[r];
    Lifetime life;
    if (reg.bytes > 0 && transient(program, timing, static_cast<int>(r), life)) {
      at(by_phase, life.phase).push_back(life);
      continue;
    }
    if (reg.host_bytes > 0) {
      reg.offset = std::exchange(program.host_bytes, program.host_bytes + reg.host_bytes * reg.count);
      continue;
    }
    reg.offset = persistent;
    persistent += reg.bytes * reg.count;
  }
  int64_t shared = 0;
  for (std::vector<Lifetime>& lives : by_phase) shared = std::max(shared, pack(program, lives, persistent));
  int64_t workspace = 0;
  for (const ir::Actor& actor : program.actors) workspace = std::max(workspace, actor.workspace);
  program.workspace_bytes = workspace;
  program.workspace_offset = workspace > 0 ? persistent + shared : -1;
  program.arena_bytes = persistent + shared + workspace;
}

}  // namespace boxcar::planner
