#include "cli/plan_document.h"

#include <variant>

#include "sbp/at.h"

namespace boxcar::cli {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json number_or_null(int64_t number) { return number < 0 ? Json() : Json(number); }

Json attrs_json(const ir::Attrs& attrs) {
  Json json = Json::object();
  for (const auto& [name, attr] : attrs)
    std::visit([&, &key = name](const auto& value) { json[key] = value; }, attr);
  return json;
}

Json input_json(const ir::Plan& plan, const ir::Program& own, const ir::Input& input) {
  const ir::Program& of = input.program < 0 ? own : at(plan.programs, input.program);
  return {{"register", at(of.registers, input.reg).name},
          {"repeat", input.repeat},
          {"program", input.program < 0 ? Json() : Json(of.name)},
          {"peers", input.peers < 0 ? Json() : Json(at(plan.peers, input.peers).name)},
          {"view", input.view ? Json(*input.view) : Json()}};
}

Json actor_json(const ir::Plan& plan, const ir::Program& program, const ir::Actor& actor) {
  Json inputs = Json::array(), outputs = Json::array();
  for (const ir::Input& input : actor.inputs) inputs.push_back(input_json(plan, program, input));
  for (const int reg : actor.outputs) outputs.push_back(at(program.registers, reg).name);
  return {{"name", actor.name},
          {"kind", ir::to_text(actor.kind)},
          {"op", actor.op},
          {"attrs", attrs_json(actor.attrs)},
          {"inputs", inputs},
          {"outputs", outputs},
          {"queue", at(program.queues, actor.queue).name},
          {"phase", program.phase_of(actor).name},
          {"layer", number_or_null(actor.layer)},
          {"moves", text_or_null(actor.moves)},
          {"comm", actor.comm < 0 ? Json() : Json(at(plan.comms, actor.comm).name)},
          {"joint", text_or_null(actor.joint)},
          {"comm_bytes", actor.comm_bytes},
          {"workspace_bytes", actor.workspace}};
}

Json register_json(const ir::Program& program, const ir::Register& reg) {
  return {{"name", reg.name},
          {"dtype", ir::to_text(reg.type.dtype)},
          {"shape", reg.type.shape},
          {"bytes", reg.bytes},
          {"count", reg.count},
          {"initial", reg.initial},
          {"every", reg.every},
          {"producer", reg.producer < 0 ? Json() : Json(at(program.actors, reg.producer).name)},
          {"memory", ir::to_text(reg.memory)},
          {"offset", number_or_null(reg.offset)}};
}

Json program_json(const ir::Plan& plan, const ir::Program& program) {
  Json phases = Json::array(), schedule = Json::array(), queues = Json::array(), registers = Json::array(),
       actors = Json::array();
  for (const ir::PlanPhase& phase : program.phases) phases.push_back(phase.name);
  for (const ir::PhaseRun& run : program.schedule)
    schedule.push_back({at(program.phases, run.phase).name, run.micro_batch});
  for (const ir::Queue& queue : program.queues)
    queues.push_back({{"name", queue.name}, {"kind", ir::to_text(queue.kind)}, {"ordered", queue.ordered}});
  for (const ir::Register& reg : program.registers) registers.push_back(register_json(program, reg));
  for (const ir::Actor& actor : program.actors) actors.push_back(actor_json(plan, program, actor));
  return {{"name", program.name},
          {"arena_bytes", program.arena_bytes},
          {"workspace_bytes", program.workspace_bytes},
          {"phases", phases},
          {"schedule", schedule},
          {"queues", queues},
          {"registers", registers},
          {"actors", actors}};
}

Json size_json(const ir::PlanSize& size) {
  return {{"actors", size.actors},
          {"registers", size.registers},
          {"queues", size.queues},
          {"groups", size.groups},
          {"acts_per_step", size.acts_per_step}};
}

}  // namespace

nlohmann::ordered_json to_json(const ir::Plan& plan) {
  Json programs = Json::array(), classes = Json::array(), comms = Json::array(), peers = Json::array();
  for (const ir::Program& program : plan.programs) programs.push_back(program_json(plan, program));
  for (const ir::RankClass& cls : plan.classes)
    classes.push_back({{"program", at(plan.programs, cls.program).name}, {"devices", cls.devices}});
  for (const ir::Comm& comm : plan.comms) comms.push_back({{"name", comm.name}, {"groups", comm.groups}});
  for (const ir::Peers& one : plan.peers) peers.push_back({{"name", one.name}, {"source", one.source}});
  return {{"name", plan.name},
          {"devices", plan.devices},
          {"micro_batches", plan.micro_batches},
          {"programs", programs},
          {"classes", classes},
          {"comms", comms},
          {"peers", peers},
          {"facts", plan.facts},
          {"labels", plan.labels},
          {"size", size_json(ir::size_of(plan))}};
}

}  // namespace boxcar::cli
