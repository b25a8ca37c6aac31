#include "planner/schedule.h"

#include <algorithm>
#include <charconv>

namespace boxcar::planner {

std::vector<int> under_way_of(const std::string& schedule) {
  std::vector<int> counts;
  const char* end = schedule.data() + schedule.size();
  for (const char* at = schedule.data();;) {
    int count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 1 || (next != end && *next != ',')) return {};
    counts.push_back(count);
    if (next == end) return counts;
    at = next + 1;
  }
}

Pipeline pipeline_of(const Hints& h, int micro_batches) {
  Pipeline p{Schedule::one_f_one_b, h.pp, h.virtual_stages, micro_batches, under_way_of(h.schedule)};
  if (h.virtual_stages > 1) p.kind = Schedule::interleaved;
  if (h.schedule == "gpipe") p.kind = Schedule::gpipe;
  return p;
}

namespace {

// Position `k` of the interleaved forward order: groups of `stages` micro-batches go through all chunks in
// turn.
ir::PhaseRun interleaved_run(const Pipeline& p, int k, bool forward) {
  const int group = p.stages * p.chunks;
  const int chunk = k % group / p.stages;
  const int micro_batch = k / group * p.stages + k % p.stages;
  return forward ? ir::PhaseRun{forward_phase(chunk), micro_batch}
                 : ir::PhaseRun{backward_phase(p, p.chunks - 1 - chunk), micro_batch};
}

// Forward runs made before the first backward one.
int warm_up(const Pipeline& p, int stage) {
  const int all = p.micro_batches * p.chunks;
  switch (p.kind) {
    case Schedule::gpipe:
      return all - 1;
    case Schedule::one_f_one_b:
      return std::min((p.under_way.empty() ? p.stages - stage : p.under_way[static_cast<size_t>(stage)]) - 1,
                      all - 1);
    case Schedule::interleaved:
      return std::min((p.stages - stage - 1) * 2 + (p.chunks - 1) * p.stages, all - 1);
  }
  return 0;
}

}  // namespace

std::vector<ir::PhaseRun> stage_order(const Pipeline& p, int stage) {
  const int all = p.micro_batches * p.chunks;
  const int ahead = warm_up(p, stage);
  std::vector<ir::PhaseRun> order;
  for (int k = 0; k < all + ahead; ++k) {
    if (k < all) order.push_back(interleaved_run(p, k, true));
    if (k >= ahead) order.push_back(interleaved_run(p, k - ahead, false));
  }
  return order;
}

std::vector<int> in_flight(const Pipeline& p, const std::vector<ir::PhaseRun>& order) {
  std::vector<int> now(static_cast<size_t>(p.chunks)), most(now);
  for (const ir::PhaseRun& run : order) {
    const bool forward = run.phase < p.chunks;
    const auto chunk = static_cast<size_t>(forward ? run.phase : run.phase - p.chunks);
    now[chunk] += forward ? 1 : -1;
    most[chunk] = std::max(most[chunk], now[chunk]);
  }
  return most;
}

}  // namespace boxcar::planner
