#include "planner/search/making.h"

#include <chrono>
#include <utility>

#include "planner/resolve.h"
#include "planner/verify.h"

namespace boxcar::search {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(5);

void note_memory(const ir::Plan& plan, Candidate& candidate) {
  const planner::Mesh mesh = planner::mesh_of(candidate.job.parallel);
  for (const planner::MemoryUse& use : planner::memory_use(plan)) {
    if (use.total <= candidate.peak_bytes) continue;
    const int device = plan.classes[static_cast<size_t>(use.cls)].devices.front();
    candidate.peak_bytes = use.total;
    candidate.fullest_stage = device / mesh.stage_stride % candidate.job.parallel.pp;
  }
}

Made make(Candidate candidate, LayoutRequest asked, bool always, Graphs& graphs,
          const std::function<void()>& look) {
  candidate.job = planner::resolve(std::move(candidate.job));
  if (!candidate.layouts && (always || needs_layouts(candidate.job))) candidate.layouts = std::move(asked);
  FoundLayouts found;
  ir::Plan plan = plan_of(candidate, &found, graphs, look);
  if (found.found) candidate.found = std::move(found);
  if (candidate.layouts)
    candidate.layouts->weights = candidate.found.weights, candidate.layouts->memory = infinity;
  note_memory(plan, candidate);
  planner::verify(plan);
  return {std::move(candidate), std::move(plan)};
}

}  // namespace

Making::Making(Candidate candidate, LayoutRequest asked, bool always, Graphs& graphs)
    : made_(std::async(std::launch::async, [candidate = std::move(candidate), asked = std::move(asked),
                                            always, &graphs, stop = stop_]() mutable {
        const auto look = [&] {
          if (*stop) throw Stopped{};
        };
        return make(std::move(candidate), std::move(asked), always, graphs, look);
      })) {}

Made Making::take(const std::function<void()>& look) {
  while (made_.wait_for(between_looks) != std::future_status::ready) look();
  return made_.get();
}

}  // namespace boxcar::search
