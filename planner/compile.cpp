// planner::compile: model, passes, deduction, lowering, memory.
#include <fmt/format.h>

#include "planner/arena.h"
#include "planner/facts.h"
#include "planner/lower.h"
#include "planner/placed.h"
#include "planner/planner.h"
#include "planner/tied.h"
#include "planner/training_graph.h"
#include "sbp/error.h"

namespace boxcar::planner {

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

ir::Plan compile(const ir::Graph& graph, int micro_batches, const backends::Cluster& cluster) {
  if (micro_batches < 1)
    throw Error::input("micro_batches", fmt::format("is {}, expected at least 1", micro_batches));
  ir::Plan plan = lower_placed(graph, micro_batches);
  if (plan.devices > cluster.devices())
    throw Error::input("placement",
                       fmt::format("names {} devices, the cluster has {}", plan.devices, cluster.devices()));
  for (ir::Program& program : plan.programs) plan_memory(program);
  const Flops flops = count_flops(graph);
  plan.facts = {{"model_flops", flops.model * micro_batches},
                {"hardware_flops", flops.hardware * micro_batches},
                {"micro_batches", static_cast<double>(micro_batches)},
                {"memory_limit_bytes", static_cast<double>(cluster.device.memory_bytes)}};
  ir::check(plan);
  return plan;
}

}  // namespace boxcar::planner
