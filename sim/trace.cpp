#include "sim/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "sbp/at.h"
#include "sim/step_timeline.h"

namespace boxcar::sim {
namespace {

constexpr int windows = 2000;         // samples of a counter
constexpr size_t flush_at = 1 << 16;  // bytes

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
      : timeline_(plan, result), result_(result), out_(out), zero_(timeline_.first_start()) {}

  void run() {
    buffer_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (size_t cls = 0; cls < timeline_.classes().size(); ++cls) {
      if (!timeline_.kept(cls)) continue;
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
  // From the trace's begin. Readers count in nanoseconds and drop slices that overlap, so begins and ends are
  // rounded, and durations are their differences.
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
    const ClassTimeline& c = timeline_.classes()[cls];
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
    const ClassTimeline& c = timeline_.classes()[cls];
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

  void write_flows(size_t cls) {
    const ClassTimeline& c = timeline_.classes()[cls];
    for (size_t a = 0; a < c.acts.size(); ++a) {
      const ir::Actor& actor = c.program->actors[a];
      for (const ir::Input& input : actor.inputs) {
        if (is_own(actor, input)) continue;
        const StepTimeline::Source source = timeline_.source_of(cls, input);
        if (source.reg->producer < 0) continue;
        int queue = at(timeline_.classes()[source.cls].program->actors, source.reg->producer).queue;
        if (source.cls == cls && (queue == actor.queue || !timeline_.all_kept())) continue;
        if (!timeline_.kept(source.cls)) continue;
        for (const Act& act : c.last[a]) {
          if (act.index % input.repeat != 0) continue;
          const Act* from = timeline_.writer_of(source, input, act.index);
          if (!from || !timeline_.in_last_step(source.cls, *from)) continue;
          line(R"({{"ph":"s","name":"req","cat":"req","id":{},"pid":{},"tid":{},"ts":{:.3f}}})", ++flows_,
               source.cls, queue, microseconds(from->end));
          line(R"({{"ph":"f","bp":"e","name":"req","cat":"req","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
               flows_, cls, actor.queue, microseconds(act.start));
        }
      }
    }
  }

  void write_counters(size_t cls) {
    const double begin = timeline_.begin(), end = timeline_.end();
    const auto window_of = [&](double time) {
      const double share = (time - begin) / std::max(end - begin, 1e-300);
      return time < begin ? -1 : std::min(static_cast<int>(share * windows), windows);
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
    timeline_.each_holding(cls, [&](const ir::Register& reg, double from, double to, bool) {
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
      write_sample(cls, begin + window * (end - begin) / windows, most, most_slots);
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

  const StepTimeline timeline_;
  const Result& result_;
  std::ostream& out_;
  std::string buffer_;
  const double zero_;  // where the trace begins
  int64_t flows_ = 0;
  std::vector<std::vector<Change>> changes_ = std::vector<std::vector<Change>>(windows + 1);  // by window
};

}  // namespace

void write_chrome_trace(const ir::Plan& plan, const Result& result, std::ostream& out) {
  Writer(plan, result, out).run();
}

}  // namespace boxcar::sim
