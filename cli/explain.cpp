#include "cli/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/search_report.h"
#include "ir/units.h"
#include "sim/durations.h"

namespace boxcar::cli {

std::string without_layer(const std::string& name) {
  size_t end = 1;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
  return name[0] == 'h' && end > 1 && end < name.size() && name[end] == '.' ? "h*" + name.substr(end) : name;
}

namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

std::string join(const std::vector<std::string>& words, size_t most = 3) {
  std::vector<std::string> some(words.begin(),
                                words.begin() + static_cast<int64_t>(std::min(most, words.size())));
  return fmt::format("{}{}", fmt::join(some, ", "), words.size() > most ? ", ..." : "");
}

const char* moves(const ir::Actor& actor) {
  if (actor.kind == ir::ActorKind::pull) return "of the stage beside";
  switch (actor.collective) {
    case sbp::Collective::all_reduce:
      return "partial sums, wanted whole";
    case sbp::Collective::reduce_scatter:
      return "partial sums, wanted in parts";
    case sbp::Collective::all_gather:
      return "parts, wanted whole";
    case sbp::Collective::all_to_all:
      return "parts along one axis, wanted along another";
    default:
      return "wanted elsewhere";
  }
}

std::string why(const ir::Program& program, const ir::Actor& actor) {
  std::vector<std::string> makers, readers;
  for (const ir::Input& input : actor.inputs) {
    if (input.program >= 0) continue;
    const int producer = program.registers[at(input.reg)].producer;
    if (producer >= 0) makers.push_back(without_layer(program.actors[at(producer)].name));
  }
  for (const ir::Actor& other : program.actors)
    for (const ir::Input& input : other.inputs)
      if (input.program < 0 && std::count(actor.outputs.begin(), actor.outputs.end(), input.reg))
        readers.push_back(without_layer(other.name));
  for (std::vector<std::string>* names : {&makers, &readers}) {
    std::sort(names->begin(), names->end());
    names->erase(std::unique(names->begin(), names->end()), names->end());
  }
  std::string text = moves(actor);
  if (!makers.empty()) text += "; made by " + join(makers);
  if (!readers.empty()) text += "; read by " + join(readers);
  return text;
}

// Of the first device of a program's first class, by name.
std::map<std::string, Communication> traffic(const ir::Plan& plan, const ir::RankClass& cls,
                                             const std::vector<sim::ActCost>& costs) {
  std::map<std::string, Communication> rows;
  const ir::Program& program = plan.programs[at(cls.program)];
  std::vector<int64_t> runs(program.phases.size());
  for (const ir::PhaseRun& run : program.schedule) ++runs[at(run.phase)];
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (!sim::is_communication(actor)) continue;
    const std::string name = without_layer(actor.name);
    Communication& row = rows[name];
    row.name = name;
    const int64_t acts = runs[at(actor.phase)];
    row.acts += acts;
    row.seconds += static_cast<double>(acts) * costs[a].total();
    row.bytes += static_cast<double>(acts * actor.comm_bytes);
    if (!row.why.empty()) continue;
    row.stage = program.name;
    row.why = why(program, actor);
    if (actor.comm >= 0) {
      const ir::Comm& comm = plan.comms[at(actor.comm)];
      row.over = fmt::format("{} {}", comm.name, sim::group_of(comm, cls.devices.front()).size());
    }
  }
  return rows;
}

// Each by the stage that it costs most.
std::vector<Communication> communications(const ir::Plan& plan, const backends::Cluster& cluster) {
  std::map<std::string, Communication> all;
  sim::Costing costing(plan, cluster);
  std::vector<char> seen(plan.programs.size(), 0);
  for (const ir::RankClass& cls : plan.classes) {
    if (std::exchange(seen[at(cls.program)], 1)) continue;
    for (auto& [name, row] : traffic(plan, cls, costing.act_costs(cls.program, cls.devices.front())))
      if (Communication& most = all[name]; row.seconds > most.seconds) most = std::move(row);
  }
  std::vector<Communication> order;
  for (auto& [name, row] : all) order.push_back(std::move(row));
  std::stable_sort(order.begin(), order.end(),
                   [](const Communication& a, const Communication& b) { return a.seconds > b.seconds; });
  if (order.size() > 10) order.resize(10);
  return order;
}

// Micro-batches whose activations a program has room for.
int in_flight(const ir::Program& program) {
  int most = 0;
  for (const ir::Register& reg : program.registers) {
    const bool made = reg.producer >= 0 && program.actors[at(reg.producer)].kind == ir::ActorKind::kernel;
    if (made && reg.memory == ir::MemoryKind::activations && reg.bytes > 0) most = std::max(most, reg.count);
  }
  return most;
}

// "stage2.1" -> 2; -1 where a program is called otherwise.
int stage_of(const ir::Program& program) {
  if (!program.name.starts_with("stage")) return -1;
  return std::atoi(program.name.c_str() + 5);
}

std::string layers_of(const planner::Hints& hints, int stage) {
  std::vector<int> layers;
  int first = 0;
  for (size_t part = 0; part < hints.stage_layers.size(); ++part) {
    for (int l = 0; l < hints.stage_layers[part]; ++l)
      if (static_cast<int>(part) % hints.pp == stage) layers.push_back(first + l);
    first += hints.stage_layers[part];
  }
  return ranges_text(layers);
}

std::string mesh_text(const planner::Mesh& mesh) {
  std::vector<std::string> dims;
  for (size_t d = 0; d < mesh.dims(); ++d)
    dims.push_back(fmt::format("{} {}", mesh.names[d], mesh.extents[d]));
  return fmt::format("{}", fmt::join(dims, " x "));
}

// Of what ops of a stage make, or what it holds of parameters, as they are kept.
LayoutShares layouts_on(const planner::LaidOut& laid, int stage, ir::Role role) {
  std::map<std::string, double> bytes;
  double sum = 0;
  for (size_t t = 0; t < laid.graph.tensors.size(); ++t) {
    const ir::Tensor& tensor = laid.graph.tensors[t];
    const planner::OpSite& site = laid.sites[at(tensor.producer)];
    const bool made_forward = laid.graph.ops[at(tensor.producer)].phase == ir::Phase::forward;
    if (tensor.role != role || site.stage != stage) continue;
    if (role == ir::Role::activation && !made_forward) continue;
    auto part = static_cast<double>(tensor.type.bytes());
    for (size_t d = 0; d < laid.mesh.dims(); ++d)
      if (laid.layouts.stored[t][d].is_split()) part /= static_cast<double>(laid.mesh.extents[d]);
    bytes[sbp::to_text(laid.layouts.stored[t])] += part;
    sum += part;
  }
  LayoutShares shares(bytes.begin(), bytes.end());
  for (auto& [layout, share] : shares) share /= sum;
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return shares;
}

std::string shares_text(const LayoutShares& shares) {
  std::vector<std::string> some;
  for (const auto& [layout, share] : shares)
    if (share >= 0.005) some.push_back(fmt::format("{} {:.0f} %", layout, 100 * share));
  return some.empty() ? "-" : fmt::format("{}", fmt::join(some, ", "));
}

// The layers of virtual stages, "0, 8, 16, 24", by their ends: "0 ... 24".
std::string layers_text(const std::string& layers) {
  const size_t comma = layers.find(','), last = layers.rfind(' ');
  if (layers.empty()) return "-";
  return comma == std::string::npos ? layers : layers.substr(0, comma) + " ..." + layers.substr(last);
}

std::string stages_text(const PlanExplanation& e) {
  std::string text = fmt::format("  {:<10} {:>7} {:<12} {:<20} {:>9} {:>9} {:>7} {:>9} {:>9}", "stage",
                                 "GPUs", "layers", "mesh", "in flight", "busy", "idle", "exposed", "peak");
  for (int kind = 0; kind < ir::memory_kinds; ++kind)
    text += fmt::format(" {:>11}", ir::to_text(static_cast<ir::MemoryKind>(kind)));
  text += "\n";
  for (const StageExplanation& s : e.stages) {
    text += fmt::format("  {:<10} {:>7} {:<12} {:<20} {:>9} {:>9} {:>7} {:>9} {:>9}", s.report.name,
                        s.report.devices, layers_text(s.layers), s.mesh.empty() ? "-" : s.mesh, s.in_flight,
                        ir::format_seconds(s.report.busy_seconds),
                        fmt::format("{:.1f} %", 100 * s.report.bubble_fraction),
                        ir::format_seconds(s.report.exposed_comm_seconds),
                        ir::format_bytes(static_cast<double>(s.report.peak_bytes)));
    for (const int64_t bytes : s.report.by_kind)
      text += fmt::format(" {:>11}", ir::format_bytes(static_cast<double>(bytes)));
    text += "\n";
  }
  return text;
}

std::string communications_text(const PlanExplanation& e) {
  if (e.communications.empty()) return "  nothing is moved\n";
  std::string text = fmt::format("  {:>9} {:>9} {:>7}  {:<10} {:<10} {}\n", "a step", "bytes", "acts",
                                 "stage", "over", "what, and why");
  for (const Communication& c : e.communications)
    text +=
        fmt::format("  {:>9} {:>9} {:>7}  {:<10} {:<10} {}: {}\n", ir::format_seconds(c.seconds),
                    ir::format_bytes(c.bytes), c.acts, c.stage, c.over.empty() ? "-" : c.over, c.name, c.why);
  return text;
}

nlohmann::ordered_json shares_json(const LayoutShares& shares) {
  nlohmann::ordered_json doc = nlohmann::ordered_json::object();
  for (const auto& [layout, share] : shares) doc[layout] = share;
  return doc;
}

}  // namespace

PlanExplanation explain_plan(const ir::Plan& plan, const backends::Cluster& cluster, const Report& report,
                             const planner::LaidOut* laid) {
  PlanExplanation e{
      report, {}, {}, communications(plan, cluster), laid ? slow_stages_text(laid->hints, cluster) : ""};
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    StageExplanation stage{report.stages[p], "", "", in_flight(plan.programs[p]), {}, {}};
    if (const int number = stage_of(plan.programs[p]); laid && number >= 0) {
      const std::vector<int> chunks = planner::chunks_in_flight(laid->pipeline, number);
      stage.in_flight = *std::max_element(chunks.begin(), chunks.end());
      stage.layers = layers_of(laid->hints, number);
      stage.mesh = mesh_text(laid->mesh);
      stage.parameters = layouts_on(*laid, number, ir::Role::parameter);
      stage.activations = layouts_on(*laid, number, ir::Role::activation);
    }
    e.stages.push_back(std::move(stage));
  }
  for (const auto& [key, value] : plan.labels)
    if (key.starts_with(runner_up)) e.runners_up.push_back(value);
  return e;
}

std::string to_text(const PlanExplanation& e) {
  std::string text = configuration_and_result(e.report);
  text += fmt::format("\nstages, memory of one device, limit {}\n",
                      ir::format_bytes(static_cast<double>(e.report.memory_limit_bytes)));
  text += stages_text(e) + e.slow_stages;
  text += "\nlayouts as kept, by part of a device's bytes\n";
  for (const StageExplanation& s : e.stages)
    text += fmt::format("  {:<10} parameters {}; activations {}\n", s.report.name, shares_text(s.parameters),
                        shares_text(s.activations));
  for (size_t i = 0; i < e.runners_up.size(); ++i)
    text += (i == 0 ? "\nrunners-up of the search\n  " : "  ") + e.runners_up[i] + "\n";
  text += "\ncommunication by time, of one device, whether or not it hides behind computing\n";
  return text + communications_text(e);
}

nlohmann::ordered_json to_json(const PlanExplanation& e) {
  using nlohmann::ordered_json;
  ordered_json doc = ordered_json::parse(to_json(e.report));
  ordered_json stages = ordered_json::array(), moved = ordered_json::array();
  for (const StageExplanation& s : e.stages) {
    ordered_json memory;
    for (size_t kind = 0; kind < s.report.by_kind.size(); ++kind)
      memory[ir::to_text(static_cast<ir::MemoryKind>(kind))] = s.report.by_kind[kind];
    stages.push_back({{"name", s.report.name},
                      {"gpus", s.report.devices},
                      {"layers", s.layers},
                      {"mesh", s.mesh},
                      {"parameter_layouts", shares_json(s.parameters)},
                      {"activation_layouts", shares_json(s.activations)},
                      {"in_flight", s.in_flight},
                      {"busy_s", s.report.busy_seconds},
                      {"bubble_fraction", s.report.bubble_fraction},
                      {"exposed_comm_s", s.report.exposed_comm_seconds},
                      {"peak_memory_bytes", s.report.peak_bytes},
                      {"memory_bytes", memory}});
  }
  for (const Communication& c : e.communications)
    moved.push_back({{"name", c.name},
                     {"stage", c.stage},
                     {"over", c.over},
                     {"why", c.why},
                     {"s", c.seconds},
                     {"bytes", c.bytes},
                     {"acts", c.acts}});
  doc["stages"] = stages;
  doc["runners_up"] = e.runners_up;
  doc["communications"] = moved;
  return doc;
}

}  // namespace boxcar::cli
