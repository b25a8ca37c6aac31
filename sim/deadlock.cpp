#include <fmt/format.h>

#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/machine.h"

namespace boxcar::sim {
namespace {

constexpr size_t most_named = 6;

}  // namespace

// "stage0[0].compute: act 3 of h0.mlp waits for a slot of h0.mlp.out"
void Machine::deadlock() const {
  std::string message =
      fmt::format("nothing can go on after {} steps, at {:.6g} s:", step_ends_.size(), to_seconds(now_));
  size_t named = 0, waiting = 0;
  for (int queue = 0; queue < static_cast<int>(queues_.size()); ++queue) {
    int place = const_cast<Machine*>(this)->head(queue);
    int item = place < 0 ? -1 : at(wiring_.items, place);
    if (at(queues_, queue).busy) item = -2;
    if (item == -1) continue;
    if (++waiting > most_named) continue;
    ++named;
    std::string what = item == -2 ? waits_jointly(queue) : waits_for(item);
    message += fmt::format("\n  {}: {}", queue_name(queue), what);
  }
  if (waiting > named) message += fmt::format("\n  and {} more queues", waiting - named);
  throw Error::cannot_run(wiring_.plan->name.empty() ? "plan" : wiring_.plan->name, message);
}

// A busy queue without events in flight: a joint act whose other members have not come to it.
std::string Machine::waits_jointly(int queue) const {
  int item = at(queues_, queue).item;
  int actor = is_turn(item) ? wiring_.turns[static_cast<size_t>(item) - wiring_.actors.size()].pull : item;
  std::string text = fmt::format("waits with {} for", wiring_.actor(actor).name);
  const char* separator = " ";
  const int lead = wiring_.lead_of(actor);
  for (int member : members(lead)) {
    const QueueState& other = at(queues_, queue_of(member));
    if (other.busy && other.item == member) continue;
    text += separator;
    text += is_turn(member) ? fmt::format("its turn on {}", queue_name(queue_of(member)))
                            : wiring_.name_of(member);
    separator = ", ";
  }
  return text;
}

std::string Machine::queue_name(int queue) const {
  const WiredQueue& wired = at(wiring_.queues, queue);
  const ir::Program& program = wiring_.program(at(wiring_.units, wired.unit));
  return fmt::format("{}[{}].{}", program.name, wired.unit, at(program.queues, wired.local).name);
}

std::string Machine::waits_for(int item) const {
  if (is_turn(item)) {
    return fmt::format(
        "waits for {} to pull",
        wiring_.name_of(wiring_.turns[static_cast<size_t>(item) - wiring_.actors.size()].pull));
  }
  std::string text = fmt::format("act {} of {} waits for", table_.acts(item), wiring_.actor(item).name);
  const char* separator = " ";
  for (int i = at(wiring_.in_begin, item); i < at(wiring_.in_begin, item + 1); ++i) {
    if (table_.in_counter(item, i - at(wiring_.in_begin, item)) > 0) continue;
    text += fmt::format("{}{}", separator, wiring_.name_of(at(wiring_.producers, i).actor));
    separator = ", ";
  }
  const ir::Program& program = wiring_.program(at(wiring_.units, at(wiring_.actors, item).unit));
  for (int o = at(wiring_.out_begin, item); o < at(wiring_.out_begin, item + 1); ++o) {
    if (table_.out_counter(item, o - at(wiring_.out_begin, item)) > 0) continue;
    text += fmt::format("{}a slot of {}", separator, at(program.registers, at(wiring_.out_register, o)).name);
    separator = ", ";
  }
  return text;
}

}  // namespace boxcar::sim
