// planner::compile: model, passes, deduction, lowering, memory.
#include <algorithm>

#include "planner/arena.h"
#include "planner/facts.h"
#include "planner/lower.h"
#include "planner/planner.h"

namespace boxcar::planner {

namespace {

const ir::Op& producer(const ir::Graph& graph, ir::TensorId t) {
  return graph.ops[static_cast<size_t>(graph.tensor(t).producer)];
}

// The gradient that updates the state of this name.
ir::TensorId gradient_of(const ir::Graph& graph, const std::string& parameter) {
  for (const ir::Update& update : graph.updates)
    if (graph.tensor(update.state).name == parameter) return producer(graph, update.next).inputs[1];
  return -1;
}

std::vector<TiedGradient> tied_gradients(const ir::Graph& graph, const std::vector<Replica>& replicas,
                                         const std::vector<OpSite>& sites) {
  std::vector<TiedGradient> tied;
  for (const Replica& pair : replicas) {
    TiedGradient both;
    const std::string* names[] = {&pair.original, &pair.replica};
    for (int i = 0; i < 2; ++i) {
      both.gradients[i] = gradient_of(graph, *names[i]);
      if (both.gradients[i] < 0) return tied;
      both.stages[i] = sites[static_cast<size_t>(graph.tensor(both.gradients[i]).producer)].stage;
    }
    tied.push_back(both);
  }
  return tied;
}

// The gradient norm counts a parameter once, however many replicas it has.
void drop_replica_norms(ir::Graph& graph, const std::vector<Replica>& replicas) {
  for (const Replica& pair : replicas) {
    const ir::TensorId gradient = gradient_of(graph, pair.replica);
    for (const ir::Op& op : graph.ops) {
      if (op.type != "square_sum" || op.inputs[0] != gradient) continue;
      const ir::TensorId norm = op.outputs[0];
      for (ir::Op& reader : graph.ops)
        if (reader.type == "sum" && reader.inputs.size() > 1) std::erase(reader.inputs, norm);
    }
  }
}

ir::Graph training_graph(const Job& job, std::vector<Replica>& replicas) {
  const Hints& h = job.parallel;
  ir::models::Transformer model = job.model;
  model.pad_vocab_to *= h.tp;
  ir::Graph forward = ir::models::build(model, int64_t{h.micro_batch} * h.dp);
  replicas = replicate_shared_parameters(forward, h.stage_layers, h.pp);
  ir::TrainOptions options = job.train;
  options.stage_starts = stage_starts(h.stage_layers);
  const ir::TensorId loss = ir::find_tensor(forward, "loss");
  ir::Graph graph = ir::training_step(std::move(forward), loss, options);
  drop_replica_norms(graph, replicas);
  return graph;
}

}  // namespace

ir::Plan compile(const Job& job) {
  const Hints& h = job.parallel;
  std::vector<Replica> replicas;
  const ir::Graph graph = training_graph(job, replicas);
  const std::vector<OpSite> sites = assign_stages(graph, h.stage_layers, h.pp);
  const Mesh mesh = mesh_of(h);
  const Pins pins = pins_of(graph, h, mesh);
  const Deduction layouts = deduce(graph, pins, mesh);
  const Pipeline pipeline{parse_schedule(h.schedule, h.virtual_stages), h.pp, h.virtual_stages,
                          job.train.micro_batches};
  const auto readers = ir::consumers(graph);
  CommTable comms(mesh, h.pp);
  RouteTable routes(mesh);
  ir::Plan plan = lower({graph, h, mesh, pipeline, sites, pins, layouts, readers,
                         tied_gradients(graph, replicas, sites), comms, routes});
  for (ir::Program& program : plan.programs) plan_memory(program);
  plan.facts = facts_of(graph, job);
  ir::check(plan);
  return plan;
}

}  // namespace boxcar::planner
