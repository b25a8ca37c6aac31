#include "sim/models/float8_casts.h"

#include <cmath>

#include "backends/machines/device_profile.h"
#include "ir/op_kind.h"

namespace boxcar::sim {
namespace {

using backends::DeviceProfile;
using backends::Float8Cast;

// Negative if a kernel writes 8 bits instead of 16.
void add(const DeviceProfile& device, const Float8Cast& cast, double elements, double times,
         Float8Casts& casts) {
  const double bytes = cast.bytes * elements;
  const double seconds = bytes / (device.memory_bandwidth * device.memory_efficiency.at(std::abs(bytes)));
  casts.seconds += times * (seconds + cast.launches * (device.launch_latency + device.kernel_floor));
  casts.launches += times * cast.launches;
}

bool is_gathered(const Float8Operand& operand) { return operand.own >= 0 && operand.own < operand.elements; }

}  // namespace

bool has_float8(const ir::OpDef& def, bool of_weight) {
  return def.family == ir::Family::matmul &&
         (of_weight || ir::kind_of(def.name) != ir::OpKind::batched_product);
}

Float8Casts float8_casts(const DeviceProfile& device, ProductRole role,
                         const std::array<Float8Operand, 2>& operands) {
  const backends::Float8Recipe& recipe = *device.float8;
  const auto& [first, second] = operands;
  Float8Casts casts;
  for (const Float8Operand& operand : operands) add(device, recipe.product, operand.elements, 1, casts);
  const bool gathered = is_gathered(first);
  if (role != ProductRole::weight_grad) {
    const Float8Cast& whole = first.fused ? recipe.fused : recipe.operand;
    const Float8Cast& part = first.fused ? recipe.fused_part : recipe.ungathered;
    add(device, gathered ? part : whole, gathered ? first.own : first.elements, 1, casts);
  }
  if (role != ProductRole::forward && gathered) add(device, recipe.gathered, first.elements, 1, casts);
  if (role == ProductRole::forward) add(device, recipe.weight, second.elements, 1 / second.serves, casts);
  return casts;
}

}  // namespace boxcar::sim
