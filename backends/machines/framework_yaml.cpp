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
  Framework framework;
  if (const auto base = fields->like("framework", framework_names())) framework = load_framework(*base);
  YamlReader reader(*fields);
  visit(reader, framework);
  check_words(*fields, framework);
  fields->done();
  return framework;
}

}  // namespace boxcar::backends
