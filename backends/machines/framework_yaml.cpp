// Reading frameworks from YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/framework.h"
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

// Fields absent from the file keep their values.
void read(Fields& fields, CachingAllocator& allocator) {
  fields.integer("workspaces", 0, 100, &allocator.workspaces);
  fields.number("workspace_bytes", 0, 1e12, &allocator.workspace_bytes);
  fields.flag("gradients_stay", &allocator.gradients_stay);
  fields.done();
}

// Names already there get the new number.
void read(Fields& fields, const char* key, double least, double most, std::map<std::string, double>& to) {
  std::vector<std::pair<std::string, double>> read;
  fields.numbers(key, least, most, &read);
  for (const auto& [name, number] : read) to[name] = number;
}

// The framework that this one is based on: one of boxcar's own, so that none is based on itself.
Framework base_of(Fields& fields) {
  std::string name;
  if (!fields.text("like", &name)) return {};
  const std::vector<std::string> known = framework_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    fields.fail("like", fmt::format("no framework of boxcar's is named \"{}\"{}; known are {}", name,
                                    did_you_mean(name, known), fmt::join(known, ", ")));
  return load_framework(name);
}

}  // namespace

Framework parse_framework(const std::string& yaml, const std::string& file) {
  auto fields = parse_fields(yaml, file, "");
  fields->require("name");
  Framework framework = base_of(*fields);
  fields->text("name", &framework.name);
  double host = 0;
  if (fields->number("host_per_op", 0, 1, &host)) framework.host_per_op = host;
  fields->number("pass_launches", 0, 1000, &framework.pass_launches);
  read(*fields, "op_launches", 0, 1000, framework.op_launches);
  read(*fields, "op_waits", 0, 1000, framework.op_waits);
  fields->flag("one_process", &framework.one_process);
  fields->flag("update_in_one", &framework.update_in_one);
  fields->flag("sums_in_products", &framework.sums_in_products);
  fields->flag("gather_by_broadcast", &framework.gather_by_broadcast);
  fields->number("piece_seconds", 0, 1, &framework.piece_seconds);
  fields->integer("apart_elements", 0, int64_t{1} << 40, &framework.apart_elements);
  if (auto fused = fields->map("fused_softmax")) read(*fused, framework.fused_softmax);
  read(*fields, "all_reduces", 1, 100, framework.all_reduces);
  read(*fields, "batch_copies", 0, 100, framework.batch_copies);
  read(*fields, "gather_copies", 0, 100, framework.gather_copies);
  fields->flag("reduce_whole", &framework.reduce_whole);
  fields->flag("reduce_in_float32", &framework.reduce_in_float32);
  fields->flag("ring_attention", &framework.ring_attention);
  read(*fields, "op_bytes", 0.1, 100, framework.op_bytes);
  read(*fields, "half_op_bytes", 0.01, 100, framework.half_op_bytes);
  fields->flag("pads_channels", &framework.pads_channels);
  fields->number("outside_bytes", 0, 1e12, &framework.outside_bytes);
  fields->number("fragmentation", 0, 0.9, &framework.fragmentation);
  if (auto allocator = fields->map("allocator"))
    read(*allocator, framework.allocator ? *framework.allocator : framework.allocator.emplace());
  read(*fields, "retained_bytes", 0, 100, framework.retained_bytes);
  fields->texts("defaults", &framework.defaults);
  fields->done();
  return framework;
}

}  // namespace boxcar::backends
