#include "sim/models/kernel_time.h"

#include <algorithm>

#include "sim/models/matmul_time.h"

namespace boxcar::sim {
namespace {

using backends::DeviceProfile;

double op_share(const DeviceProfile& device, std::string_view name) {
  if (device.op_share.empty()) return 1;
  auto found = device.op_share.find(name);
  return found == device.op_share.end() ? 1 : found->second;
}

// The products of a training step differ by layout: forward, by the input's gradient (a transposed weight)
// and by the weight's.
double product_share(const DeviceProfile& device, const ir::OpDef& def, const ir::Attrs& attrs) {
  if (def.name != "matmul" || device.op_share.empty()) return op_share(device, def.name);
  auto transposed = attrs.find("transpose_b");
  bool input_grad = transposed != attrs.end() && std::get<bool>(transposed->second);
  return op_share(device, input_grad ? "matmul_input_grad" : "matmul");
}

double memory_seconds(const DeviceProfile& device, const ir::OpDef& def, double bytes) {
  return bytes / (device.memory_bandwidth * device.memory_efficiency.at(bytes) * op_share(device, def.name));
}

// [..., m, n] from a with k to sum over: what of the output's leading dimensions is m depends on the op.
MatmulShape shape_of(const ir::OpDef& def, const ir::TensorType& a, const ir::TensorType& out) {
  MatmulShape shape;
  size_t rank = out.shape.size();
  shape.n = rank == 0 ? 1 : out.shape[rank - 1];
  shape.m = out.elements() / shape.n;
  if (rank > 2 && def.name == "batch_matmul") {
    shape.m = out.shape[rank - 2];
    shape.batch = out.elements() / (shape.m * shape.n);
  }
  shape.k = a.elements() / (shape.batch * shape.m);
  return shape;
}

double product_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                       const ir::Types& outputs, const ir::Attrs& attrs, double bytes) {
  MatmulShape shape = shape_of(def, inputs[0], outputs[0]);
  if (shape.k < 1) return memory_seconds(device, def, bytes) + device.kernel_floor;
  return matmul_seconds(device, shape, inputs[0].dtype, bytes) / product_share(device, def, attrs);
}

// A causal kernel has short rows and reaches what a full one does at a quarter of the sequence
// (fit_attention.py).
double attention_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                         const ir::Work& work, const ir::Attrs& attrs) {
  bool backward = def.name.ends_with("_grad");
  const auto& keys = inputs[backward ? 2 : 1].shape;  // [batch, heads, sequence, head size]
  double sequence = keys.size() >= 2 ? static_cast<double>(keys[keys.size() - 2]) : 1;
  double head = keys.empty() ? 1 : static_cast<double>(keys.back());
  auto causal = attrs.find("causal");
  if (causal != attrs.end() && std::get<bool>(causal->second)) sequence /= 4;
  const backends::Curve& share =
      backward ? device.attention_backward_efficiency : device.attention_forward_efficiency;
  double rate =
      peak_flops(device, inputs[0].dtype) * share.at(sequence) * device.attention_head_share.at(head);
  return device.kernel_floor + std::max(work.flops / rate, memory_seconds(device, def, work.bytes));
}

double convolution_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                           const ir::Work& work) {
  double share = device.convolution_efficiency.at(work.flops) * op_share(device, def.name);
  double compute = work.flops / (peak_flops(device, inputs[0].dtype) * share);
  double memory = work.bytes / (device.memory_bandwidth * device.memory_efficiency.at(work.bytes));
  return device.kernel_floor + std::max(compute, memory);
}

bool empty(const ir::Types& types) {
  return std::all_of(types.begin(), types.end(),
                     [](const ir::TensorType& type) { return type.elements() == 0; });
}

}  // namespace

double kernel_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                      const ir::Types& outputs, const ir::Attrs& attrs) {
  const bool view = def.family == ir::Family::none && !device.op_share.contains(def.name);
  if (view || empty(outputs)) return 0;
  ir::Work work = ir::work(def, inputs, outputs, attrs);
  ir::Family family = inputs.empty() ? ir::Family::memory : def.family;
  double seconds = 0;
  switch (family) {
    case ir::Family::matmul:
      seconds = product_seconds(device, def, inputs, outputs, attrs, work.bytes);
      break;
    case ir::Family::attention:
      seconds = attention_seconds(device, def, inputs, work, attrs);
      break;
    case ir::Family::convolution:
      seconds = convolution_seconds(device, def, inputs, work);
      break;
    default:
      seconds = device.kernel_floor + memory_seconds(device, def, work.bytes);
  }
  return device.launch_latency + seconds;
}

}  // namespace boxcar::sim
