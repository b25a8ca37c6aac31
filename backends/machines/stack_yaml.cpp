// Reading stacks from YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/stack.h"
#include "backends/machines/strict_yaml.h"
#include "sbp/suggest.h"

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

// What it does not say stays.
void read(Fields& fields, CachingAllocator& allocator) {
  fields.integer("workspaces", 0, 100, &allocator.workspaces);
  fields.number("workspace_bytes", 0, 1e12, &allocator.workspace_bytes);
  fields.flag("gradients_stay", &allocator.gradients_stay);
  fields.done();
}

// Of names already there, the new number.
void read(Fields& fields, const char* key, double least, double most, std::map<std::string, double>& to) {
  std::vector<std::pair<std::string, double>> read;
  fields.numbers(key, least, most, &read);
  for (const auto& [name, number] : read) to[name] = number;
}

// The stack that this one is like but for what it says: one of boxcar's own, so that none is like itself.
Stack base_of(Fields& fields) {
  std::string name;
  if (!fields.text("like", &name)) return {};
  const std::vector<std::string> known = stack_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    fields.fail("like", fmt::format("no stack of boxcar's is named \"{}\"{}; known are {}", name,
                                    did_you_mean(name, known), fmt::join(known, ", ")));
  return load_stack(name);
}

}  // namespace

Stack parse_stack(const std::string& yaml, const std::string& file) {
  auto fields = parse_fields(yaml, file, "");
  fields->require("name");
  Stack stack = base_of(*fields);
  fields->text("name", &stack.name);
  double host = 0;
  if (fields->number("host_per_op", 0, 1, &host)) stack.host_per_op = host;
  fields->number("pass_launches", 0, 1000, &stack.pass_launches);
  read(*fields, "op_launches", 0, 1000, stack.op_launches);
  read(*fields, "op_waits", 0, 1000, stack.op_waits);
  fields->flag("one_process", &stack.one_process);
  fields->flag("update_in_one", &stack.update_in_one);
  fields->flag("sums_in_products", &stack.sums_in_products);
  fields->flag("gather_by_broadcast", &stack.gather_by_broadcast);
  fields->number("piece_seconds", 0, 1, &stack.piece_seconds);
  fields->integer("apart_elements", 0, int64_t{1} << 40, &stack.apart_elements);
  if (auto fused = fields->map("fused_softmax")) read(*fused, stack.fused_softmax);
  read(*fields, "all_reduces", 1, 100, stack.all_reduces);
  read(*fields, "batch_copies", 0, 100, stack.batch_copies);
  read(*fields, "gather_copies", 0, 100, stack.gather_copies);
  fields->flag("reduce_whole", &stack.reduce_whole);
  fields->flag("reduce_in_float32", &stack.reduce_in_float32);
  fields->flag("ring_attention", &stack.ring_attention);
  read(*fields, "op_bytes", 0.1, 100, stack.op_bytes);
  read(*fields, "half_op_bytes", 0.01, 100, stack.half_op_bytes);
  fields->flag("pads_channels", &stack.pads_channels);
  fields->number("outside_bytes", 0, 1e12, &stack.outside_bytes);
  fields->number("fragmentation", 0, 0.9, &stack.fragmentation);
  if (auto allocator = fields->map("allocator"))
    read(*allocator, stack.allocator ? *stack.allocator : stack.allocator.emplace());
  read(*fields, "op_kept", 0, 100, stack.op_kept);
  fields->texts("defaults", &stack.defaults);
  fields->done();
  return stack;
}

}  // namespace boxcar::backends
