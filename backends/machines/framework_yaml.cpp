// Reading frameworks from YAML.
#include <string>

#include "backends/machines/cluster.h"
#include "backends/machines/framework.h"
#include "backends/machines/strict_yaml.h"
#include "backends/machines/yaml_reader.h"
#include "sbp/error.h"

namespace boxcar::backends {

Framework parse_framework(const std::string& yaml, const std::string& file) {
  auto fields = parse_fields(yaml, file, "");
  fields->require("name");
  Framework framework;
  if (const auto base = fields->like("framework", framework_names())) framework = load_framework(*base);
  YamlReader reader(*fields);
  visit(reader, framework);
  fields->done();
  if (framework.retained_bytes.contains("all_gather"))  // how it was said before
    throw Error::input(file, "retained_bytes: all_gather is no op; write gathered_stay: true");
  return framework;
}

}  // namespace boxcar::backends
