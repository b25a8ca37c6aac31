// planner::compile: model, passes, deduction, lowering, memory.
#include <fmt/format.h>

#include "backends/machines/device_profile.h"
#include "planner/arena.h"
#include "planner/facts.h"
#include "planner/laid_out.h"
#include "planner/placed.h"
#include "planner/planner.h"
#include "sbp/error.h"

namespace boxcar::planner {

ir::Plan compile(const ResolvedJob& job) { return compile(lay_out(job), job); }

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
                {"memory_limit_bytes", static_cast<double>(cluster.device->memory_bytes)}};
  ir::check(plan);
  return plan;
}

}  // namespace boxcar::planner
