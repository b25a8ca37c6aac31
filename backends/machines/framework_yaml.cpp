// Reading frameworks from YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/framework.h"
#include "backends/machines/strict_yaml.h"
#include "backends/machines/yaml_reader.h"
#include "sbp/suggest.h"

namespace boxcar::backends {
namespace {

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

void check_words(const Fields& fields, const Framework& framework) {
  const std::vector<std::string> known = {"kernels", "norms", "nothing"};
  if (std::find(known.begin(), known.end(), framework.float8_fuses) == known.end())
    fields.fail("float8_fuses",
                fmt::format("is \"{}\", expected {}", framework.float8_fuses, fmt::join(known, ", ")));
}

}  // namespace

Framework parse_framework(const std::string& yaml, const std::string& file) {
  auto fields = parse_fields(yaml, file, "");
  fields->require("name");
  Framework framework = base_of(*fields);
  YamlReader reader(*fields);
  visit(reader, framework);
  check_words(*fields, framework);
  fields->done();
  return framework;
}

}  // namespace boxcar::backends
