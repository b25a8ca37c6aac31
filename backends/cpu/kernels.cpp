#include "backends/cpu/kernels.h"

#include <algorithm>

#include "ir/ops/fused.h"
#include "ir/ops/optimizers.h"

namespace boxcar::backends::cpu {
namespace {

constexpr std::initializer_list<void (*)(Factories&)> kKernelGroups = {
    add_elementwise_kernels, add_fused_kernels,   add_gated_kernels,  add_norm_kernels,
    add_batch_norm_kernels,  add_softmax_kernels, add_loss_kernels,   add_update_kernels,
    add_reduce_kernels,      add_shape_kernels,   add_index_kernels,  add_sampling_kernels,
    add_moe_kernels,         add_matmul_kernels,  add_packed_kernels, add_attention_kernels,
    add_conv_kernels,        add_pool_kernels,
};

Factories build_table() {
  Factories table;
  for (auto add : kKernelGroups) add(table);
  return table;
}

void advance(ir::Attrs& attrs, const char* name, int64_t by) { std::get<int64_t>(attrs.at(name)) += by; }

ir::Attrs advanced(ir::Attrs attrs, const Moment& moment) {
  if (attrs.contains("step")) advance(attrs, "step", moment.step);
  if (attrs.contains("micro_batch")) {  // a random op
    advance(attrs, "seed", moment.seed);
    advance(attrs, "micro_batch", moment.micro_batch);
  }
  if (moment.learning_rate >= 0 && attrs.contains("lr")) attrs["lr"] = moment.learning_rate;
  return attrs;
}

}  // namespace

const Factories& fast_kernels() {
  static const Factories table = build_table();
  return table;
}

ir::Attrs attrs_at(const Call& call, const Moment& moment) {
  ir::Attrs attrs = advanced(call.attrs, moment);
  const auto program = attrs.find("program");
  if (program == attrs.end()) return attrs;
  const size_t inputs = call.inputs.size() - (call.op == "fused_grad" ? 1 : 0);
  ir::FusedProgram steps = ir::parse_fused(std::get<std::string>(program->second), inputs);
  for (ir::FusedStep& step : steps) step.attrs = advanced(step.attrs, moment);
  program->second = ir::to_text(steps);
  return attrs;
}

}  // namespace boxcar::backends::cpu
