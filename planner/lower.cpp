#include "planner/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "planner/lowering/passes.h"
#include "planner/retained.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

namespace {

// Uneven parts among ops' operands and results.
UnevenParts uneven_parts(const ir::Graph& graph, const Deduction& layouts, const Mesh& mesh) {
  UnevenParts uneven;
  const auto note = [&](ir::TensorId t, const sbp::NdSbp& layout) {
    const sbp::Shape& shape = graph.tensor(t).type.shape;
    if (!is_even(shape, layout, mesh)) uneven.emplace(shape, layout);
  };
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    for (size_t i = 0; i < layouts.ops[o].inputs.size(); ++i)
      note(graph.ops[o].inputs[i], layouts.ops[o].inputs[i]);
    for (size_t i = 0; i < layouts.ops[o].outputs.size(); ++i) {
      note(graph.ops[o].outputs[i], layouts.ops[o].outputs[i]);
      note(graph.ops[o].outputs[i], at(layouts.stored, graph.ops[o].outputs[i]));
    }
  }
  return uneven;
}

// Ranks that hold parts of the same sizes, and share a parameter server if there are `servers`: one list of
// row-major places per class, in the order of their devices. Classes are in the order of their first place.
// There is one class if nothing is uneven.
//   [10] S(0) on mesh {4}: {0, 1} with 3 elements, {2, 3} with 2
std::vector<std::vector<int>> rank_classes(const UnevenParts& uneven, const Mesh& mesh, int servers) {
  std::map<std::pair<int, std::vector<sbp::Shape>>, size_t> known;
  std::vector<std::vector<int>> classes;
  for (int place = 0; place < mesh.devices(); ++place) {
    const int server = servers > 0 ? place / (mesh.devices() / servers) : 0;
    std::vector<sbp::Shape> shapes;
    for (const auto& [shape, layout] : uneven)
      shapes.push_back(sbp::local_shape(shape, layout, mesh.extents, place));
    const auto [at, fresh] = known.emplace(std::pair(server, std::move(shapes)), classes.size());
    if (fresh) classes.emplace_back();
    classes[at->second].push_back(place);
  }
  for (std::vector<int>& places : classes)
    std::sort(places.begin(), places.end(),
              [&](int a, int b) { return mesh.device(a, 0) < mesh.device(b, 0); });
  return classes;
}

std::string program_name(int stage, size_t cls, size_t classes) {
  return classes == 1 ? fmt::format("stage{}", stage) : fmt::format("stage{}.{}", stage, cls);
}

size_t class_of(const std::vector<std::vector<int>>& classes, int place) {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const std::vector<int>& places) {
    return std::find(places.begin(), places.end(), place) != places.end();
  });
  return static_cast<size_t>(found - classes.begin());
}

// Sets the program and register that each pull reads.
void link(std::vector<StageProgram>& programs, const ir::Graph& graph,
          const std::vector<std::vector<int>>& classes) {
  for (size_t p = 0; p < programs.size(); ++p)
    for (const Link& link : programs[p].links) {
      const bool exchanged = link.value >= 0;
      const size_t cls = exchanged ? class_of(classes, link.place) : p % classes.size();
      const size_t source = static_cast<size_t>(link.stage) * classes.size() + cls;
      StageProgram& producer = programs[source];
      const int sent = exchanged ? producer.exchanged.at(link.value) : at(producer.sent, link.tensor);
      if (sent < 0)
        throw Error::fault(producer.builder.program.name, fmt::format("no register holds what is sent of {}",
                                                                      graph.tensor(link.tensor).name));
      ir::Actor& pull = at(programs[p].builder.program.actors, link.actor);
      pull.inputs[0].program = static_cast<int>(source);
      pull.inputs[0].reg = sent;
      if (!link.source_queue.empty()) pull.source_queue = producer.builder.queue(link.source_queue);
      producer.builder.read_remotely(pull.inputs[0].reg);
    }
}

std::vector<StageProgram> lower_stages(const LoweringInput& input,
                                       const std::vector<std::vector<int>>& classes) {
  std::vector<StageProgram> programs;
  programs.reserve(static_cast<size_t>(input.pipeline.stages) * classes.size());
  for (int stage = 0; stage < input.pipeline.stages; ++stage)
    for (size_t c = 0; c < classes.size(); ++c)
      programs.push_back(lower_stage(input, stage, classes[c], program_name(stage, c, classes.size())));
  return programs;
}

}  // namespace

ir::Plan lower(const LoweringInput& input) {
  for (int d = 0; d < static_cast<int>(input.mesh.dims()); ++d)  // along which attributes count ranks
    if (at(input.mesh.extents, d) > 1) input.comms.along({d});
  UnevenParts uneven = uneven_parts(input.graph, input.layouts, input.mesh);
  std::vector<std::vector<int>> classes;
  std::vector<StageProgram> programs;
  // An intermediate layout may be uneven even if both ends are even.
  while (true) {
    const std::vector<std::vector<int>> finer = rank_classes(uneven, input.mesh, input.hints.servers);
    if (finer == classes) break;
    classes = finer;
    programs = lower_stages(input, classes);
    for (const StageProgram& program : programs) uneven.insert(program.uneven.begin(), program.uneven.end());
  }
  link(programs, input.graph, classes);

  ir::Plan plan;
  plan.name = input.graph.name;
  plan.devices = input.mesh.devices() * input.pipeline.stages;
  plan.micro_batches = input.pipeline.micro_batches;
  for (size_t p = 0; p < programs.size(); ++p) {
    programs[p].builder.finish();
    if (input.hints.keeps_float8) keep_operands_in_float8(programs[p].builder.program);
    if (input.hints.keeps_float8_of_experts) keep_results_of_experts_in_float8(programs[p].builder.program);
    plan.programs.push_back(std::move(programs[p].builder.program));
    ir::RankClass cls{static_cast<int>(p), classes[p % classes.size()]};
    for (int& member : cls.devices) member = input.mesh.device(member, static_cast<int>(p / classes.size()));
    plan.classes.push_back(std::move(cls));
  }
  plan.comms = input.comms.comms;
  plan.peers = input.comms.pulls;
  return plan;
}

}  // namespace boxcar::planner
