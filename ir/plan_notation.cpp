#include "ir/plan_notation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "sbp/at.h"

namespace boxcar::ir {
namespace {

// `count` values, `stride` apart. Lists of these nest, outermost first.
struct Stride {
  int count = 1, stride = 1;
};
using Strides = std::vector<Stride>;

std::vector<int> spread(const Strides& strides, int first) {
  std::vector<int> values{first};
  for (const Stride& s : strides) {
    std::vector<int> next;
    next.reserve(values.size() * static_cast<size_t>(s.count));
    for (int v : values) {
      for (int i = 0; i < s.count; ++i) next.push_back(v + i * s.stride);
    }
    values = std::move(next);
  }
  return values;
}

// The nested strides that give `values`, if there are any.
std::optional<Strides> factor(std::vector<int> values) {
  Strides strides;
  while (values.size() > 1) {
    int stride = values[1] - values[0];
    size_t n = 1;
    while (n < values.size() && values[n] - values[n - 1] == stride) ++n;
    if (stride <= 0 || values.size() % n != 0) return {};
    std::vector<int> outer;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % n == 0) {
        outer.push_back(values[i]);
      } else if (values[i] - values[i - 1] != stride) {
        return {};
      }
    }
    strides.insert(strides.begin(), {static_cast<int>(n), stride});
    values = std::move(outer);
  }
  if (strides.empty()) strides.push_back({1, 1});
  return strides;
}

std::string strides_text(const Strides& strides) {
  std::string text;
  for (const Stride& s : strides)
    text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", s.count, s.stride);
  return text;
}

// A run inside a loop of a schedule: micro-batches first..last, each plus step x turn.
struct Item {
  int phase = 0, first = 0, last = 0, step = 0;
};

// Whether run j repeats `n` turns of `length` later, with a micro-batch that grows evenly.
bool comes_again(std::span<const PhaseRun> runs, size_t j, size_t length, size_t n) {
  const PhaseRun& first = runs[j];
  const PhaseRun& here = runs[j + n * length];
  const int64_t step = int64_t{runs[j + length].micro_batch} - first.micro_batch;
  return here.phase == first.phase && step >= 0 &&
         here.micro_batch == first.micro_batch + step * static_cast<int64_t>(n);
}

// How often the `length` runs from `begin` repeat with micro-batches that grow evenly.
size_t turns(std::span<const PhaseRun> runs, size_t begin, size_t length) {
  size_t n = 1;
  for (; begin + (n + 1) * length <= runs.size(); ++n)
    for (size_t j = begin; j < begin + length; ++j)
      if (!comes_again(runs, j, length, n)) return n;
  return n;
}

std::string items_text(const std::vector<Item>& items, const std::vector<PlanPhase>& phases, bool loop) {
  std::string text;
  for (const Item& item : items) {
    if (!text.empty()) text += ' ';
    text += name_text(at(phases, item.phase).name) + fmt::format("[{}", item.first);
    if (item.last != item.first) text += fmt::format("-{}", item.last);
    if (loop) text += fmt::format("+{}", item.step);
    text += ']';
  }
  return text;
}

// The body of a loop. Adjacent runs of one phase with consecutive micro-batches and equal steps are one item.
std::vector<Item> body(std::span<const PhaseRun> runs, size_t begin, size_t length) {
  std::vector<Item> items;
  for (size_t j = begin; j < begin + length; ++j) {
    int step = runs[j + length].micro_batch - runs[j].micro_batch;
    bool joins = !items.empty() && items.back().phase == runs[j].phase && items.back().step == step &&
                 items.back().last + 1 == runs[j].micro_batch;
    if (joins) {
      items.back().last = runs[j].micro_batch;
    } else {
      items.push_back({runs[j].phase, runs[j].micro_batch, runs[j].micro_batch, step});
    }
  }
  return items;
}

// The loop at `begin` that covers the most runs beyond its first turn; length 0 if nothing repeats.
struct Loop {
  size_t length = 0, turns = 1;
};
Loop best_loop(std::span<const PhaseRun> runs, size_t begin) {
  constexpr size_t longest = 512;
  Loop best;
  size_t saved = 0;
  for (size_t length = 1; length <= longest && begin + 2 * length <= runs.size(); ++length) {
    // Check the first run that a shorter loop did not cover before all others.
    const size_t n_more = 1 + saved / length;
    if (begin + (n_more + 1) * length > runs.size()) continue;
    if (!comes_again(runs, begin + saved % length, length, n_more)) continue;
    size_t n = turns(runs, begin, length);
    if ((n - 1) * length > saved) {
      saved = (n - 1) * length;
      best = {length, n};
    }
  }
  return best;
}

}  // namespace

std::string device_list(const std::vector<int>& devices) {
  std::string text;
  for (size_t i = 0, j = 0; i < devices.size(); i = j) {
    for (j = i + 1; j < devices.size() && devices[j] == devices[j - 1] + 1;) ++j;
    text += fmt::format("{}{}", text.empty() ? "" : ",", devices[i]);
    if (j - i > 1) text += fmt::format("-{}", devices[j - 1]);
  }
  return text;
}

std::string groups_text(const std::vector<std::vector<int>>& groups) {
  std::vector<int> firsts;
  bool alike = !groups.empty() && !groups[0].empty();
  for (size_t g = 0; alike && g < groups.size(); ++g) {
    alike = groups[g].size() == groups[0].size();
    if (!alike) break;
    firsts.push_back(groups[g][0]);
    for (size_t i = 0; i < groups[g].size(); ++i)
      alike &= groups[g][i] - groups[g][0] == groups[0][i] - groups[0][0];
  }
  auto starts = alike ? factor(firsts) : std::nullopt;
  auto ranks = alike ? factor(groups[0]) : std::nullopt;
  if (starts && ranks) {
    std::string text = fmt::format("groups {}, ranks {}", strides_text(*starts), strides_text(*ranks));
    return firsts[0] == 0 ? text : text + fmt::format(", from {}", firsts[0]);
  }
  std::string text;
  for (const auto& group : groups)
    text += fmt::format("{}{{{}}}", text.empty() ? "" : " ", device_list(group));
  return text;
}

std::string peers_text(const std::vector<int>& source) {
  std::string text;
  for (size_t i = 0, j = 0; i < source.size(); i = j) {
    for (j = i + 1; source[i] >= 0 && j < source.size() && source[j] == source[j - 1] + 1;) ++j;
    if (source[i] < 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
    if (j - i > 1) text += fmt::format("-{}", j - 1);
    text += fmt::format(" from {}", source[i]);
    if (j - i > 1) text += fmt::format("-{}", source[j - 1]);
  }
  return text;
}

std::string schedule_text(const std::vector<PhaseRun>& schedule, const std::vector<PlanPhase>& phases) {
  std::string text;
  auto add = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  std::vector<int> counts(phases.size());
  for (const PhaseRun& run : schedule) ++at(counts, run.phase);
  auto runs_once = [&](const PhaseRun& run) { return run.micro_batch == 0 && at(counts, run.phase) == 1; };
  for (size_t i = 0; i < schedule.size();) {
    Loop loop = best_loop(schedule, i);
    if (loop.length == 0) {
      const PhaseRun& run = schedule[i++];
      const std::string& phase = at(phases, run.phase).name;
      add(runs_once(run) ? name_text(phase) : fmt::format("{}[{}]", name_text(phase), run.micro_batch));
      continue;
    }
    std::vector<Item> items = body(schedule, i, loop.length);
    if (loop.length == 1 && items[0].step == 1) {
      items[0].last += static_cast<int>(loop.turns) - 1;
      add(items_text(items, phases, false));
    } else {
      add(fmt::format("{}*({})", loop.turns, items_text(items, phases, true)));
    }
    i += loop.length * loop.turns;
  }
  return text;
}

std::vector<int> parse_device_list(PlanLine& in, int devices) {
  std::vector<int> list;
  do {
    int first = static_cast<int>(in.number(0, devices - 1));
    int last = in.take('-') ? static_cast<int>(in.number(first, devices - 1)) : first;
    for (int d = first; d <= last; ++d) list.push_back(d);
    if (list.size() > static_cast<size_t>(devices)) in.fail("more entries than there are devices");
  } while (in.take(','));
  return list;
}

namespace {

// "2 by 8, 2 by 1", and then ", stop" if it follows: `stopped`.
Strides parse_strides(PlanLine& in, int devices, std::string_view stop, bool& stopped) {
  Strides strides;
  int64_t total = 1;
  stopped = false;
  do {
    Stride s;
    s.count = static_cast<int>(in.number(1, devices));
    in.expect_word("by");
    s.stride = static_cast<int>(in.number(1, devices));
    strides.push_back(s);
    total *= s.count;
    if (total > devices) in.fail(fmt::format("{} of {} devices", total, devices));
    if (!in.take(',')) break;
    stopped = in.take_word(stop);
  } while (!stopped);
  return strides;
}

Item parse_item(PlanLine& in, const std::vector<PlanPhase>& phases, bool loop) {
  size_t begin = in.at();
  std::string name = in.name("a phase");
  const auto found =
      std::find_if(phases.begin(), phases.end(), [&](const PlanPhase& phase) { return phase.name == name; });
  if (found == phases.end()) in.fail_at(begin, fmt::format("no phase {}", name));
  Item item;
  item.phase = static_cast<int>(found - phases.begin());
  if (!loop && !in.peek('[')) return item;
  in.expect('[');
  item.first = item.last = static_cast<int>(in.number(0, most_runs));
  if (in.take('-')) item.last = static_cast<int>(in.number(item.first, most_runs));
  if (loop) {
    in.expect('+');
    item.step = static_cast<int>(in.number(0, most_runs));
  }
  in.expect(']');
  return item;
}

}  // namespace

std::vector<std::vector<int>> parse_groups(PlanLine& in, int devices) {
  std::vector<std::vector<int>> groups;
  if (!in.take_word("groups")) {
    size_t listed = 0;
    while (in.take('{')) {
      groups.push_back(parse_device_list(in, devices));
      in.expect('}');
      listed += groups.back().size();
      if (listed > static_cast<size_t>(devices)) in.fail("more entries than there are devices");
    }
    return groups;
  }
  bool stopped = false;
  Strides starts = parse_strides(in, devices, "ranks", stopped);
  if (!stopped) in.expect_word("ranks");
  Strides ranks = parse_strides(in, devices, "from", stopped);
  int first = stopped ? static_cast<int>(in.number(0, devices - 1)) : 0;
  int64_t size = 1, last = first;
  for (const Strides& list : {starts, ranks}) {
    for (const Stride& s : list) {
      size *= s.count;
      last += int64_t{s.count - 1} * s.stride;
    }
  }
  if (size > devices) in.fail(fmt::format("{} ranks of {} devices", size, devices));
  if (last >= devices) in.fail(fmt::format("device {} of {}", last, devices));
  for (int start : spread(starts, first)) groups.push_back(spread(ranks, start));
  return groups;
}

std::vector<int> parse_peers(PlanLine& in, int devices) {
  std::vector<int> source(static_cast<size_t>(devices), -1);
  if (in.done()) return source;
  do {
    int first = static_cast<int>(in.number(0, devices - 1));
    int last = in.take('-') ? static_cast<int>(in.number(first, devices - 1)) : first;
    in.expect_word("from");
    int from = static_cast<int>(in.number(0, devices - 1)), to = from;
    if (in.take('-')) to = static_cast<int>(in.number(from, devices - 1));
    if (to - from != last - first) {
      in.fail(fmt::format("{} devices pull from {}", last - first + 1, to - from + 1));
    }
    for (int d = first; d <= last; ++d) at(source, d) = from + d - first;
  } while (in.take(','));
  return source;
}

std::vector<PhaseRun> parse_schedule(PlanLine& in, const std::vector<PlanPhase>& phases, int64_t most) {
  std::vector<PhaseRun> schedule;
  auto add = [&](const Item& item, int64_t turn) {
    int64_t shift = item.step * turn;
    int64_t runs = static_cast<int64_t>(schedule.size()) + item.last - item.first + 1;
    if (item.last + shift > most_runs || runs > most) in.fail("the schedule is too long");
    for (int m = item.first; m <= item.last; ++m)
      schedule.push_back({item.phase, m + static_cast<int>(shift)});
  };
  while (!in.done()) {
    int64_t turns = in.turns();
    if (turns < 0) {
      add(parse_item(in, phases, false), 0);
      continue;
    }
    in.expect('(');
    std::vector<Item> items;
    do items.push_back(parse_item(in, phases, true));
    while (!in.peek(')'));
    in.expect(')');
    for (int64_t turn = 0; turn < turns; ++turn) {
      for (const Item& item : items) add(item, turn);
    }
  }
  return schedule;
}

}  // namespace boxcar::ir
