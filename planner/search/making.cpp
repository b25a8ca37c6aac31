#include "planner/search/making.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "planner/resolve.h"
#include "planner/verify.h"

namespace boxcar::search {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(5);

using Clock = std::chrono::steady_clock;

bool degrees_do(const planner::ResolvedJob& job, const LayoutRequest& asked, Graphs& graphs) {
  if (needs_layouts(job) || !asked.partial) return false;
  return asked.pins.empty() || keeps(graphs.lay_out(job, nullptr), asked.pins);
}

struct TooSlow {};  // the layouts take too long

Made make(Candidate candidate, LayoutRequest asked, Graphs& graphs, double most_seconds,
          const std::function<void()>& asked_to_stop) {
  double deaf_seconds = 0;
  Clock::time_point last = Clock::now();
  const auto look = [&] {
    const Clock::time_point now = Clock::now();
    deaf_seconds =
        std::max(deaf_seconds, std::chrono::duration<double>(now - std::exchange(last, now)).count());
    asked_to_stop();
  };
  const planner::ResolvedJob job = planner::resolve(std::move(candidate.job));
  candidate.job = job;
  if (!candidate.layouts && !degrees_do(job, asked, graphs)) candidate.layouts = std::move(asked);
  FoundLayouts found;
  const auto look_at_layouts = [&] {
    look();
    if (layout_seconds(found, job) > most_seconds) throw TooSlow{};
  };
  ir::Plan plan;
  try {
    plan = plan_of(candidate, &found, graphs, look_at_layouts);
  } catch (const TooSlow&) {
    candidate.found = std::move(found);
    return {std::move(candidate), {}, true, deaf_seconds};
  }
  if (found.found) candidate.found = std::move(found);
  if (candidate.layouts)
    candidate.layouts->weights = candidate.found.weights, candidate.layouts->memory = infinity;
  note_memory(plan, candidate);
  planner::verify(plan);
  look();
  return {std::move(candidate), std::move(plan), false, deaf_seconds};
}

}  // namespace

Making::Making(Candidate candidate, LayoutRequest asked, Graphs& graphs, double most_seconds)
    : move_(candidate.move),
      made_(std::async(std::launch::async, [candidate = std::move(candidate), asked = std::move(asked),
                                            &graphs, most_seconds, stop = stop_]() mutable {
        const auto look = [&] {
          if (*stop) throw Stopped{};
        };
        return make(std::move(candidate), std::move(asked), graphs, most_seconds, look);
      })) {}

Made Making::take(const std::function<void()>& look) {
  while (made_.wait_for(between_looks) != std::future_status::ready) look();
  return made_.get();
}

}  // namespace boxcar::search
