#include "planner/laid_out.h"

#include <fmt/format.h>

#include <utility>

#include "planner/arena.h"
#include "planner/facts.h"
#include "planner/gradients_first.h"
#include "planner/lower.h"
#include "planner/lowering/states.h"
#include "planner/reduced_gradients.h"
#include "planner/sharding.h"
#include "planner/sizes.h"
#include "planner/training_graph.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

namespace {

// Layouts depend on the order in which the graph was differentiated, not on the order of its plan.
void order_gradients_first(LaidOut& laid) {
  std::vector<OpLayout> layouts;
  for (int o : gradients_first(laid.graph)) layouts.push_back(std::move(at(laid.layouts.ops, o)));
  laid.layouts.ops = std::move(layouts);
}

// By op: whether it belongs to the second part of a backward pass. Empty if there is none.
std::vector<char> later_gradients(const LaidOut& laid) {
  if (splits_backward(laid.pipeline.kind)) return for_gradients_alone(laid.graph);
  return laid.pipeline.head_behind > 0 ? for_gradient_of_head(laid.graph) : std::vector<char>();
}

}  // namespace

Hints layout_hints(Hints hints) {
  const Hints defaults;
  hints.grad_bucket_mb = defaults.grad_bucket_mb;
  hints.overlap_grad = defaults.overlap_grad;
  hints.overlap_param = defaults.overlap_param;
  hints.scatter_gather = defaults.scatter_gather;
  hints.retained_bytes = defaults.retained_bytes;
  hints.gathered_stay = defaults.gathered_stay;
  hints.keeps_float8 = defaults.keeps_float8;
  hints.keeps_float8_of_experts = defaults.keeps_float8_of_experts;
  hints.fused_optimizer = defaults.fused_optimizer;
  return hints;
}

LaidOut lay_out(const ResolvedJob& job) { return lay_out(job, nullptr); }

LaidOut lay_out(const ResolvedJob& job, const Choose& choose) {
  return lay_out(training_graph(job), job->parallel, job->train.micro_batches, choose);
}

LaidOut lay_out(ir::Graph graph, const Hints& h, int micro_batches, const Choose& choose) {
  check_sizes(graph, h);
  LaidOut laid;
  laid.graph = std::move(graph);
  cast_for_reduction(laid.graph, h);
  laid.hints = h;
  laid.mesh = mesh_of(h);
  laid.pipeline = pipeline_of(h, micro_batches);
  if (choose) {
    if (h.servers > 0)
      throw Error::input("parallel.servers", "every op has the layout of its degrees (use no pins, or 0)");
    const Layouts layouts = choose(laid.graph, h, laid.mesh);
    laid.pins = pins_of(laid.graph, h, laid.mesh, layouts.tensors);
    laid.layouts = deduce(laid.graph, laid.pins, laid.mesh, layouts);
  } else {
    laid.pins = pins_of(laid.graph, h, laid.mesh);
    laid.layouts = deduce(laid.graph, laid.pins, laid.mesh);
  }
  if (!h.overlap_tp) order_gradients_first(laid);
  laid.sites = assign_stages(laid.graph, h.stage_layers, part_places(h), later_gradients(laid));
  return laid;
}

LaidOut lay_out(ir::Graph graph, const Mesh& mesh, Pins pins, int micro_batches) {
  if (micro_batches < 1)
    throw Error::input("micro_batches", fmt::format("is {}, expected at least 1", micro_batches));
  if (pins.stored.size() != graph.tensors.size() || pins.used.size() != graph.tensors.size())
    throw Error::input("pins", fmt::format("{} and {} of them for {} tensors", pins.stored.size(),
                                           pins.used.size(), graph.tensors.size()));
  LaidOut laid;
  laid.graph = std::move(graph);
  laid.mesh = mesh;
  laid.pipeline.micro_batches = micro_batches;
  laid.sites = assign_stages(laid.graph, {laid.graph.layers}, {});
  laid.pins = std::move(pins);
  laid.layouts = deduce(laid.graph, laid.pins, mesh);
  return laid;
}

namespace {

ir::Plan compile(const LaidOut& laid, const Hints& hints) {
  const auto readers = ir::consumers(laid.graph);
  CommTable comms(laid.mesh, laid.pipeline.stages);
  RouteTable routes(laid.mesh);
  ir::Plan plan = lower({laid.graph, hints, sharding_of(hints), laid.mesh, laid.pipeline, laid.sites,
                         laid.pins, laid.layouts, readers, tied_gradients(laid.graph, laid.sites),
                         made_of_states(laid.graph, laid.sites), comms, routes});
  check_sizes(plan, laid.pipeline.stages);
  for (ir::Program& program : plan.programs) plan_memory(program);
  ir::check(plan);
  return plan;
}

}  // namespace

ir::Plan compile(const LaidOut& laid) { return compile(laid, laid.hints); }

ir::Plan compile(const LaidOut& laid, const ResolvedJob& job) {
  ir::Plan plan = compile(laid, job->parallel);
  plan.facts = facts_of(laid.graph, job);
  return plan;
}

}  // namespace boxcar::planner
