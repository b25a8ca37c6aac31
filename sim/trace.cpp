#include "sim/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "sbp/at.h"

namespace boxcar::sim {
namespace {

constexpr int windows = 2000;         // samples of a counter
constexpr size_t flush_at = 1 << 16;  // bytes

// Every act of one class, and the number of acts in a step.
struct ClassTimeline {
  const ir::Program* program = nullptr;
  std::vector<std::span<const Act>> acts;  // by actor and index
  std::vector<std::span<const Act>> last;  // of the last step
  std::vector<int> per_step;               // acts of each actor in one step
};

// Memory that a register's slot takes or gives back.
struct Change {
  double time;
  int64_t bytes;
  int slots;
  size_t kind;
};

class Writer {
 public:
  Writer(const ir::Plan& plan, const Result& result, std::ostream& out)
      : plan_(plan), result_(result), out_(out) {
    steps_ = static_cast<int>(result.step_ends.size());
    begin_ = steps_ > 1 ? at(result.step_ends, steps_ - 2) : 0;
    end_ = steps_ > 0 ? result.step_ends.back() : 0;
    index_acts();
    zero_ = first_start();
  }

  void run() {
    buffer_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (size_t cls = 0; cls < classes_.size(); ++cls) {
      if (!written(cls)) continue;
      name_tracks(cls);
      write_acts(cls);
      write_flows(cls);
      write_counters(cls);
    }
    if (buffer_.ends_with(",\n")) buffer_.resize(buffer_.size() - 2);
    buffer_ += "\n]}\n";
    out_ << buffer_;
  }

 private:
  void index_acts() {
    classes_.resize(result_.classes.size());
    class_of_.assign(static_cast<size_t>(plan_.devices), -1);
    for (size_t cls = 0; cls < classes_.size(); ++cls) {
      ClassTimeline& c = classes_[cls];
      c.program = &at(plan_.programs, result_.classes[cls].program);
      c.acts.resize(c.program->actors.size());
      c.last.resize(c.program->actors.size());
      std::vector<int> runs(c.program->phases.size(), 0);
      for (const ir::PhaseRun& run : c.program->schedule) ++at(runs, run.phase);
      for (const ir::Actor& actor : c.program->actors) c.per_step.push_back(at(runs, actor.phase));
      for (int device : result_.classes[cls].devices) at(class_of_, device) = static_cast<int>(cls);
    }
    for (auto act = result_.timeline.begin(); act != result_.timeline.end();) {
      const auto next = std::find_if(act, result_.timeline.end(), [&](const Act& other) {
        return other.cls != act->cls || other.actor != act->actor;
      });
      ClassTimeline& c = at(classes_, act->cls);
      const auto actor = static_cast<size_t>(act->actor);
      c.acts[actor] = {act, next};
      c.last[actor] = c.acts[actor].subspan(static_cast<size_t>((steps_ - 1) * c.per_step[actor]));
      act = next;
    }
    for (size_t cls = 0; cls < classes_.size(); ++cls) whole_ = whole_ && written(cls);
  }

  // Whether its acts were kept.
  bool written(size_t cls) const {
    const auto& acts = classes_[cls].acts;
    return std::any_of(acts.begin(), acts.end(), [](std::span<const Act> one) { return !one.empty(); });
  }

  bool in_last_step(const ClassTimeline& c, const Act& act) const {
    return act.index >= (steps_ - 1) * at(c.per_step, act.actor);
  }

  // Acts of the last step that run ahead (loads, gathers) may begin before the step before it ends.
  double first_start() const {
    double first = begin_;
    for (const ClassTimeline& c : classes_)
      for (const std::span<const Act> acts : c.last)
        if (!acts.empty()) first = std::min(first, acts.front().start);
    return first;
  }

  // From the trace's begin. Readers count in nanoseconds and drop slices that overlap, so begins and ends are
  // rounded, and durations are what lies between.
  int64_t nanoseconds(double seconds) const { return std::llround((seconds - zero_) * 1e9); }
  double microseconds(double seconds) const { return static_cast<double>(nanoseconds(seconds)) / 1000; }

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    end_line();
  }

  void end_line() {
    add(",\n");
    if (buffer_.size() < flush_at) return;
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size() - 2));
    buffer_ = ",\n";
  }

  void add(std::string_view text) { buffer_ += text; }
  void add(const fmt::format_int& number) { buffer_.append(number.data(), number.size()); }

  // In microseconds: 1234 as 1.234.
  void add_time(int64_t nanoseconds) {
    const auto rest = static_cast<int>(std::abs(nanoseconds) % 1000);
    if (nanoseconds < 0) add("-");
    add(fmt::format_int(std::abs(nanoseconds) / 1000));
    const char digits[] = {'.', digit(rest / 100), digit(rest / 10 % 10), digit(rest % 10)};
    add({digits, 4});
  }
  static char digit(int value) { return static_cast<char>('0' + value); }

  void name_tracks(size_t cls) {
    const ClassTimeline& c = classes_[cls];
    const auto& devices = result_.classes[cls].devices;
    std::string name = devices.size() == 1 ? fmt::format("device {} ({})", devices[0], c.program->name)
                                           : fmt::format("device {} ({}, stands for {})", devices[0],
                                                         c.program->name, devices.size());
    line(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})", cls, name);
    line(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})", cls);
    for (size_t q = 0; q < c.program->queues.size(); ++q) {
      line(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", cls, q,
           c.program->queues[q].name);
      line(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", cls, q,
           q);
    }
  }

  void write_acts(size_t cls) {
    const ClassTimeline& c = classes_[cls];
    for (size_t a = 0; a < c.acts.size(); ++a) {
      const ir::Actor& actor = c.program->actors[a];
      const std::string head = fmt::format(R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":)",
                                           actor.name, c.program->phase_of(actor).name, cls, actor.queue);
      for (const Act& act : c.last[a]) {
        add(head);
        add_time(nanoseconds(act.start));
        add(R"(,"dur":)");
        add_time(nanoseconds(act.end) - nanoseconds(act.start));
        add(R"(,"args":{"act":)");
        add(fmt::format_int(act.index % c.per_step[a]));
        add("}}");
        end_line();
      }
    }
  }

  // The class and register that an input reads.
  struct Source {
    size_t cls = 0;
    const ir::Register* reg = nullptr;
  };
  Source source_of(size_t cls, const ir::Input& input) const {
    if (input.peers < 0) return {cls, &at(classes_[cls].program->registers, input.reg)};
    int device = at(at(plan_.peers, input.peers).source, result_.classes[cls].devices[0]);
    auto from = static_cast<size_t>(at(class_of_, device));
    return {from, &at(classes_[from].program->registers, input.reg)};
  }

  static bool is_own(const ir::Actor& actor, const ir::Input& input) {
    return input.peers < 0 &&
           std::find(actor.outputs.begin(), actor.outputs.end(), input.reg) != actor.outputs.end();
  }

  // The act that published the slot read by a reader's act `index`; nullptr where the slot was there from the
  // start.
  const Act* writer_of(const Source& source, const ir::Input& input, int index) const {
    int slot = index / input.repeat - source.reg->initial;
    if (slot < 0 || source.reg->producer < 0) return nullptr;
    const auto& acts = at(classes_[source.cls].acts, source.reg->producer);
    auto at = static_cast<size_t>((slot + 1) * source.reg->every - 1);
    return at < acts.size() ? &acts[at] : nullptr;
  }

  void write_flows(size_t cls) {
    const ClassTimeline& c = classes_[cls];
    for (size_t a = 0; a < c.acts.size(); ++a) {
      const ir::Actor& actor = c.program->actors[a];
      for (const ir::Input& input : actor.inputs) {
        if (is_own(actor, input)) continue;
        Source source = source_of(cls, input);
        if (source.reg->producer < 0) continue;
        int queue = at(classes_[source.cls].program->actors, source.reg->producer).queue;
        if (source.cls == cls && (queue == actor.queue || !whole_)) continue;
        if (!written(source.cls)) continue;
        for (const Act& act : c.last[a]) {
          if (act.index % input.repeat != 0) continue;
          const Act* from = writer_of(source, input, act.index);
          if (!from || !in_last_step(classes_[source.cls], *from)) continue;
          line(R"({{"ph":"s","name":"req","cat":"req","id":{},"pid":{},"tid":{},"ts":{:.3f}}})", ++flows_,
               source.cls, queue, microseconds(from->end));
          line(R"({{"ph":"f","bp":"e","name":"req","cat":"req","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
               flows_, cls, actor.queue, microseconds(act.start));
        }
      }
    }
  }

  // Tells `held` of each slot of each register of a class from when to when: from the start of the act that
  // first writes it to the end of the last act that reads it.
  template <typename Held>
  void each_holding(size_t cls, const Held& held) const {
    const ClassTimeline& c = classes_[cls];
    std::vector<std::vector<double>> ends(
        c.program->registers.size());  // by register, by publication (initial ones first)
    auto read = [&](size_t reg, int slot, double end) {
      if (ends[reg].size() <= static_cast<size_t>(slot)) ends[reg].resize(static_cast<size_t>(slot) + 1, -1);
      at(ends[reg], slot) = std::max(at(ends[reg], slot), end);
    };
    for (size_t reader = 0; reader < classes_.size(); ++reader) {
      const ClassTimeline& r = classes_[reader];
      for (size_t a = 0; a < r.acts.size(); ++a) {
        for (const ir::Input& input : r.program->actors[a].inputs) {
          if (is_own(r.program->actors[a], input) || (input.peers < 0 && reader != cls)) continue;
          if (input.peers >= 0 && source_of(reader, input).cls != cls) continue;
          for (const Act& act : r.acts[a])
            read(static_cast<size_t>(input.reg), act.index / input.repeat, act.end);
        }
      }
    }
    for (size_t reg = 0; reg < ends.size(); ++reg) {
      const ir::Register& r = c.program->registers[reg];
      if (r.bytes == 0 || r.producer < 0) continue;
      const auto& acts = at(c.acts, r.producer);
      for (int slot = 0; slot < r.initial; ++slot) {
        held(r, 0, static_cast<size_t>(slot) < ends[reg].size() ? at(ends[reg], slot) : 0);
      }
      for (size_t first = 0; first < acts.size(); first += static_cast<size_t>(r.every)) {
        size_t last = std::min(acts.size(), first + static_cast<size_t>(r.every)) - 1;
        size_t slot = first / static_cast<size_t>(r.every) + static_cast<size_t>(r.initial);
        double until = slot < ends[reg].size() ? std::max(ends[reg][slot], acts[last].end) : acts[last].end;
        held(r, acts[first].start, until);
      }
    }
  }

  void write_counters(size_t cls) {
    const auto window_of = [&](double time) {
      const double share = (time - begin_) / std::max(end_ - begin_, 1e-300);
      return time < begin_ ? -1 : std::min(static_cast<int>(share * windows), windows);
    };
    std::array<int64_t, ir::memory_kinds> bytes{}, most{};
    int64_t slots = 0, most_slots = 0;
    const auto make = [&](const Change& change) {
      bytes[change.kind] += change.bytes;
      slots += change.slots;
    };
    const auto change = [&](const Change& change) {
      const int window = window_of(change.time);
      if (window < 0) return make(change);
      at(changes_, window).push_back(change);
    };
    each_holding(cls, [&](const ir::Register& reg, double from, double to) {
      const auto kind = static_cast<size_t>(reg.memory);
      change({from, reg.bytes, 1, kind});
      change({to, -reg.bytes, -1, kind});
    });
    for (int window = 0; window <= windows; ++window) {
      std::vector<Change>& here = at(changes_, window);
      if (here.empty()) continue;
      std::sort(here.begin(), here.end(), [](const Change& a, const Change& b) {
        return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
      });
      most = bytes;
      most_slots = slots;
      for (const Change& change : here) {
        make(change);
        most[change.kind] = std::max(most[change.kind], bytes[change.kind]);
        most_slots = std::max(most_slots, slots);
      }
      here.clear();
      write_sample(cls, begin_ + window * (end_ - begin_) / windows, most, most_slots);
    }
  }

  void write_sample(size_t cls, double time, const std::array<int64_t, ir::memory_kinds>& bytes,
                    int64_t slots) {
    std::string values;
    for (size_t kind = 0; kind < bytes.size(); ++kind) {
      values += fmt::format("{}\"{}\":{}", kind ? "," : "", ir::to_text(static_cast<ir::MemoryKind>(kind)),
                            bytes[kind]);
    }
    line(R"({{"ph":"C","name":"bytes in registers","pid":{},"ts":{:.3f},"args":{{{}}}}})", cls,
         microseconds(time), values);
    line(R"({{"ph":"C","name":"register slots in use","pid":{},"ts":{:.3f},"args":{{"slots":{}}}}})", cls,
         microseconds(time), slots);
  }

  const ir::Plan& plan_;
  const Result& result_;
  std::ostream& out_;
  std::string buffer_;
  std::vector<ClassTimeline> classes_;
  std::vector<int> class_of_;
  int steps_ = 0;
  double begin_ = 0, end_ = 0;  // of the last step
  double zero_ = 0;             // where the trace begins
  int64_t flows_ = 0;
  std::vector<std::vector<Change>> changes_ = std::vector<std::vector<Change>>(windows + 1);  // by window
  bool whole_ = true;  // else some classes alone, and arrows between devices alone
};

}  // namespace

void write_chrome_trace(const ir::Plan& plan, const Result& result, std::ostream& out) {
  Writer(plan, result, out).run();
}

}  // namespace boxcar::sim
