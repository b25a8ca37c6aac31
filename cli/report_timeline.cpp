#include "cli/report_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "sbp/at.h"
#include "sim/explain/tensor_explanation.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

constexpr double ticks_per_step = 1 << 28;  // 0.1 us of a step of 30 s: as fine as any screen can show
constexpr double least_tick_seconds = 1e-9;
constexpr int memory_windows = 400;     // about the pixels of a chart
constexpr int memory_levels = 1 << 16;  // steps of the largest number of bytes

// Numbers of texts, by first use.
class Names {
 public:
  int number(const std::string& text) {
    const auto [found, is_new] = numbers_.try_emplace(text, static_cast<int>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> texts_;
};

std::string kind_of_work(const ir::Program& program, const ir::Actor& actor,
                         const std::set<std::string>& recomputed) {
  if (actor.kind == ir::ActorKind::collective) return sbp::to_text(actor.collective);
  if (actor.kind != ir::ActorKind::kernel) return to_text(actor.kind);
  if (recomputed.contains(actor.name)) return "recompute";
  switch (program.phase_of(actor).kind) {
    case ir::PhaseKind::forward:
      return "forward";
    case ir::PhaseKind::backward:
      return "backward";
    case ir::PhaseKind::weight:
      return "weight";
    case ir::PhaseKind::reduce:
      return "reduce";
    case ir::PhaseKind::update:
      return "update";
    case ir::PhaseKind::other:
      break;
  }
  return "other";
}

// Bytes of a kernel's operands and results; bytes that other acts move.
int64_t bytes_of(const ir::Program& program, const ir::Actor& actor) {
  if (actor.kind != ir::ActorKind::kernel) return actor.comm_bytes;
  int64_t bytes = 0;
  for (const ir::Input& input : actor.inputs)
    if (input.peers < 0) bytes += ir::input_type(at(program.registers, input.reg), input).bytes();
  for (const int output : actor.outputs) bytes += at(program.registers, output).type.bytes();
  return bytes;
}

ordered_json actors_json(const ir::Program& program, const std::set<std::string>& recomputed, Names& names,
                         Names& kinds) {
  std::vector<int> name, layer, op, kind, queue, phase, inputs{0}, input_register, input_repeat, input_peers;
  std::vector<int64_t> bytes;
  for (const ir::Actor& actor : program.actors) {
    name.push_back(names.number(explain::without_layer(actor.name)));  // layers share their names
    layer.push_back(ir::layer_and_rest(actor.name).first);
    op.push_back(names.number(actor.op));
    kind.push_back(kinds.number(kind_of_work(program, actor, recomputed)));
    queue.push_back(actor.queue);
    phase.push_back(actor.phase);
    bytes.push_back(bytes_of(program, actor));
    for (const ir::Input& input : actor.inputs) {
      if (sim::is_own(actor, input)) continue;
      input_register.push_back(input.reg);
      input_repeat.push_back(input.repeat);
      input_peers.push_back(input.peers);
    }
    inputs.push_back(static_cast<int>(input_register.size()));
  }
  return {{"name", name},
          {"layer", layer},
          {"op", op},
          {"kind", kind},
          {"queue", queue},
          {"phase", phase},
          {"bytes", bytes},
          {"inputs", inputs},
          {"input_register", input_register},
          {"input_repeat", input_repeat},
          {"input_peers", input_peers}};
}

ordered_json registers_json(const ir::Program& program, Names& names) {
  std::vector<int> name, layer, producer, every, initial, count;
  for (const ir::Register& reg : program.registers) {
    name.push_back(names.number(explain::without_layer(reg.name)));
    layer.push_back(ir::layer_and_rest(reg.name).first);
    producer.push_back(reg.producer);
    every.push_back(reg.every);
    initial.push_back(reg.initial);
    count.push_back(reg.count);
  }
  return {{"name", name},   {"layer", layer},     {"producer", producer},
          {"every", every}, {"initial", initial}, {"count", count}};
}

// Runs and their shapes.
class Acts {
 public:
  Acts(const sim::StepTimeline& timeline, double tick) : timeline_(timeline), tick_(tick) {}

  void add(size_t cls) {
    const sim::ClassTimeline& c = timeline_.classes()[cls];
    std::map<std::pair<int, int>, std::vector<size_t>> actors;  // by queue and phase
    for (size_t a = 0; a < c.program->actors.size(); ++a)
      actors[{c.program->actors[a].queue, c.program->actors[a].phase}].push_back(a);
    std::vector<std::vector<int>> micro_batches(c.program->phases.size());
    for (const ir::PhaseRun& run : c.program->schedule)
      at(micro_batches, run.phase).push_back(run.micro_batch);
    for (const auto& [place, members] : actors)
      for (size_t run = 0; run < at(micro_batches, place.second).size(); ++run)
        add_run(cls, place.first, place.second, run, at(micro_batches, place.second)[run], members);
  }

  ordered_json runs() const {
    return {{"class", cls_}, {"queue", queue_}, {"phase", phase_}, {"micro_batch", micro_batch_},
            {"run", run_},   {"shape", shape_}, {"begin", begin_}};
  }
  ordered_json shapes() const { return {{"first", first_}, {"start", start_}, {"duration", duration_}}; }

 private:
  int64_t ticks(double seconds) const { return std::llround(seconds / tick_); }

  // Starts and durations are rounded separately, so they are equal if the acts are.
  void add_run(size_t cls, int queue, int phase, size_t run, int micro_batch,
               const std::vector<size_t>& members) {
    const sim::ClassTimeline& c = timeline_.classes()[cls];
    const double begin = c.last[members.front()][run].start;
    std::vector<int64_t> shape;
    for (const size_t a : members) {
      const sim::Act& act = c.last[a][run];
      shape.push_back(ticks(act.start - begin));
      shape.push_back(ticks(act.end - act.start));
    }
    cls_.push_back(static_cast<int>(cls));
    queue_.push_back(queue);
    phase_.push_back(phase);
    micro_batch_.push_back(micro_batch);
    run_.push_back(static_cast<int>(run));
    shape_.push_back(number_of(std::move(shape)));
    begin_.push_back(ticks(begin - timeline_.begin()));
  }

  int number_of(std::vector<int64_t> shape) {
    const auto [found, is_new] = numbers_.try_emplace(std::move(shape), static_cast<int>(numbers_.size()));
    if (!is_new) return found->second;
    for (size_t i = 0; i < found->first.size(); i += 2) {
      start_.push_back(found->first[i]);
      duration_.push_back(found->first[i + 1]);
    }
    first_.push_back(static_cast<int>(start_.size()));
    return found->second;
  }

  const sim::StepTimeline& timeline_;
  const double tick_;
  std::vector<int> cls_, queue_, phase_, micro_batch_, run_, shape_;
  std::vector<int64_t> begin_;
  std::map<std::vector<int64_t>, int> numbers_;  // of shapes: start and duration by actor
  std::vector<int> first_{0};                    // of each shape in the columns below, and their end
  std::vector<int64_t> start_, duration_;
};

ordered_json class_json(const ir::Plan& plan, const sim::Result& result, const sim::StepTimeline& timeline,
                        size_t cls) {
  std::vector<int> peers;
  for (const ir::Peers& one : plan.peers) {
    const int from = timeline.peer_class(cls, one);
    peers.push_back(from >= 0 && timeline.kept(static_cast<size_t>(from)) ? from : -1);
  }
  const sim::ClassResult& c = result.classes[cls];
  return {{"program", c.program},           {"devices", explain::ranges_text(c.devices)},
          {"stands_for", c.devices.size()}, {"kept", timeline.kept(cls)},
          {"queue_busy_s", c.queue_busy},   {"peer_class", peers}};
}

}  // namespace

ordered_json timeline_json(const ir::Plan& plan, const sim::Result& result, const sim::StepTimeline& timeline,
                           const std::set<std::string>& recomputed) {
  const double seconds = timeline.end() - timeline.begin();
  const double tick = std::max(least_tick_seconds, seconds / ticks_per_step);
  Names names, kinds;
  ordered_json programs = ordered_json::array(), classes = ordered_json::array();
  for (const ir::Program& program : plan.programs) {
    std::vector<std::string> queues, phases;
    for (const ir::Queue& queue : program.queues) queues.push_back(queue.name);
    for (const ir::PlanPhase& phase : program.phases) phases.push_back(phase.name);
    programs.push_back({{"name", program.name},
                        {"queues", queues},
                        {"phases", phases},
                        {"actors", actors_json(program, recomputed, names, kinds)},
                        {"registers", registers_json(program, names)}});
  }
  Acts acts(timeline, tick);
  for (size_t cls = 0; cls < timeline.classes().size(); ++cls) {
    classes.push_back(class_json(plan, result, timeline, cls));
    if (timeline.kept(cls)) acts.add(cls);
  }
  return {{"tick_s", tick},         {"step_ticks", std::llround(seconds / tick)},
          {"classes", classes},     {"programs", programs},
          {"names", names.texts()}, {"kinds", kinds.texts()},
          {"runs", acts.runs()},    {"shapes", acts.shapes()}};
}

ordered_json memory_json(const sim::Result& result, const sim::StepTimeline& timeline) {
  std::vector<std::vector<sim::HeldBytes>> curves;
  int64_t most = 1;
  std::vector<size_t> classes;
  std::vector<char> seen;
  for (size_t cls = 0; cls < timeline.classes().size(); ++cls) {
    const auto program = static_cast<size_t>(result.classes[cls].program);
    if (seen.size() <= program) seen.resize(program + 1, 0);
    if (!timeline.kept(cls) || std::exchange(seen[program], 1)) continue;
    classes.push_back(cls);
    curves.push_back(timeline.held_over_time(cls, memory_windows));
    for (const sim::HeldBytes& held : curves.back())
      for (const int64_t bytes : held) most = std::max(most, bytes);
  }
  const int64_t unit = std::max<int64_t>(1, most / memory_levels);
  ordered_json stages = ordered_json::array();
  for (size_t i = 0; i < classes.size(); ++i) {
    ordered_json held;
    for (size_t kind = 0; kind < ir::memory_kinds; ++kind) {
      std::vector<int64_t> units;
      for (const sim::HeldBytes& bytes : curves[i]) units.push_back((bytes[kind] + unit / 2) / unit);
      held[to_text(static_cast<ir::MemoryKind>(kind))] = units;
    }
    stages.push_back({{"class", classes[i]}, {"held", held}});
  }
  return {{"windows", memory_windows}, {"unit_bytes", unit}, {"stages", stages}};
}

}  // namespace boxcar::cli
