#include "sim/explain/plan_explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sbp/at.h"
#include "sim/durations.h"
#include "sim/explain/tensor_explanation.h"

namespace boxcar::explain {

namespace {

std::string join(const std::vector<std::string>& words, size_t most = 3) {
  std::vector<std::string> some(words.begin(),
                                words.begin() + static_cast<int64_t>(std::min(most, words.size())));
  return fmt::format("{}{}", fmt::join(some, ", "), words.size() > most ? ", ..." : "");
}

const char* moves(const ir::Program& program, const ir::Actor& actor) {
  if (actor.kind == ir::ActorKind::pull) {
    const bool to_host = !actor.outputs.empty() && at(program.registers, actor.outputs[0]).host_bytes > 0;
    if (!to_host) return "of the stage beside";
    return actor.attrs.contains("starts") ? "a share, pushed to its server"
                                          : "a share, pulled from its server";
  }
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
    const int producer = at(program.registers, input.reg).producer;
    if (producer >= 0) makers.push_back(without_layer(at(program.actors, producer).name));
  }
  for (const ir::Actor& other : program.actors)
    for (const ir::Input& input : other.inputs)
      if (input.program < 0 && std::count(actor.outputs.begin(), actor.outputs.end(), input.reg))
        readers.push_back(without_layer(other.name));
  for (std::vector<std::string>* names : {&makers, &readers}) {
    std::sort(names->begin(), names->end());
    names->erase(std::unique(names->begin(), names->end()), names->end());
  }
  std::string text = moves(program, actor);
  if (!makers.empty()) text += "; made by " + join(makers);
  if (!readers.empty()) text += "; read by " + join(readers);
  return text;
}

// "gradients.reduce_scatter.10" -> "gradients.reduce_scatter.*"; a name without a number at its end stays.
std::string without_number(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || name.find_first_not_of("0123456789", dot + 1) != std::string::npos)
    return name;
  return dot + 1 < name.size() ? name.substr(0, dot + 1) + "*" : name;
}

// Joins rows that differ only in the number of a bucket.
std::vector<Communication> merge_alike(const std::map<std::string, Communication>& rows) {
  std::map<std::tuple<std::string, std::string, std::string>, Communication> merged;
  for (const auto& [name, row] : rows) {
    const auto [to, first] = merged.try_emplace({without_number(name), row.over, row.why}, row);
    if (first) continue;
    to->second.name = without_number(name);
    to->second.seconds += row.seconds;
    to->second.bytes += row.bytes;
    to->second.acts += row.acts;
  }
  std::vector<Communication> all;
  for (auto& [key, row] : merged) all.push_back(std::move(row));
  return all;
}

// Traffic of the first device of a program's first class.
std::vector<Communication> traffic(const ir::Plan& plan, const backends::Cluster& cluster,
                                   const ir::RankClass& cls, const std::vector<sim::ActCost>& costs) {
  std::map<std::string, Communication> rows;
  const ir::Program& program = at(plan.programs, cls.program);
  std::vector<int64_t> runs(program.phases.size());
  for (const ir::PhaseRun& run : program.schedule) ++at(runs, run.phase);
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (!sim::is_communication(actor)) continue;
    const std::string name = without_layer(actor.name);
    Communication& row = rows[name];
    row.name = name;
    const int64_t acts = at(runs, actor.phase);
    row.acts += acts;
    row.seconds += static_cast<double>(acts) * costs[a].total();
    row.bytes +=
        static_cast<double>(acts) * sim::moved_bytes(plan, cluster, program, actor, cls.devices.front()).size;
    if (!row.why.empty()) continue;
    row.stage = program.name;
    row.why = why(program, actor);
    if (actor.comm >= 0) {
      const ir::Comm& comm = at(plan.comms, actor.comm);
      row.over = fmt::format("{} {}", comm.name, sim::group_of(comm, cls.devices.front()).size());
    }
  }
  return merge_alike(rows);
}

// Reports each at the stage that it costs most.
std::vector<Communication> communications(const ir::Plan& plan, const backends::Cluster& cluster) {
  std::map<std::pair<std::string, std::string>, Communication> all;
  sim::ActCosts act_costs(plan, cluster);
  std::vector<char> seen(plan.programs.size(), 0);
  for (const ir::RankClass& cls : plan.classes) {
    if (std::exchange(at(seen, cls.program), 1)) continue;
    for (Communication& row : traffic(plan, cluster, cls, act_costs.of(cls.program, cls.devices.front()))) {
      Communication& most = all[{row.name, row.why}];
      if (row.seconds > most.seconds) most = std::move(row);
    }
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
    const bool made = reg.producer >= 0 && at(program.actors, reg.producer).kind == ir::ActorKind::kernel;
    if (made && reg.memory == ir::MemoryKind::activations && reg.bytes > 0) most = std::max(most, reg.count);
  }
  return most;
}

// By program.
std::vector<int> stages_of(const ir::Plan& plan, const planner::LaidOut& laid) {
  std::vector<int> stages(plan.programs.size());
  for (const ir::RankClass& cls : plan.classes)
    at(stages, cls.program) = laid.mesh.stage_of(cls.devices.front(), laid.pipeline.stages);
  return stages;
}

std::string layers_of(const planner::Hints& hints, int stage) {
  std::vector<int> layers;
  int first = 0;
  const planner::PartPlaces places = planner::part_places(hints);
  for (int part = 0; part < static_cast<int>(hints.stage_layers.size()); ++part) {
    for (int l = 0; l < at(hints.stage_layers, part); ++l)
      if (places.stage(part) == stage) layers.push_back(first + l);
    first += at(hints.stage_layers, part);
  }
  return ranges_text(layers);
}

std::string mesh_text(const planner::Mesh& mesh) {
  std::vector<std::string> dims;
  for (size_t d = 0; d < mesh.dims(); ++d)
    dims.push_back(fmt::format("{} {}", mesh.names[d], mesh.extents[d]));
  return fmt::format("{}", fmt::join(dims, " x "));
}

// Layouts of the results of a stage's ops, or of its parameters, as they are kept.
LayoutShares layouts_on(const planner::LaidOut& laid, int stage, ir::Role role) {
  std::map<std::string, double> bytes;
  double sum = 0;
  for (size_t t = 0; t < laid.graph.tensors.size(); ++t) {
    const ir::Tensor& tensor = laid.graph.tensors[t];
    const planner::OpSite& site = at(laid.sites, tensor.producer);
    const bool made_forward = at(laid.graph.ops, tensor.producer).phase == ir::Phase::forward;
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

}  // namespace

PlanExplanation explain_plan(const ir::Plan& plan, const backends::Cluster& cluster, const Report& report,
                             const planner::LaidOut* laid) {
  PlanExplanation e{report, {}, {}, communications(plan, cluster)};
  const std::vector<int> stages = laid ? stages_of(plan, *laid) : std::vector<int>();
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    StageExplanation stage{report.stages[p], "", "", in_flight(plan.programs[p]), {}, {}};
    if (laid) {
      const int number = stages[p];
      const std::vector<int> chunks = planner::chunks_in_flight(laid->pipeline, number).most;
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

}  // namespace boxcar::explain
