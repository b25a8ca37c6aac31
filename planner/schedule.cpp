#include "planner/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "planner/planner.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/words.h"

namespace boxcar::planner {

namespace {

struct Row {
  Schedule kind;
  // Forward passes of stage `stage` of `stages` before its first backward pass, if there are enough.
  int (*ahead)(int stages, int stage, int micro_batches);
  // If the backward pass is split: the second parts that wait while there is a forward pass to run.
  int (*behind)(int stage) = nullptr;
};

constexpr Row rows[] = {
    {Schedule::one_f_one_b, [](int stages, int stage, int) { return stages - stage - 1; }},
    {Schedule::gpipe, [](int, int, int micro_batches) { return micro_batches - 1; }},
    {Schedule::zb_h1, [](int stages, int stage, int) { return stages - stage - 1; },
     [](int stage) { return stage; }},
    {Schedule::zb_h2, [](int stages, int stage, int) { return 2 * (stages - stage - 1); },
     [](int stage) { return 2 * stage; }},
};

// Forward passes of one chunk before the first backward pass, where there are enough.
int ahead_of(Schedule kind, const std::vector<int>& in_flight, int stages, int stage, int micro_batches) {
  if (!in_flight.empty()) return at(in_flight, stage) - 1;
  return find_row(rows, kind).ahead(stages, stage, micro_batches);
}

// The numbers of "7,5,3,1"; empty unless the text is a list of whole numbers of at least 1.
std::vector<int> counts_of(const std::string& text) {
  std::vector<int> counts;
  const char* end = text.data() + text.size();
  for (const char* at = text.data();;) {
    int count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 1 || (next != end && *next != ',')) return {};
    counts.push_back(count);
    if (next == end) return counts;
    at = next + 1;
  }
}

}  // namespace

PipelineSchedule parse_schedule(const std::string& text, const std::string& where) {
  if (const auto kind = parse_word<Schedule>(text)) return *kind;
  std::vector<int> counts = counts_of(text);
  if (counts.empty())
    throw Error::input(where, fmt::format("unknown schedule '{}' (use {} or the micro-batches in flight on "
                                          "each stage, as 4,3,2,1; virtual_stages > 1 interleaves 1f1b)",
                                          text, fmt::join(words_of(Schedule()), ", ")));
  return PipelineSchedule(std::move(counts));
}

std::string to_text(const PipelineSchedule& schedule) {
  if (!schedule.in_flight.empty()) return fmt::format("{}", fmt::join(schedule.in_flight, ","));
  return word(schedule.kind);
}

Pipeline pipeline_of(const Hints& h, int micro_batches) {
  return {h.schedule.kind, h.pp, h.virtual_stages, micro_batches, h.schedule.in_flight, h.defer_head_grad};
}

bool splits_backward(Schedule kind) { return find_row(rows, kind).behind != nullptr; }

int most_in_flight(const PipelineSchedule& schedule, int stages, int stage, int micro_batches) {
  const Row& row = find_row(rows, schedule.kind);
  const int waiting = row.behind ? row.behind(stage) : 0;
  return std::min(micro_batches,
                  ahead_of(schedule.kind, schedule.in_flight, stages, stage, micro_batches) + 1 + waiting);
}

MostOfParts most_of_parts(const Pipeline& p, int stage) {
  const int first =
      std::min(p.micro_batches, ahead_of(p.kind, p.in_flight, p.stages, stage, p.micro_batches) + 1);
  if (!splits_backward(p.kind)) return {first, 0};
  // From the last forward pass on, the second parts catch up.
  return {first, std::min(find_row(rows, p.kind).behind(stage), p.micro_batches - first) + 1};
}

// The larger groups come first.
Groups::Groups(const Pipeline& p)
    : count(p.chunks > 1 ? std::max(1, p.micro_batches / p.stages) : 1), micro_batches(p.micro_batches) {}

int Groups::begin(int group) const {
  const int smaller = micro_batches / count, larger = micro_batches % count;
  return group * smaller + std::min(group, larger);
}

namespace {

// Forward or backward runs in the interleaved order, one after the other: groups of micro-batches go through
// all chunks in turn.
//
//   two chunks, groups of 2   chunk 0: 0 1, chunk 1: 0 1, chunk 0: 2 3, chunk 1: 2 3
class InterleavedRuns {
 public:
  // Begins with a group.
  InterleavedRuns(const Pipeline& p, const Groups& groups, bool forward, int group = 0)
      : p_(p), groups_(groups), forward_(forward) {
    begin(group);
  }

  ir::PhaseRun next() {
    const ir::PhaseRun run{forward_ ? forward_phase(chunk_) : backward_phase(p_, p_.chunks - 1 - chunk_),
                           micro_batch_};
    if (++micro_batch_ == end_) {
      micro_batch_ = begin_;
      if (++chunk_ == p_.chunks) begin(group_ + 1);
    }
    return run;
  }

 private:
  void begin(int group) {
    group_ = group, chunk_ = 0;
    begin_ = micro_batch_ = groups_.begin(group);
    end_ = groups_.begin(group + 1);
  }

  const Pipeline& p_;
  const Groups& groups_;
  bool forward_;
  int group_ = 0, chunk_ = 0, begin_ = 0, end_ = 0, micro_batch_ = 0;
};

// Forward runs made before the first backward one.
int warm_up(const Pipeline& p, int stage) {
  const int ahead = p.chunks > 1 ? (p.stages - stage - 1) * 2 + (p.chunks - 1) * Groups(p).largest()
                                 : ahead_of(p.kind, p.in_flight, p.stages, stage, p.micro_batches);
  return std::min(ahead, p.micro_batches * p.chunks - 1);
}

// Micro-batches that wait for the second part of their backward pass after run `k` of `all`.
int weights_behind(const Pipeline& p, int stage, int k, int all) {
  if (p.head_behind > 0) return p.head_behind;
  if (k + 1 >= all) return 0;  // no forward pass is left
  return find_row(rows, p.kind).behind(stage);
}

}  // namespace

std::vector<ir::PhaseRun> stage_order(const Pipeline& p, int stage) {
  const int all = p.micro_batches * p.chunks;
  const int ahead = warm_up(p, stage);
  const bool split = splits_backward(p, stage);
  const int chunk = p.chunks - 1;  // the head's; a schedule that splits all passes has one
  const Groups groups(p);
  InterleavedRuns forward(p, groups, true), backward(p, groups, false);
  std::vector<ir::PhaseRun> order;
  int weights = 0, waiting = 0;  // second parts of backward passes done so far, and waiting ones
  for (int k = 0; k < all + ahead; ++k) {
    if (k < all) order.push_back(forward.next());
    if (k >= ahead) {
      order.push_back(backward.next());
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

ChunksInFlight chunks_in_flight(const Pipeline& p, int stage) {
  const Groups groups(p);
  const int all = p.micro_batches * p.chunks, ahead = warm_up(p, stage);
  ChunksInFlight result;
  result.most.resize(static_cast<size_t>(p.chunks));
  int most_at_once = 0;
  // After the warm-up every group is like the previous one, except the first of the smaller ones.
  const int some = ahead + 3 * p.chunks * groups.largest();
  for (const int group : std::set{0, p.micro_batches % groups.count}) {
    const int start = groups.begin(group) * p.chunks;
    InterleavedRuns forward(p, groups, true, group), backward(p, groups, false);
    std::vector<int> now(result.most.size(), start / p.chunks);
    for (int k = 0; k < start - ahead; ++k) --at(now, backward.next().phase - p.chunks);
    int at_once = start - std::max(0, start - ahead);
    for (int k = start; k < std::min(all, start + some); ++k) {
      const int chunk = forward.next().phase;
      at(result.most, chunk) = std::max(at(result.most, chunk), ++at(now, chunk));
      if (++at_once > most_at_once) most_at_once = at_once, result.at_once = now;
      if (k < ahead) continue;
      --at(now, backward.next().phase - p.chunks);
      --at_once;
    }
  }
  return result;
}

}  // namespace boxcar::planner
