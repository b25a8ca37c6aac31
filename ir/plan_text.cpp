// Writes a plan's text; ir/plan.h shows the form.
#include <fmt/format.h>

#include <iterator>

#include "ir/plan.h"
#include "ir/plan_notation.h"
#include "sbp/at.h"

namespace boxcar::ir {
namespace {

using Out = std::back_insert_iterator<std::string>;

// A value as the rest of a line, quoted if it would not read back unquoted.
std::string value_text(const std::string& value) {
  bool plain = !value.empty() && value.front() != ' ' && value.back() != ' ' && value.front() != '"';
  if (plain) return value;
  return '"' + value + '"';
}

void write_head(const Plan& plan, Out out) {
  fmt::format_to(out, "plan {}\ndevices {}\nmicro_batches {}\n", name_text(plan.name), plan.devices,
                 plan.micro_batches);
  for (const auto& [key, value] : plan.facts) fmt::format_to(out, "fact {} = {}\n", name_text(key), value);
  for (const auto& [key, value] : plan.labels) {
    fmt::format_to(out, "label {} = {}\n", name_text(key), value_text(value));
  }
  for (const Comm& comm : plan.comms) {
    fmt::format_to(out, "comm {}: {}\n", name_text(comm.name), groups_text(comm.groups));
  }
  for (const Peers& peers : plan.peers) {
    fmt::format_to(out, "peers {}: {}\n", name_text(peers.name), peers_text(peers.source));
  }
  for (const RankClass& cls : plan.classes) {
    fmt::format_to(out, "class {}: {}\n", device_list(cls.devices),
                   name_text(at(plan.programs, cls.program).name));
  }
}

void write_register(const Register& reg, Out out) {
  fmt::format_to(out, "  %{}: {} x{} {}", name_text(reg.name), to_text(reg.type), reg.count,
                 to_text(reg.memory));
  if (reg.host_bytes != 0)
    fmt::format_to(out, " host {}", reg.host_bytes);
  else if (reg.bytes != reg.type.bytes())
    fmt::format_to(out, " bytes {}", reg.bytes);
  if (reg.over) fmt::format_to(out, " over");
  if (reg.initial != 0) fmt::format_to(out, " initial {}", reg.initial);
  if (reg.every != 1) fmt::format_to(out, " every {}", reg.every);
  if (reg.offset >= 0) fmt::format_to(out, " @{}", reg.offset);
  *out++ = '\n';
}

void write_input(const Plan& plan, const Program& program, const Input& input, Out out) {
  const Program& from = input.program < 0 ? program : at(plan.programs, input.program);
  fmt::format_to(out, "%{}", name_text(at(from.registers, input.reg).name));
  if (input.view) fmt::format_to(out, " as [{}]", fmt::join(*input.view, ", "));
  if (input.program >= 0) fmt::format_to(out, " of {}", name_text(from.name));
  if (input.peers >= 0) {
    fmt::format_to(out, " via {}", name_text(at(plan.peers, input.peers).name));
  }
  if (input.repeat != 1) fmt::format_to(out, " repeat {}", input.repeat);
}

void write_kind(const Actor& actor, Out out) {
  std::string_view op = actor.op;
  bool said = actor.kind == ActorKind::pull         ? op == "pull"
              : actor.kind == ActorKind::collective ? op == sbp::to_text(actor.collective)
                                                    : actor.kind == ActorKind::kernel;
  bool misread = actor.kind != ActorKind::pull && op == "pull";
  if (!said || misread) fmt::format_to(out, "{} ", to_text(actor.kind));
}

void write_actor(const Plan& plan, const Program& program, const Actor& actor, Out out) {
  fmt::format_to(out, "  {} ", name_text(actor.name));
  write_kind(actor, out);
  fmt::format_to(out, "{}(", name_text(actor.op));
  for (size_t i = 0; i < actor.inputs.size(); ++i) {
    if (i > 0) fmt::format_to(out, ", ");
    write_input(plan, program, actor.inputs[i], out);
  }
  *out++ = ')';
  if (!actor.attrs.empty()) fmt::format_to(out, " {}", to_text(actor.attrs));
  for (size_t i = 0; i < actor.outputs.size(); ++i) {
    const Register& reg = at(program.registers, actor.outputs[i]);
    fmt::format_to(out, "{} %{}", i == 0 ? " ->" : ",", name_text(reg.name));
  }
  fmt::format_to(out, " on {} in {}", name_text(at(program.queues, actor.queue).name),
                 name_text(program.phase_of(actor).name));
  if (actor.layer >= 0) fmt::format_to(out, " layer {}", actor.layer);
  if (!actor.moves.empty()) fmt::format_to(out, " moves {}", name_text(actor.moves));
  if (actor.comm >= 0) fmt::format_to(out, " over {}", name_text(at(plan.comms, actor.comm).name));
  bool collective_said = actor.kind == ActorKind::collective && actor.op == sbp::to_text(actor.collective);
  if (actor.collective != sbp::Collective::none && !collective_said) {
    fmt::format_to(out, " does {}", sbp::to_text(actor.collective));
  }
  if (!actor.joint.empty()) fmt::format_to(out, " joint {}", name_text(actor.joint));
  if (actor.comm_bytes != 0) fmt::format_to(out, " bytes {}", actor.comm_bytes);
  if (actor.workspace != 0) fmt::format_to(out, " workspace {}", actor.workspace);
  if (actor.source_queue >= 0) {
    const Program& source = at(plan.programs, actor.inputs[0].program);
    fmt::format_to(out, " turn {}", name_text(at(source.queues, actor.source_queue).name));
  }
  *out++ = '\n';
}

void write_program(const Plan& plan, const Program& program, Out out) {
  fmt::format_to(out, "\nprogram {}", name_text(program.name));
  if (program.stage >= 0) fmt::format_to(out, " stage {}", program.stage);
  *out++ = '\n';
  if (program.arena_bytes != 0) fmt::format_to(out, "  arena {}\n", program.arena_bytes);
  if (program.workspace_bytes != 0 || program.workspace_offset >= 0) {
    fmt::format_to(out, "  workspace {}", program.workspace_bytes);
    if (program.workspace_offset >= 0) fmt::format_to(out, " @{}", program.workspace_offset);
    *out++ = '\n';
  }
  if (program.host_bytes != 0) fmt::format_to(out, "  host_memory {}\n", program.host_bytes);
  if (!program.phases.empty()) {
    fmt::format_to(out, "  phases ");
    for (size_t i = 0; i < program.phases.size(); ++i) {
      fmt::format_to(out, "{}{}", i == 0 ? "" : ", ", name_text(program.phases[i].name));
    }
    *out++ = '\n';
  }
  if (!program.schedule.empty()) {
    fmt::format_to(out, "  schedule {}\n", schedule_text(program.schedule, program.phases));
  }
  for (const Queue& queue : program.queues) {
    fmt::format_to(out, "  queue {}: {}{}\n", name_text(queue.name), to_text(queue.kind),
                   queue.ordered ? "" : " unordered");
  }
  for (const Register& reg : program.registers) write_register(reg, out);
  for (const Actor& actor : program.actors) write_actor(plan, program, actor, out);
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string text;
  Out out(text);
  write_head(plan, out);
  for (const Program& program : plan.programs) write_program(plan, program, out);
  return text;
}

}  // namespace boxcar::ir
