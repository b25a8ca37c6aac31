#include "actors/actor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

std::string name_of(int actor) { return fmt::format("actor {}", actor); }

template <typename... Args>
void require(bool holds, int actor, std::string_view what, size_t port, fmt::format_string<Args...> message,
             Args&&... args) {
  if (!holds)
    throw Error::input(fmt::format("{}: {} {}", name_of(actor), what, port),
                       fmt::format(message, std::forward<Args>(args)...));
}

[[noreturn]] void broken(int actor, std::string_view what, int port, const std::string& message) {
  throw Error::fault(fmt::format("{}: {} {}", name_of(actor), what, port), message);
}

}  // namespace

int ActorTable::add(std::span<const InSpec> ins, std::span<const OutSpec> outs) {
  int actor = size();
  State state;
  state.in_begin = static_cast<int32_t>(ins_.size());
  state.out_begin = static_cast<int32_t>(outs_.size());
  for (size_t i = 0; i < ins.size(); ++i) {
    require(ins[i].repeat >= 1, actor, "input", i, "repeat {}, at least 1", ins[i].repeat);
    require(ins[i].count >= 1, actor, "input", i, "count {}, at least 1", ins[i].count);
  }
  for (size_t i = 0; i < outs.size(); ++i) {
    const OutSpec& o = outs[i];
    require(o.count >= 1, actor, "output", i, "count {}, at least 1", o.count);
    require(o.every >= 1, actor, "output", i, "every {}, at least 1", o.every);
    require(o.consumers >= 0, actor, "output", i, "consumers {}, not negative", o.consumers);
    require(o.initial >= 0 && o.initial <= o.count, actor, "output", i, "initial {}, from 0 to the count {}",
            o.initial, o.count);
  }
  for (const InSpec& spec : ins) ins_.push_back({spec.repeat, spec.count});
  for (const OutSpec& spec : outs) {
    Out out{spec.count, spec.every, spec.consumers, spec.initial};
    bool held = spec.consumers > 0;
    out.free = held ? spec.count - spec.initial : spec.count;
    out.slot = spec.initial % spec.count;
    out.references = static_cast<int32_t>(references_.size());
    for (int s = 0; s < spec.count; ++s) references_.push_back(s < spec.initial ? spec.consumers : 0);
    if (out.free == 0) ++state.waits_for;
    outs_.push_back(out);
  }
  state.in_end = static_cast<int32_t>(ins_.size());
  state.out_end = static_cast<int32_t>(outs_.size());
  state.waits_for += static_cast<int32_t>(ins.size());
  actors_.push_back(state);
  return actor;
}

void ActorTable::start(int actor, std::vector<Effect>& effects) const {
  const State& s = state(actor);
  for (int32_t o = s.out_begin; o < s.out_end; ++o) {
    const Out& out = at(outs_, o);
    if (out.consumers == 0) continue;
    for (int slot = 0; slot < out.initial; ++slot)
      effects.push_back({MessageKind::req, o - s.out_begin, slot});
  }
}

bool ActorTable::receive(int actor, const Message& message) {
  bool was = ready(actor);
  if (message.kind == MessageKind::req) {
    take_req(actor, message);
  } else {
    take_ack(actor, message);
  }
  return !was && ready(actor);
}

void ActorTable::take_req(int actor, const Message& message) {
  State& s = at(actors_, actor);
  if (message.port < 0 || message.port >= s.in_end - s.in_begin) {
    broken(actor, "input", message.port, fmt::format("req, but there are {} inputs", s.in_end - s.in_begin));
  }
  In& in = at(ins_, s.in_begin + message.port);
  if (in.readable == in.count) {
    broken(actor, "input", message.port,
           fmt::format("req for slot {}, but all {} slots are readable already", message.slot, in.count));
  }
  if (message.slot != in.next) {
    broken(actor, "input", message.port,
           fmt::format("req for slot {}, expected slot {}", message.slot, in.next));
  }
  if (++in.next == in.count) in.next = 0;
  if (in.readable++ == 0) --s.waits_for;
}

void ActorTable::take_ack(int actor, const Message& message) {
  State& s = at(actors_, actor);
  if (message.port < 0 || message.port >= s.out_end - s.out_begin) {
    broken(actor, "output", message.port,
           fmt::format("ack, but there are {} outputs", s.out_end - s.out_begin));
  }
  Out& out = at(outs_, s.out_begin + message.port);
  if (message.slot < 0 || message.slot >= out.count) {
    broken(actor, "output", message.port,
           fmt::format("ack for slot {}, but there are {} slots", message.slot, out.count));
  }
  int32_t& references = at(references_, out.references + message.slot);
  if (references == 0) {
    broken(actor, "output", message.port,
           fmt::format("ack for slot {}, which no reader holds", message.slot));
  }
  if (--references == 0 && out.free++ == 0) --s.waits_for;
}

void ActorTable::not_ready(int actor) const {
  const State& s = state(actor);
  if (s.acting) throw Error::fault(name_of(actor), "begin, but the actor is acting");
  for (int i = 0; i < s.in_end - s.in_begin; ++i) {
    if (in(actor, i).readable == 0) broken(actor, "input", i, "begin, but the in counter is 0");
  }
  for (int o = 0; o < s.out_end - s.out_begin; ++o) {
    if (out(actor, o).free == 0) broken(actor, "output", o, "begin, but the out counter is 0");
  }
  throw Error::fault(name_of(actor), "begin, but the actor is not ready");
}

void ActorTable::begin(int actor) {
  State& s = at(actors_, actor);
  if (s.waits_for != 0) not_ready(actor);
  s.acting = true;
  s.waits_for = 1;
}

void ActorTable::end(int actor, std::vector<Effect>& effects) {
  State& s = at(actors_, actor);
  if (!s.acting) throw Error::fault(name_of(actor), "end, but the actor is not acting");
  s.acting = false;
  --s.waits_for;
  ++s.acts;
  for (int32_t o = s.out_begin; o < s.out_end; ++o) {
    Out& out = at(outs_, o);
    if (++out.written < out.every) continue;
    out.written = 0;
    int32_t slot = out.slot;
    if (++out.slot == out.count) out.slot = 0;
    if (out.consumers == 0) continue;
    at(references_, out.references + slot) = out.consumers;
    if (--out.free == 0) ++s.waits_for;
    effects.push_back({MessageKind::req, o - s.out_begin, slot});
  }
  for (int32_t i = s.in_begin; i < s.in_end; ++i) {
    In& in = at(ins_, i);
    if (++in.used < in.repeat) continue;
    in.used = 0;
    int32_t slot = in.slot;
    if (++in.slot == in.count) in.slot = 0;
    if (--in.readable == 0) ++s.waits_for;
    effects.push_back({MessageKind::ack, i - s.in_begin, slot});
  }
}

void ActorTable::skip(int actor, int64_t acts) {
  State& s = at(actors_, actor);
  s.acts += acts;
  for (int32_t o = s.out_begin; o < s.out_end; ++o) {
    Out& out = at(outs_, o);
    if (out.every == 1) continue;
    if (out.written + acts >= out.every)
      broken(actor, "output", o - s.out_begin, "skip over a slot that is sent");
    out.written += static_cast<int32_t>(acts);
  }
  for (int32_t i = s.in_begin; i < s.in_end; ++i) {
    In& in = at(ins_, i);
    if (in.repeat == 1) continue;
    if (in.used + acts >= in.repeat)
      broken(actor, "input", i - s.in_begin, "skip over a slot that is given back");
    in.used += static_cast<int32_t>(acts);
  }
}

void ActorTable::advance(int actor, int64_t acts) {
  State& s = at(actors_, actor);
  for (int32_t o = s.out_begin; o < s.out_end; ++o) {
    Out& out = at(outs_, o);
    if (out.written != 0 || acts % out.every != 0)
      broken(actor, "output", o - s.out_begin, "advance to a slot that is written in part");
    const auto shift = static_cast<int32_t>(acts / out.every % out.count);
    out.slot = (out.slot + shift) % out.count;
    const auto begin = references_.begin() + out.references;
    std::rotate(begin, begin + (out.count - shift), begin + out.count);
  }
  for (int32_t i = s.in_begin; i < s.in_end; ++i) {
    In& in = at(ins_, i);
    if (in.used != 0 || acts % in.repeat != 0)
      broken(actor, "input", i - s.in_begin, "advance to a slot that is read in part");
    const auto shift = static_cast<int32_t>(acts / in.repeat % in.count);
    in.slot = (in.slot + shift) % in.count;
    in.next = (in.next + shift) % in.count;
  }
  s.acts += acts;
}

void ActorTable::rewind_in(int actor, int port) {
  In& in = at(ins_, state(actor).in_begin + port);
  if (in.used != 0 || in.readable != 0) broken(actor, "input", port, "rewound while there are slots to read");
  in.slot = in.next = 0;
}
void ActorTable::rewind_out(int actor, int port) {
  Out& out = at(outs_, state(actor).out_begin + port);
  if (out.written != 0 || out.free != out.count)
    broken(actor, "output", port, "rewound while slots are in use");
  out.slot = 0;
}

int ActorTable::reference_counter(int actor, int port, int slot) const {
  return at(references_, out(actor, port).references + slot);
}

int ActorTable::in_slot(int actor, int port) const {
  const In& i = in(actor, port);
  return i.readable > 0 ? i.slot : -1;
}

int ActorTable::out_slot(int actor, int port) const {
  const Out& o = out(actor, port);
  return o.free > 0 ? o.slot : -1;
}

std::vector<Effect> Actor::start() const {
  std::vector<Effect> effects;
  table_.start(0, effects);
  return effects;
}

}  // namespace boxcar::actors
