#include "cli/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "ir/op.h"
#include "sbp/error.h"
#include "sbp/suggest.h"
#include "sim/durations.h"
#include "sim/models/kernel_time.h"

namespace boxcar::cli {
namespace {

using sbp::Sbp;

size_t at(int64_t index) { return static_cast<size_t>(index); }

std::string join(const std::vector<std::string>& words, size_t most = 3) {
  std::vector<std::string> some(words.begin(),
                                words.begin() + static_cast<int64_t>(std::min(most, words.size())));
  return fmt::format("{}{}", fmt::join(some, ", "), words.size() > most ? ", ..." : "");
}

// "h3.attn.proj.all_reduce" -> "h*.attn.proj.all_reduce": layers are told together.
std::string without_layer(const std::string& name) {
  size_t end = 1;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
  return name[0] == 'h' && end > 1 && end < name.size() && name[end] == '.' ? "h*" + name.substr(end) : name;
}

// --- the plan

struct Traffic {
  double seconds = 0, bytes = 0;  // of a device in a step
  int64_t acts = 0;
  std::string stage, over, why;
};

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
std::map<std::string, Traffic> traffic(const ir::Plan& plan, const ir::RankClass& cls,
                                       const std::vector<sim::ActCost>& costs) {
  std::map<std::string, Traffic> rows;
  const ir::Program& program = plan.programs[at(cls.program)];
  std::vector<int64_t> runs(program.phases.size());
  for (const ir::PhaseRun& run : program.schedule) ++runs[at(run.phase)];
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    if (!sim::is_communication(actor)) continue;
    Traffic& row = rows[without_layer(actor.name)];
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
std::string traffic_table(const ir::Plan& plan, const backends::Cluster& cluster) {
  std::map<std::string, Traffic> all;
  sim::Costing costing(plan, cluster);
  std::vector<char> seen(plan.programs.size(), 0);
  for (const ir::RankClass& cls : plan.classes) {
    if (std::exchange(seen[at(cls.program)], 1)) continue;
    for (auto& [name, row] : traffic(plan, cls, costing.of(cls.program, cls.devices.front())))
      if (Traffic& most = all[name]; row.seconds > most.seconds) most = std::move(row);
  }
  std::vector<std::pair<std::string, Traffic>> order(all.begin(), all.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  if (order.size() > 10) order.resize(10);
  std::string text = fmt::format("  {:>9} {:>9} {:>7}  {:<10} {:<10} {}\n", "a step", "bytes", "acts",
                                 "stage", "over", "what, and why");
  for (const auto& [name, row] : order)
    text += fmt::format("  {:>9} {:>9} {:>7}  {:<10} {:<10} {}: {}\n", format_seconds(row.seconds),
                        format_bytes(row.bytes), row.acts, row.stage, row.over.empty() ? "-" : row.over, name,
                        row.why);
  return order.empty() ? "  nothing is moved\n" : text;
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

// --- ops

int64_t stride(const planner::Mesh& mesh, size_t dim) {
  return std::accumulate(mesh.extents.begin() + static_cast<int64_t>(dim) + 1, mesh.extents.end(), int64_t{1},
                         std::multiplies<>());
}

class OpTable {
 public:
  OpTable(const planner::LaidOut& laid, const backends::Cluster& cluster, size_t op, const StepWith& step)
      : laid_(laid),
        cluster_(cluster),
        op_(laid.graph.ops[op]),
        layout_(laid.layouts.ops[op]),
        def_(ir::op(op_.type)),
        step_(step) {
    for (ir::TensorId t : op_.inputs) inputs_.push_back(laid.graph.tensor(t).type);
    for (ir::TensorId t : op_.outputs) outputs_.push_back(laid.graph.tensor(t).type);
    attrs_ = op_.attrs;
  }

  std::string text() {
    std::vector<std::string> reads;
    for (ir::TensorId t : op_.inputs) reads.push_back("%" + laid_.graph.tensor(t).name);
    std::string text = fmt::format("{} = {}({})\n", op_.name, op_.type, fmt::join(reads, ", "));
    for (size_t d = 0; d < laid_.mesh.dims(); ++d) {
      text += dimension(d);
      step_into(d);
    }
    if (step_)
      text +=
          "\nstep: by how much it would grow by the time models with this signature and the best layouts of "
          "all "
          "other ops\n";
    return text;
  }

 private:
  struct Row {
    const sbp::Signature* signature;
    double kernel = 0, boxing = 0;
    std::string moved;
    double step = 0;
  };

  double boxing_seconds(Sbp from, Sbp to, int64_t bytes, const sim::Span& span) const {
    using sbp::Collective;
    if (from == to || from.is_broadcast()) return 0;
    if (to.is_partial()) return std::numeric_limits<double>::infinity();
    const Collective collective = from.is_partial()
                                      ? (to.is_split() ? Collective::reduce_scatter : Collective::all_reduce)
                                  : to.is_split() ? Collective::all_to_all
                                                  : Collective::all_gather;
    return sim::collective_time(cluster_, collective, bytes, span).seconds();
  }

  Row row(const sbp::Signature& signature, size_t d, const sim::Span& span) const {
    const int64_t parts = laid_.mesh.extents[d];
    Row row{&signature, 0, 0, "", 0};
    const auto box = [&](const std::string& name, Sbp from, Sbp to, int64_t bytes) {
      if (from.is_split() && to.is_split() && from.axis == to.axis) return;
      const double seconds = boxing_seconds(from, to, bytes, span);
      if (seconds > 0 && std::isfinite(seconds))
        row.moved +=
            fmt::format("{}{}: {} -> {}", row.moved.empty() ? "" : ", ", name, to_text(from), to_text(to));
      row.boxing += seconds;
    };
    for (size_t i = 0; i < inputs_.size(); ++i)
      box(laid_.graph.tensor(op_.inputs[i]).name, laid_.layouts.stored[at(op_.inputs[i])][d],
          signature.inputs[i], inputs_[i].bytes());
    for (size_t o = 0; o < outputs_.size(); ++o)
      box(laid_.graph.tensor(op_.outputs[o]).name, signature.outputs[o],
          laid_.layouts.stored[at(op_.outputs[o])][d], outputs_[o].bytes());
    ir::Types in = inputs_, out = outputs_;
    split(in, signature.inputs, parts);
    split(out, signature.outputs, parts);
    row.kernel = sim::kernel_seconds(cluster_.device, def_, in, out,
                                     ir::localize(def_, inputs_, attrs_, signature, parts, 0));
    return row;
  }

  std::string dimension(size_t d) const {
    const int64_t parts = laid_.mesh.extents[d];
    std::vector<int> group;
    for (int64_t i = 0; i < parts; ++i) group.push_back(static_cast<int>(i * stride(laid_.mesh, d)));
    const sim::Span span = sim::span_of(cluster_, group);
    const std::vector<sbp::Signature> legal = ir::signatures(def_, inputs_, attrs_, parts);
    std::vector<Row> rows;
    for (const sbp::Signature& signature : legal) rows.push_back(row(signature, d, span));
    const double now = step_ ? step_(layout_.signatures) : 0;
    for (Row& r : rows) r.step = step_ ? with(*r.signature, d) - now : 0;
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::pair(a.step, a.kernel + a.boxing) < std::pair(b.step, b.kernel + b.boxing);
    });
    std::string text =
        fmt::format("\n{}, {} devices\n  {:<44} {}{:>9} {:>9}  {}\n", laid_.mesh.names[d], parts,
                    "  signature", step_ ? "     step " : "", "kernel", "boxing", "what moves");
    for (const Row& r : rows) {
      if (!std::isfinite(r.boxing)) continue;  // nothing makes a whole tensor partial
      std::vector<std::string> in, out;
      for (Sbp s : r.signature->inputs) in.push_back(to_text(s));
      for (Sbp s : r.signature->outputs) out.push_back(to_text(s));
      text += fmt::format("  {} {:<42} {}{:>9} {:>9}  {}\n", is_chosen(*r.signature, d) ? '*' : ' ',
                          fmt::format("{} -> {}", fmt::join(in, ", "), fmt::join(out, ", ")), step_text(r),
                          format_seconds(r.kernel), r.boxing > 0 ? format_seconds(r.boxing) : "-", r.moved);
    }
    return text;
  }

  double with(const sbp::Signature& signature, size_t d) const {
    std::vector<sbp::Signature> signatures = layout_.signatures;
    signatures[d] = signature;
    return step_(signatures);
  }

  std::string step_text(const Row& row) const {
    if (!step_) return "";
    if (!std::isfinite(row.step)) return fmt::format("{:>9} ", "never");
    return fmt::format("{:>9} ", row.step < 1e-9 ? "-" : "+" + format_seconds(row.step));
  }

  bool is_chosen(const sbp::Signature& signature, size_t d) const {
    const auto same = [](const std::vector<Sbp>& a, const std::vector<Sbp>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Sbp x, Sbp y) {
        return x.kind == y.kind && x.axis == y.axis && x.reduction == y.reduction;
      });
    };
    return same(signature.inputs, layout_.signatures[d].inputs) &&
           same(signature.outputs, layout_.signatures[d].outputs);
  }

  static void split(ir::Types& types, const std::vector<Sbp>& layout, int64_t parts) {
    for (size_t i = 0; i < types.size(); ++i)
      if (layout[i].is_split()) {
        int64_t& extent = types[i].shape[static_cast<size_t>(layout[i].axis)];
        extent = sbp::part_range(extent, parts, 0).size();
      }
  }

  void step_into(size_t d) {
    const sbp::Signature& chosen = layout_.signatures[d];
    attrs_ = ir::localize(def_, inputs_, attrs_, chosen, laid_.mesh.extents[d], 0);
    split(inputs_, chosen.inputs, laid_.mesh.extents[d]);
    split(outputs_, chosen.outputs, laid_.mesh.extents[d]);
  }

  const planner::LaidOut& laid_;
  const backends::Cluster& cluster_;
  const ir::Op& op_;
  const planner::OpLayout& layout_;
  const ir::OpDef& def_;
  StepWith step_;               // may be null
  ir::Types inputs_, outputs_;  // on the dimensions before
  ir::Attrs attrs_;
};

// "0-3, 8"
std::string ranges(const std::vector<int>& devices) {
  std::string text;
  for (size_t i = 0; i < devices.size();) {
    size_t end = i + 1;
    while (end < devices.size() && devices[end] == devices[end - 1] + 1) ++end;
    text += text.empty() ? "" : ", ";
    text += end - i > 1 ? fmt::format("{}-{}", devices[i], devices[end - 1]) : fmt::format("{}", devices[i]);
    i = end;
  }
  return text;
}

using Blocks = std::map<std::vector<sbp::Range>, std::vector<int>>;

std::string list(const Blocks& blocks) {
  std::string text;
  for (const auto& [block, devices] : blocks) {
    std::vector<std::string> axes;
    for (const sbp::Range& range : block) axes.push_back(fmt::format("{}:{}", range.begin, range.end));
    text += fmt::format("  [{}]  {}\n", fmt::join(axes, ", "), ranges(devices));
  }
  return text;
}

// A matrix in few columns as a grid, anything else as a list.
std::string drawing(const Blocks& blocks) {
  constexpr size_t most_columns = 8, width = 14;
  std::map<sbp::Range, std::map<sbp::Range, std::string>> rows;
  std::map<sbp::Range, int> columns;
  for (const auto& [block, devices] : blocks) {
    if (block.size() != 2) return list(blocks);
    rows[block[0]][block[1]] = ranges(devices);
    ++columns[block[1]];
  }
  if (columns.size() > most_columns) return list(blocks);
  std::string text = fmt::format("  {:<{}}", "", width);
  for (const auto& [column, count] : columns)
    text += fmt::format(" {:<{}}", fmt::format("{}:{}", column.begin, column.end), width);
  for (const auto& [row, cells] : rows) {
    text.erase(text.find_last_not_of(' ') + 1);
    text += fmt::format("\n  {:<{}}", fmt::format("{}:{}", row.begin, row.end), width);
    for (const auto& [column, count] : columns) {
      const auto cell = cells.find(column);
      text += fmt::format(" {:<{}}", cell == cells.end() ? "" : cell->second, width);
    }
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace

std::string explain_plan(const ir::Plan& plan, const backends::Cluster& cluster, const Report& report) {
  std::string text = to_table(report);
  text += "\nin flight\n";
  for (const ir::Program& program : plan.programs)
    text += fmt::format("  {:<10} room for the activations of {} micro-batches\n", program.name,
                        in_flight(program));
  for (const auto& [key, value] : plan.labels)
    if (key.starts_with(runner_up))
      text += (key.ends_with(".1") ? "\nrunners-up of the search\n  " : "  ") + value + "\n";
  text += "\ncommunication by time, of one device, whether or not it hides behind computing\n";
  return text + traffic_table(plan, cluster);
}

std::string explain_op(const planner::LaidOut& laid, const backends::Cluster& cluster,
                       const std::string& name, const StepWith& step) {
  for (size_t o = 0; o < laid.graph.ops.size(); ++o) {
    const ir::Op& op = laid.graph.ops[o];
    if (op.name == name && ir::has_op(op.type))
      return OpTable(laid, cluster, o, op.phase == ir::Phase::update ? StepWith{} : step).text();
  }
  std::vector<std::string> names;
  for (const ir::Op& op : laid.graph.ops) names.push_back(op.name);
  throw Error::input("--op", fmt::format("the plan's graph has no {}{}", name, did_you_mean(name, names)));
}

std::string explain_tensor(const planner::LaidOut& laid, const std::string& name) {
  const ir::TensorId t = ir::find_tensor(laid.graph, name);
  const ir::Tensor& tensor = laid.graph.tensor(t);
  const sbp::NdSbp& layout = laid.layouts.stored[at(t)];
  const int stage = std::max(0, laid.sites[at(tensor.producer)].stage);
  Blocks blocks;
  std::vector<int> all;
  for (int place = 0; place < laid.mesh.devices(); ++place) {
    all.push_back(laid.mesh.device(place, stage));
    blocks[sbp::local_ranges(tensor.type.shape, layout, laid.mesh.extents, place)].push_back(all.back());
  }
  std::sort(all.begin(), all.end());
  for (auto& [block, devices] : blocks) std::sort(devices.begin(), devices.end());
  std::vector<std::string> dims;
  for (size_t d = 0; d < laid.mesh.dims(); ++d)
    dims.push_back(fmt::format("{} {}: {}", laid.mesh.names[d], laid.mesh.extents[d], to_text(layout[d])));
  std::string text = fmt::format("%{}: {} on stage {}, devices {}\n{}\n\n", name, to_text(tensor.type), stage,
                                 ranges(all), fmt::join(dims, ", "));
  return text + drawing(blocks);
}

}  // namespace boxcar::cli
