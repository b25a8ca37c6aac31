#include "planner/overwrite_check.h"

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "planner/uses.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {
namespace {

bool writes_over(const ir::Actor& actor) {
  const auto found = actor.attrs.find("in_place");
  if (actor.kind != ir::ActorKind::collective || found == actor.attrs.end()) return false;
  const bool* value = std::get_if<bool>(&found->second);
  return value && *value;
}

class OverwriteChecker {
 public:
  explicit OverwriteChecker(const ir::Plan& plan) : plan_(plan) {}

  void run() {
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      const ir::Program& program = plan_.programs[p];
      std::vector<int> writers;
      for (size_t a = 0; a < program.actors.size(); ++a)
        if (writes_over(program.actors[a])) writers.push_back(static_cast<int>(a));
      if (writers.empty()) continue;
      find_readers(static_cast<int>(p));
      for (const int a : writers) writer(static_cast<int>(p), a);
    }
  }

 private:
  struct Reader {
    int program = 0, actor = 0, repeat = 1;
  };

  void find_readers(int p) {
    readers_.assign(at(plan_.programs, p).registers.size(), {});
    for (size_t q = 0; q < plan_.programs.size(); ++q)
      for (size_t a = 0; a < plan_.programs[q].actors.size(); ++a)
        for (const ir::Input& in : plan_.programs[q].actors[a].inputs)
          if ((in.program < 0 ? static_cast<int>(q) : in.program) == p)
            at(readers_, in.reg).push_back({static_cast<int>(q), static_cast<int>(a), in.repeat});
  }

  void writer(int p, int a) {
    const ir::Program& program = at(plan_.programs, p);
    const ir::Actor& x = at(program.actors, a);
    std::set<int> written;
    for (const ir::Input& in : x.inputs) {
      const ir::Register& reg = at(program.registers, in.reg);
      if (ir::is_control(reg)) continue;
      if (!written.insert(in.reg).second)
        throw Error::cannot_run(program.name + ": " + x.name,
                                fmt::format("writes over %{} twice at once", reg.name));
      for (const Reader& reader : at(readers_, in.reg)) {
        const bool own = reader.program == p && (reader.actor == a || reader.actor == reg.producer);
        const Reader me{p, a, in.repeat};
        if (own || behind(reader, me) || behind(me, reader)) continue;
        if (!uses_) uses_.emplace(plan_);
        if (uses_->ordered(p, in.reg, a, reader.program, reader.actor)) continue;
        const ir::Program& there = at(plan_.programs, reader.program);
        throw Error::cannot_run(
            program.name + ": " + x.name,
            fmt::format(
                "writes over %{}, and nothing keeps {} of {} from reading it at that time (let it read "
                "%{} too)",
                reg.name, at(there.actors, reader.actor).name, there.name,
                x.outputs.empty() ? "a control register of it" : at(program.registers, x.outputs[0]).name));
      }
    }
  }

  // For two readers of a register in one program: whether the first act of one on a version waits for the
  // last act of the other on it.
  bool behind(const Reader& later, const Reader& earlier) const {
    if (later.program != earlier.program) return false;
    const ir::Program& program = at(plan_.programs, later.program);
    for (int64_t act = 0; act < program.acts_per_step(later.actor); ++act) {
      const int64_t last = (act / later.repeat + 1) * earlier.repeat - 1;
      if (act % later.repeat == 0 && !waits(program, {later.actor, act}, {earlier.actor, last})) return false;
    }
    return true;
  }

  using Act = std::pair<int, int64_t>;  // of an actor, counted over all steps
  // Whether one act waits for another through reads in this program. Looks at the nearest acts first.
  static bool waits(const ir::Program& program, Act later, Act earlier) {
    std::set<Act> seen{later};
    std::deque<Act> open{later};
    for (; !open.empty(); open.pop_front()) {
      const auto [actor, act] = open.front();
      for (const ir::Input& in : at(program.actors, actor).inputs) {
        if (in.program >= 0) continue;
        const ir::Register& reg = at(program.registers, in.reg);
        if (reg.producer == actor) continue;
        const Act ended{reg.producer, (act / in.repeat - reg.initial + 1) * reg.every - 1};
        if (ended.first == earlier.first && ended.second >= earlier.second) return true;
        if (ended.second >= 0 && seen.insert(ended).second) open.push_back(ended);
      }
    }
    return false;
  }

  const ir::Plan& plan_;
  std::vector<std::vector<Reader>> readers_;  // of the present program, by register
  std::optional<Uses> uses_;
};

}  // namespace

void check_overwrites(const ir::Plan& plan) { OverwriteChecker(plan).run(); }

}  // namespace boxcar::planner
