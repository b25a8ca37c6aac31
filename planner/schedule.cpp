#include "planner/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <set>
#include <string_view>

#include "planner/planner.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/words.h"

namespace boxcar::planner {

namespace {

// Runs of a V-shaped schedule, in order, `times` times. F0 is a forward pass of chunk 0, B1 the first part of
// a backward pass of chunk 1, each of the next micro-batch. W is the second part that has waited longest, W0
// that of chunk 0.
struct Steps {
  int times;
  std::string_view runs;
};

// Runs of micro-batches from the n-th on are left out, if n is too small for the steps.
std::vector<Steps> zb_v(int p, int s, int n) {
  n = std::max(n, 2 * p - 1);
  return {{2 * (p - s) - 1, "F0"},  // until chunk 1 has an input
          {s, "F1 F0"},
          {p - s, "F1 B1 W"},  // until chunk 0 has a gradient
          {n - 2 * p + s + 1, "F0 B0 W F1 B1 W"},
          {p - s - 1, "B0 W F1 B1 W"},  // no micro-batch is left
          {s, "B0 B1"},
          {p - s, "B0 W0"},
          {s, "W1"},
          {s, "W0"}};
}

// From the middle of the last backward passes on, second parts wait for the end.
std::vector<Steps> dualpipe_v(int p, int s, int n) {
  n = std::max(n, 2 * p);
  const int half = (s + 1) / 2, odd = (s + 1) % 2;
  return {{2 * (p - s - 1), "F0"},
          {s + 1, "F0 F1"},
          {p - s - 1, "B1 W F1"},
          {n - 2 * p + s + 1, "F0 B1 W F1 B0 W"},
          {p - s - 1, "B1 W F1 B0 W"},
          {half, "B1 W B0 W"},
          {odd, "B1 W B0"},
          {s + 1 - half - odd, "B1 B0"},
          {p - s - 1, "W B0"},
          {s + 1, "W"}};
}

struct Row {
  Schedule kind;
  // Forward passes of stage `stage` of `stages` before its first backward pass, if there are enough.
  int (*ahead)(int stages, int stage, int micro_batches) = nullptr;
  // If the backward pass is split: the second parts that wait while there is a forward pass to run.
  int (*behind)(int stage) = nullptr;
  std::vector<Steps> (*v_shaped)(int stages, int stage, int micro_batches) = nullptr;  // in place of both
};

constexpr Row rows[] = {
    {Schedule::one_f_one_b, [](int stages, int stage, int) { return stages - stage - 1; }},
    {Schedule::gpipe, [](int, int, int micro_batches) { return micro_batches - 1; }},
    {Schedule::zb_h1, [](int stages, int stage, int) { return stages - stage - 1; },
     [](int stage) { return stage; }},
    {Schedule::zb_h2, [](int stages, int stage, int) { return 2 * (stages - stage - 1); },
     [](int stage) { return 2 * stage; }},
    {.kind = Schedule::zb_v, .v_shaped = zb_v},
    {.kind = Schedule::dualpipe_v, .v_shaped = dualpipe_v},
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

PartPlaces part_places(const Hints& h) { return {h.pp, is_v_shaped(h.schedule.kind)}; }

std::vector<int> layers_by_stage(const Hints& h) {
  const PartPlaces places = part_places(h);
  std::vector<int> layers(static_cast<size_t>(h.pp));
  for (int part = 0; part < static_cast<int>(h.stage_layers.size()); ++part)
    at(layers, places.stage(part)) += at(h.stage_layers, part);
  return layers;
}

bool is_v_shaped(Schedule kind) { return find_row(rows, kind).v_shaped != nullptr; }
bool splits_backward(Schedule kind) { return find_row(rows, kind).behind != nullptr || is_v_shaped(kind); }

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

std::vector<ir::PhaseRun> v_shaped_order(const Pipeline& p, int stage) {
  std::vector<ir::PhaseRun> order;
  std::array<int, 2> forward{}, backward{};
  std::deque<ir::PhaseRun> waiting;
  const auto add = [&](int phase, int micro_batch) {
    if (micro_batch < p.micro_batches) order.push_back({phase, micro_batch});
  };
  const auto run = [&](char kind, int chunk) {  // chunk -1: any
    if (kind == 'F') {
      add(forward_phase(chunk), at(forward, chunk)++);
    } else if (kind == 'B') {
      const int micro_batch = at(backward, chunk)++;
      add(backward_phase(p, chunk), micro_batch);
      waiting.push_back({weight_phase(p, chunk), micro_batch});
    } else {
      const auto next = std::ranges::find_if(
          waiting, [&](const ir::PhaseRun& run) { return chunk < 0 || run.phase == weight_phase(p, chunk); });
      add(next->phase, next->micro_batch);
      waiting.erase(next);
    }
  };
  for (const Steps& steps : find_row(rows, p.kind).v_shaped(p.stages, stage, p.micro_batches))
    for (int time = 0; time < steps.times; ++time)
      for (size_t i = 0; i < steps.runs.size(); ++i) {
        const char kind = steps.runs[i], next = i + 1 < steps.runs.size() ? steps.runs[i + 1] : ' ';
        if (kind == 'F' || kind == 'B' || kind == 'W')
          run(kind, next == '0' || next == '1' ? next - '0' : -1);
      }
  return order;
}

}  // namespace

std::vector<ir::PhaseRun> stage_order(const Pipeline& p, int stage) {
  if (is_v_shaped(p.kind)) return v_shaped_order(p, stage);
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

namespace {

// These schedules repeat the same runs for each micro-batch between the first and the last 2p.
ChunksInFlight v_shaped_in_flight(Pipeline p, int stage) {
  p.micro_batches = std::min(p.micro_batches, 4 * p.stages);
  const std::vector<ir::PhaseRun> order = stage_order(p, stage);
  ChunksInFlight result;
  for (int c = 0; c < p.chunks; ++c) {
    const int f = forward_phase(c), b = backward_phase(p, c), w = weight_phase(p, c);
    result.most.push_back(in_flight(order, f, w));
    result.first.push_back(in_flight(order, f, b));
    result.second.push_back(in_flight(order, b, w));
  }
  std::vector<int> now(result.most.size());
  int all = 0, most = 0;
  for (const ir::PhaseRun& run : order) {
    const ir::PhaseKind kind = kind_of_phase(p, run.phase);
    const int change = (kind == ir::PhaseKind::forward ? 1 : 0) - (kind == ir::PhaseKind::weight ? 1 : 0);
    at(now, chunk_of_phase(p, run.phase)) += change;
    all += change;
    if (all > most) most = all, result.at_once = now;
  }
  return result;
}

}  // namespace

ChunksInFlight chunks_in_flight(const Pipeline& p, int stage) {
  if (is_v_shaped(p.kind)) return v_shaped_in_flight(p, stage);
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
