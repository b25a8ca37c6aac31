// Reading frameworks from YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/framework.h"
#include "backends/machines/strict_yaml.h"
#include "sbp/suggest.h"

namespace boxcar::backends {
namespace {

// Fields absent from the file keep their values.
class Reader {
 public:
  explicit Reader(Fields& fields) : fields_(fields) {}
  void require(const char* key) { fields_.require(key); }
  void number(const char* key, double least, double most, double& to) {
    fields_.number(key, least, most, &to);
  }
  void number(const char* key, double least, double most, std::optional<double>& to) {
    double read = 0;
    if (fields_.number(key, least, most, &read)) to = read;
  }
  template <class Whole>
  void whole(const char* key, int64_t least, int64_t most, Whole& to) {
    fields_.integer(key, static_cast<Whole>(least), static_cast<Whole>(most), &to);
  }
  void flag(const char* key, bool& to) { fields_.flag(key, &to); }
  void text(const char* key, std::string& to) { fields_.text(key, &to); }
  void texts(const char* key, std::map<std::string, std::string>& to) { fields_.texts(key, &to); }
  // A name that is there already gets the new number.
  void names(const char* key, double least, double most, std::map<std::string, double>& to) {
    std::vector<std::pair<std::string, double>> read;
    fields_.numbers(key, least, most, &read);
    for (const auto& [name, number] : read) to[name] = number;
  }
  template <class Part>
  void inside(const char* key, Part& part) {
    const std::unique_ptr<Fields> fields = fields_.map(key);
    if (!fields) return;
    Reader reader(*fields);
    visit(reader, part);
    fields->done();
  }
  template <class Part>
  void inside(const char* key, std::optional<Part>& part) {
    if (!fields_.has(key)) return;
    if (!part) part.emplace();
    inside(key, *part);
  }

 private:
  Fields& fields_;
};

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
  Reader reader(*fields);
  visit(reader, framework);
  fields->done();
  return framework;
}

}  // namespace boxcar::backends
