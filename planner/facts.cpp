#include "planner/facts.h"

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "ir/op.h"
#include "ir/ops/attention_work.h"

namespace boxcar::planner {
namespace {

// Flops are counted as in publications: attention over the whole square of a sequence or document, masked or
// not, and its backward pass twice its forward pass, regardless of what a fused kernel skips or recomputes.
double conventional(const ir::Op& op, const ir::Types& inputs, double work) {
  const bool backward = op.is(ir::OpKind::attention_grad);
  if (!backward && !op.is(ir::OpKind::attention)) return work;
  const ir::TensorType &q = inputs[backward ? 1 : 0], &k = inputs[backward ? 2 : 1];
  const int64_t keys = ir::tokens_together(ir::document_of(op.attrs), k.shape[2]);
  const double forward = 4.0 * static_cast<double>(q.elements()) * static_cast<double>(keys);
  return backward ? 2 * forward : forward;
}

}  // namespace

Flops count_flops(const ir::Graph& graph) {
  Flops flops;
  for (const ir::Op& op : graph.ops) {
    if (op.phase == ir::Phase::update || !ir::has_op(op.type)) continue;
    const ir::OpDef& def = ir::op(op.type);
    if (def.family == ir::Family::memory || def.family == ir::Family::none) continue;
    ir::Types inputs, outputs;
    for (ir::TensorId t : op.inputs) inputs.push_back(graph.tensor(t).type);
    for (ir::TensorId t : op.outputs) outputs.push_back(graph.tensor(t).type);
    const double work = ir::work(def, inputs, outputs, op.attrs).flops;
    const double counted = conventional(op, inputs, work);
    flops.hardware += counted;
    if (!op.recomputed) flops.model += counted;
  }
  return flops;
}

std::map<std::string, double> facts_of(const ir::Graph& graph, const Job& job) {
  const Flops flops = count_flops(graph);
  const double micro_batches = job.train.micro_batches;
  const int64_t tokens = job.global_batch * ir::models::tokens(job.model);
  std::map<std::string, double> facts = {
      {"samples", static_cast<double>(job.global_batch)},
      {"tokens", static_cast<double>(tokens)},
      {"model_flops", flops.model * micro_batches},
      {"hardware_flops", flops.hardware * micro_batches},
      {"micro_batches", micro_batches},
      {"parameters", static_cast<double>(ir::models::parameters(job.model))},
      {"memory_limit_bytes", static_cast<double>(job.cluster.device->memory_bytes)},
  };
  if (job.routing_skew > 1) facts["routing_skew"] = job.routing_skew;
  if (const double share = job.cluster.framework->fragmentation; share > 0) facts["fragmentation"] = share;
  if (const auto& allocator = job.cluster.framework->allocator) {
    facts["caching_allocator"] = 1;
    if (allocator->gradients_stay) facts["gradients_stay"] = 1;
  }
  return facts;
}

}  // namespace boxcar::planner
