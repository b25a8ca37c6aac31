#include "planner/lifetimes.h"

#include <algorithm>
#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {
namespace {

constexpr int deepest = 6;           // acts of other queues between two acts of the main one
constexpr int most_looks = 1 << 16;  // at them, for one life; acts beyond that bound nothing

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// The queue with the most acts in a step; of the ordered ones that compute, if there are any.
int busiest_queue(const ir::Program& program) {
  std::vector<size_t> actors(program.queues.size());
  for (const ir::Actor& actor : program.actors) ++at(actors, actor.queue);
  int best = -1;
  auto rank = [&](int q) {
    return std::pair{at(program.queues, q).kind == ir::QueueKind::compute, at(actors, q)};
  };
  for (int q = 0; q < static_cast<int>(program.queues.size()); ++q) {
    if (at(program.queues, q).ordered && (best < 0 || rank(q) > rank(best))) best = q;
  }
  return best;
}

}  // namespace

Lifetimes::Lifetimes(const ir::Plan& plan, int program)
    : program_(at(plan.programs, program)),
      main_queue_(busiest_queue(program_)),
      width_(std::max<int64_t>(1, static_cast<int64_t>(program_.actors.size()))),
      step_(2 * width_ * static_cast<int64_t>(program_.schedule.size())),
      phase_runs_(program_.phases.size()),
      readers_(program_.registers.size()),
      pulled_(program_.registers.size()) {
  for (size_t r = 0; r < program_.schedule.size(); ++r) {
    at(phase_runs_, program_.schedule[r].phase).push_back(static_cast<int>(r));
  }
  for (size_t a = 0; a < program_.actors.size(); ++a) {
    for (const ir::Input& in : program_.actors[a].inputs) {
      if (in.program < 0) at(readers_, in.reg).push_back({static_cast<int>(a), in.repeat});
    }
  }
  for (const ir::Program& other : plan.programs) {
    for (const ir::Actor& actor : other.actors) {
      if (actor.kind == ir::ActorKind::pull && actor.inputs[0].program == program)
        at(pulled_, actor.inputs[0].reg) = true;
    }
  }
  for (size_t r = 0; r < program_.registers.size(); ++r) in_run_.push_back(find_in_run(static_cast<int>(r)));
}

// Twice the place of an act of the main queue. Acts of later steps come after, acts of earlier steps before.
int64_t Lifetimes::place(int actor, int64_t act) const {
  const auto& runs = at(phase_runs_, at(program_.actors, actor).phase);
  auto n = static_cast<int64_t>(runs.size());
  int64_t steps = floor_div(act, n);
  return steps * step_ + 2 * (at(runs, act - steps * n) * width_ + actor);
}

// A time after which the act starts; none if it waits for nothing on the main queue.
std::optional<int64_t> Lifetimes::start(int actor, int64_t act, int depth) const {
  if (main(actor)) return place(actor, act);
  if (too_far(depth)) return {};
  std::optional<int64_t> latest;
  std::pair<int, int64_t> before{-1, 0};    // many tensors may come from one act
  auto after = [&](int other, int64_t k) {  // starts after act k of `other` has ended
    if (std::exchange(before, {other, k}) == std::pair(other, k)) return;
    auto t = main(other) ? std::optional(place(other, k) + 1) : start(other, k, depth + 1);
    if (t && (!latest || *t > *latest)) latest = t;
  };
  const ir::Actor& x = at(program_.actors, actor);
  for (const ir::Input& in : x.inputs) {
    if (in.program >= 0) continue;
    const ir::Register& reg = at(program_.registers, in.reg);
    if (reg.producer == actor) continue;
    after(reg.producer, (floor_div(act, in.repeat) - reg.initial + 1) * reg.every - 1);
  }
  for (int out : x.outputs) {
    const ir::Register& reg = at(program_.registers, out);
    int64_t overwritten = floor_div(act, reg.every) + reg.initial - reg.count;
    for (const Reader& reader : at(readers_, out)) {
      if (reader.actor != actor && depth == 0) after(reader.actor, (overwritten + 1) * reader.repeat - 1);
    }
  }
  return latest;
}

// A time before which the act has ended; none if nothing on the main queue waits for it.
std::optional<int64_t> Lifetimes::finish(int actor, int64_t act, int depth) const {
  if (main(actor)) return place(actor, act) + 1;
  if (too_far(depth)) return {};
  std::optional<int64_t> earliest;
  std::pair<int, int64_t> before{-1, 0};
  for (int out : at(program_.actors, actor).outputs) {
    const ir::Register& reg = at(program_.registers, out);
    int64_t version = floor_div(act, reg.every) + reg.initial;
    for (const Reader& reader : at(readers_, out)) {
      if (reader.actor == actor) continue;
      int64_t k = version * reader.repeat;
      if (std::exchange(before, {reader.actor, k}) == std::pair(reader.actor, k)) continue;
      auto t =
          main(reader.actor) ? std::optional(place(reader.actor, k)) : finish(reader.actor, k, depth + 1);
      if (t && (!earliest || *t < *earliest)) earliest = t;
    }
  }
  return earliest;
}

bool Lifetimes::too_far(int depth) const { return depth == deepest || ++looks_ > most_looks; }

std::optional<Life> Lifetimes::life(int reg, int64_t version) const {
  looks_ = 0;
  const ir::Register& r = at(program_.registers, reg);
  int64_t first = (version - r.initial) * r.every;
  auto begin = start(r.producer, first, 0);
  auto end = finish(r.producer, first + r.every - 1, 0);
  if (!begin || !end) return {};
  for (const Reader& reader : at(readers_, reg)) {
    auto t = finish(reader.actor, (version + 1) * reader.repeat - 1, 0);
    if (!t) return {};
    end = std::max(*end, *t);
  }
  return Life{*begin, *end};
}

bool Lifetimes::always(int reg) const {
  const ir::Register& r = at(program_.registers, reg);
  if (main_queue_ < 0 || r.initial > 0 || at(pulled_, reg)) return true;
  const auto& readers = at(readers_, reg);
  return std::any_of(readers.begin(), readers.end(), [&](const Reader& x) { return x.actor == r.producer; });
}

Lifetimes::InRun Lifetimes::find_in_run(int reg) const {
  const ir::Register& r = at(program_.registers, reg);
  if (r.bytes == 0 || always(reg) || r.every != 1) return {};
  int phase = at(program_.actors, r.producer).phase;
  for (const Reader& reader : at(readers_, reg)) {
    if (at(program_.actors, reader.actor).phase != phase || reader.repeat != 1) return {};
  }
  InRun found;
  const auto& runs = at(phase_runs_, phase);
  for (size_t v = 0; v < runs.size(); ++v) {
    // All versions have the same life if the first two do, because acts of their own run bound them by the
    // same edges.
    if (v == 2 && found.phase >= 0) break;
    auto one = life(reg, static_cast<int64_t>(v));
    if (!one) return {};
    int64_t begin = run_begin(static_cast<size_t>(runs[v]));
    Life inside{one->begin - begin, one->end - begin};
    if (inside.begin < 0 || inside.end > 2 * width_) return {};
    if (v > 0 && inside != found.life) return {};
    found = {phase, inside};
  }
  return found;
}

std::optional<std::vector<Life>> Lifetimes::lives(int reg) const {
  if (always(reg)) return {};
  const ir::Register& r = at(program_.registers, reg);
  std::vector<Life> lives;
  for (int v = 0; v < acts(r.producer) / r.every; ++v) {
    auto one = life(reg, v);
    if (!one || one->end - one->begin >= step_) return {};
    lives.push_back(*one);
  }
  std::sort(lives.begin(), lives.end());
  return lives;
}

bool Lifetimes::apart(int reg, int other) const {
  const InRun &a = in_run(reg), &b = in_run(other);
  if (a.phase >= 0 && b.phase >= 0) {
    return a.phase != b.phase || a.life.end <= b.life.begin || b.life.end <= a.life.begin;
  }
  auto mine = lives(reg), theirs = lives(other);
  if (!mine || !theirs) return false;
  // Compare each life with those of earlier steps, this one and later ones, because steps repeat.
  for (const Life& x : *mine) {
    for (int64_t shift : {-2 * step_, -step_, int64_t{0}, step_, 2 * step_}) {
      auto late = std::partition_point(theirs->begin(), theirs->end(),
                                       [&](const Life& y) { return y.begin + shift < x.end; });
      for (auto y = theirs->begin(); y != late; ++y) {
        if (y->end + shift > x.begin) return false;
      }
    }
  }
  return true;
}

}  // namespace boxcar::planner
