#include "planner/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "planner/lifetimes.h"
#include "planner/uses.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {
namespace {

class MemoryChecker {
 public:
  MemoryChecker(const ir::Plan& plan, int program)
      : plan_(plan), index_(program), program_(at(plan.programs, program)), lifetimes_(plan, program) {
    for (size_t r = 0; r < program_.registers.size(); ++r) {
      const ir::Register& reg = program_.registers[r];
      if (reg.offset >= 0 && reg.bytes > 0) placed_.push_back(static_cast<int>(r));
    }
    std::sort(placed_.begin(), placed_.end(), [&](int a, int b) { return begin(a) < begin(b); });
  }

  void run() {
    bounds();
    workspace();
    workspace_of_acts();
    on_host();
    if (!in_runs() || !across_runs()) pairs();
  }

 private:
  const ir::Register& reg(int r) const { return at(program_.registers, r); }
  int64_t begin(int r) const { return reg(r).offset; }
  int64_t end(int r) const { return reg(r).offset + reg(r).bytes * reg(r).count; }

  std::string text(int r) const {
    return fmt::format("%{} (bytes {} to {})", reg(r).name, begin(r), end(r) - 1);
  }

  [[noreturn]] void refuse(int a, int b) const {
    throw Error::cannot_run(program_.name,
                            fmt::format("{} and {} share memory, and nothing keeps their uses apart",
                                        text(std::min(a, b)), text(std::max(a, b))));
  }

  void bounds() const {
    for (int r : placed_) {
      if (end(r) <= program_.arena_bytes) continue;
      throw Error::cannot_run(
          program_.name, fmt::format("{} lies outside the arena of {} bytes", text(r), program_.arena_bytes));
    }
    int64_t last = program_.workspace_offset + program_.workspace_bytes;
    if (program_.workspace_offset >= 0 && last > program_.arena_bytes) {
      throw Error::cannot_run(program_.name,
                              fmt::format("the workspace (bytes {} to {}) lies outside the arena of {} bytes",
                                          program_.workspace_offset, last - 1, program_.arena_bytes));
    }
  }

  // Acts may use the workspace at any time.
  void workspace() const {
    int64_t first = program_.workspace_offset, last = first + program_.workspace_bytes;
    if (first < 0) return;
    for (int r : placed_) {
      if (begin(r) >= last || end(r) <= first) continue;
      throw Error::cannot_run(program_.name, fmt::format("{} and the workspace (bytes {} to {}) share memory",
                                                         text(r), first, last - 1));
    }
  }

  // All acts that need the workspace share it, so they must be on one queue.
  void workspace_of_acts() const {
    const ir::Actor* first = nullptr;
    for (const ir::Actor& actor : program_.actors) {
      if (actor.workspace == 0) continue;
      if (!first) first = &actor;
      const std::string where = program_.name + ": " + actor.name;
      if (actor.queue != first->queue)
        throw Error::cannot_run(
            where, fmt::format("needs workspace on {}, and {} on {}: acts that share it are on one queue",
                               queue(actor), first->name, queue(*first)));
      if (program_.workspace_offset >= 0 && actor.workspace > program_.workspace_bytes)
        throw Error::cannot_run(where, fmt::format("needs {} bytes of workspace, there are {}",
                                                   actor.workspace, program_.workspace_bytes));
    }
  }
  const std::string& queue(const ir::Actor& actor) const { return at(program_.queues, actor.queue).name; }

  // Registers in memory of the host share none of it.
  void on_host() const {
    std::map<int64_t, const ir::Register*> by_end;
    for (const ir::Register& reg : program_.registers) {
      if (reg.host_bytes == 0 || reg.offset < 0) continue;
      const int64_t last = reg.offset + reg.host_bytes * reg.count;
      if (last > program_.host_bytes)
        throw Error::cannot_run(program_.name,
                                fmt::format("%{} (bytes {} to {}) lies outside the {} bytes of host memory",
                                            reg.name, reg.offset, last - 1, program_.host_bytes));
      const auto next = by_end.upper_bound(reg.offset);
      if (next != by_end.end() && next->second->offset < last)
        throw Error::cannot_run(
            program_.name, fmt::format("%{} and %{} share memory of the host", next->second->name, reg.name));
      by_end[last] = &reg;
    }
  }

  // Checks registers that live inside runs of one phase: goes through the run in time, with live registers by
  // address. False if two of them share bytes.
  bool in_runs() const {
    struct Event {
      int64_t time;
      bool starts;
      int reg;
    };
    std::map<int, std::vector<Event>> phases;
    for (int r : placed_) {
      const Lifetimes::InRun& in = lifetimes_.in_run(r);
      if (in.phase < 0) continue;
      phases[in.phase].push_back({in.life.begin, true, r});
      phases[in.phase].push_back({in.life.end, false, r});
    }
    for (auto& [phase, events] : phases) {
      std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return std::tuple{a.time, a.starts, a.reg} < std::tuple{b.time, b.starts, b.reg};  // ends first
      });
      std::map<int64_t, int> alive;  // by first byte
      for (const Event& event : events) {
        if (!event.starts) {
          alive.erase(begin(event.reg));
          continue;
        }
        auto next = alive.lower_bound(begin(event.reg));
        if (next != alive.end() && begin(next->second) < end(event.reg)) return false;
        if (next != alive.begin() && end(std::prev(next)->second) > begin(event.reg)) return false;
        alive[begin(event.reg)] = event.reg;
      }
    }
    return true;
  }

  // Checks pairs of which one lives across runs: by address, with registers that reach this address. False if
  // two may share bytes.
  bool across_runs() const {
    std::vector<int> across, inside;
    auto apart = [&](std::vector<int>& open, int r) {
      std::erase_if(open, [&](int other) { return end(other) <= begin(r); });
      return std::all_of(open.begin(), open.end(), [&](int other) { return lifetimes_.apart(other, r); });
    };
    for (int r : placed_) {
      bool local = lifetimes_.in_run(r).phase >= 0;
      if (!apart(across, r) || (!local && !apart(inside, r))) return false;
      (local ? inside : across).push_back(r);
    }
    return true;
  }

  // Checks all pairs that share bytes, by everything that orders acts.
  void pairs() const {
    Uses uses(plan_);
    std::vector<int> open;
    for (int r : placed_) {
      std::erase_if(open, [&](int other) { return end(other) <= begin(r); });
      for (int other : open)
        if (!lifetimes_.apart(other, r) && !uses.apart(index_, other, r)) refuse(other, r);
      open.push_back(r);
    }
  }

  const ir::Plan& plan_;
  int index_;
  const ir::Program& program_;
  Lifetimes lifetimes_;
  std::vector<int> placed_;  // registers in the arena, by offset
};

}  // namespace

void check_memory(const ir::Plan& plan) {
  for (size_t p = 0; p < plan.programs.size(); ++p) MemoryChecker(plan, static_cast<int>(p)).run();
}

}  // namespace boxcar::planner
