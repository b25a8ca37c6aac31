// Reading stacks from YAML.
#include <string>
#include <utility>
#include <vector>

#include "backends/cluster.h"
#include "backends/strict_yaml.h"

namespace boxcar::backends {
namespace {

void read(Fields& fields, FusedSoftmax& fused) {
  for (const char* key : {"multiple", "longest", "forward", "backward", "kernels"}) fields.require(key);
  fields.integer("multiple", 1, 1024, &fused.multiple);
  fields.integer("longest", 1, int64_t{1} << 40, &fused.longest);
  fields.number("forward", 0.1, 100, &fused.forward);
  fields.number("backward", 0.1, 100, &fused.backward);
  fields.integer("kernels", 1, 100, &fused.kernels);
  fields.done();
}

}  // namespace

Stack parse_stack(const std::string& yaml, const std::string& file) {
  auto fields = parse_fields(yaml, file, "");
  Stack stack;
  fields->require("name");
  fields->text("name", &stack.name);
  double host = 0;
  if (fields->number("host_per_op", 0, 1, &host)) stack.host_per_op = host;
  fields->number("pass_launches", 0, 1000, &stack.pass_launches);
  std::vector<std::pair<std::string, double>> launches;
  fields->numbers("op_launches", 0, 1000, &launches);
  stack.op_launches.insert(launches.begin(), launches.end());
  fields->flag("update_in_one", &stack.update_in_one);
  fields->flag("sums_in_products", &stack.sums_in_products);
  fields->flag("gather_by_broadcast", &stack.gather_by_broadcast);
  fields->number("piece_seconds", 0, 1, &stack.piece_seconds);
  fields->integer("apart_elements", 0, int64_t{1} << 40, &stack.apart_elements);
  if (auto fused = fields->map("fused_softmax")) read(*fused, stack.fused_softmax);
  std::vector<std::pair<std::string, double>> times;
  fields->numbers("all_reduces", 1, 100, &times);
  stack.all_reduces.insert(times.begin(), times.end());
  fields->flag("reduce_whole", &stack.reduce_whole);
  std::vector<std::pair<std::string, double>> factors;
  fields->numbers("op_bytes", 0.1, 100, &factors);
  stack.op_bytes.insert(factors.begin(), factors.end());
  factors.clear();
  fields->numbers("half_op_bytes", 0.01, 100, &factors);
  stack.half_op_bytes.insert(factors.begin(), factors.end());
  fields->flag("pads_channels", &stack.pads_channels);
  fields->number("outside_bytes", 0, 1e12, &stack.outside_bytes);
  fields->number("fragmentation", 0, 0.9, &stack.fragmentation);
  std::vector<std::pair<std::string, double>> kept;
  fields->numbers("op_kept", 0, 100, &kept);
  stack.op_kept.insert(kept.begin(), kept.end());
  fields->texts("defaults", &stack.defaults);
  fields->done();
  return stack;
}

}  // namespace boxcar::backends
