#include "planner/schedule.h"

#include <algorithm>
#include <charconv>

namespace boxcar::planner {

std::vector<int> in_flight_of(const std::string& schedule) {
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
  Pipeline p{Schedule::one_f_one_b, h.pp, h.virtual_stages, micro_batches, in_flight_of(h.schedule),
             h.defer_head_grad};
  if (h.virtual_stages > 1) p.kind = Schedule::interleaved;
  if (h.schedule == "gpipe") p.kind = Schedule::gpipe;
  if (h.schedule == "zb-h1") p.kind = Schedule::zb_h1;
  if (h.schedule == "zb-h2") p.kind = Schedule::zb_h2;
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
      return std::min((p.in_flight.empty() ? p.stages - stage : p.in_flight[static_cast<size_t>(stage)]) - 1,
                      all - 1);
    case Schedule::interleaved:
      return std::min((p.stages - stage - 1) * 2 + (p.chunks - 1) * p.stages, all - 1);
    case Schedule::zb_h1:
      return std::min(p.stages - stage - 1, all - 1);
    case Schedule::zb_h2:
      return std::min(2 * (p.stages - stage - 1), all - 1);
  }
  return 0;
}

// Micro-batches that wait for the second part of their backward pass after run `k` of `all`.
int weights_behind(const Pipeline& p, int stage, int k, int all) {
  if (p.head_behind > 0) return p.head_behind;
  if (k + 1 >= all) return 0;  // no forward pass is left
  return p.kind == Schedule::zb_h2 ? 2 * stage : stage;
}

}  // namespace

std::vector<ir::PhaseRun> stage_order(const Pipeline& p, int stage) {
  const int all = p.micro_batches * p.chunks;
  const int ahead = warm_up(p, stage);
  const bool split = splits_backward(p, stage);
  const int chunk = p.chunks - 1;  // the head's; a schedule that splits all passes has one
  std::vector<ir::PhaseRun> order;
  int weights = 0, waiting = 0;  // second parts of backward passes so far, and those to come
  for (int k = 0; k < all + ahead; ++k) {
    if (k < all) order.push_back(interleaved_run(p, k, true));
    if (k >= ahead) {
      order.push_back(interleaved_run(p, k - ahead, false));
      waiting += order.back().phase == backward_phase(p, chunk) ? 1 : 0;
    }
    if (!split || waiting <= weights_behind(p, stage, k, all)) continue;
    order.push_back({weight_phase(p, chunk), weights++});
    --waiting;
  }
  while (split && weights < p.micro_batches) order.push_back({weight_phase(p, chunk), weights++});
  return order;
}

int in_flight(const std::vector<ir::PhaseRun>& order, int from, int to) {
  int now = 0, most = 0;
  for (const ir::PhaseRun& run : order) {
    now += (run.phase == from ? 1 : 0) - (run.phase == to ? 1 : 0);
    most = std::max(most, now);
  }
  return most;
}

std::vector<int> chunks_in_flight(const Pipeline& p, int stage) {
  std::vector<int> now(static_cast<size_t>(p.chunks)), most = now;
  for (const ir::PhaseRun& run : stage_order(p, stage)) {
    const auto chunk = static_cast<size_t>(run.phase % p.chunks);
    if (run.phase >= 2 * p.chunks) continue;
    now[chunk] += run.phase < p.chunks ? 1 : -1;
    most[chunk] = std::max(most[chunk], now[chunk]);
  }
  return most;
}

}  // namespace boxcar::planner
