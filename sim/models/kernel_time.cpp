#include "sim/models/kernel_time.h"

#include <algorithm>

namespace boxcar::sim {
namespace {

double peak_of(const backends::Device& device, ir::DType type) {
  auto found = device.peak_flops.find(type);
  if (found == device.peak_flops.end()) found = device.peak_flops.find(ir::DType::float32);
  return found == device.peak_flops.end() ? 0 : found->second;
}

bool backward(const ir::OpDef& def) { return def.name.ends_with("_grad"); }

double compute_share(const backends::Device& device, const ir::OpDef& def, const ir::Types& inputs,
                     double flops) {
  if (def.family != ir::Family::attention) return device.matmul_efficiency.at(flops);
  const auto& shape = inputs[1].shape;
  double sequence = shape.size() >= 2 ? static_cast<double>(shape[shape.size() - 2]) : 1;
  return (backward(def) ? device.attention_backward_efficiency : device.attention_forward_efficiency)
      .at(sequence);
}

}  // namespace

double kernel_seconds(const backends::Device& device, const ir::OpDef& def, const ir::Types& inputs,
                      const ir::Types& outputs, const ir::Attrs& attrs) {
  if (def.family == ir::Family::none || outputs.empty()) return 0;
  bool empty =
      std::all_of(outputs.begin(), outputs.end(), [](const auto& type) { return type.elements() == 0; });
  if (empty) return 0;
  ir::Work work = ir::work(def, inputs, outputs, attrs);
  double memory = work.bytes / (device.memory_bandwidth * device.memory_efficiency.at(work.bytes));
  double compute = 0;
  double peak = inputs.empty() ? 0 : peak_of(device, inputs[0].dtype);
  if (def.family != ir::Family::memory && peak > 0) {
    compute = work.flops / (peak * compute_share(device, def, inputs, work.flops));
  }
  return std::max({compute, memory, device.kernel_floor}) + device.launch_latency;
}

}  // namespace boxcar::sim
