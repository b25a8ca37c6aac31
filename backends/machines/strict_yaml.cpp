#include "backends/machines/strict_yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/machines/constant_unit.h"
#include "backends/machines/yaml.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::backends {
namespace {

const char* kind_of(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Null:
      return "nothing";
    case YAML::NodeType::Scalar:
      return "a scalar";
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a mapping";
    default:
      return "nothing";
  }
}

}  // namespace

struct Fields::State {
  YAML::Node node;
  std::string file, path;
  std::vector<std::string> asked;

  YAML::Node find(const std::string& key) const {
    for (const auto& entry : node) {
      if (entry.first.Scalar() == key) return entry.second;
    }
    return YAML::Node(YAML::NodeType::Undefined);
  }
  YAML::Node ask(const std::string& key) {
    if (std::find(asked.begin(), asked.end(), key) == asked.end()) asked.push_back(key);
    return find(key);
  }
  std::string name(const std::string& key) const { return path.empty() ? key : path + "." + key; }
  [[noreturn]] void fail(const std::string& key, const YAML::Node& at, const std::string& message) const {
    throw Error::input(place(file, at.Mark()) + ": " + name(key), message);
  }

  double number(const std::string& key, const YAML::Node& at, double low, double high) const {
    double value = 0;
    if (!at.IsScalar()) fail(key, at, fmt::format("{} where a number is expected", kind_of(at)));
    if (const auto with_unit = read_constant(name(key), at.Scalar())) {
      value = *with_unit;
    } else if (!YAML::convert<double>::decode(at, value) || !std::isfinite(value)) {
      const ir::Unit unit = unit_of(name(key));
      fail(key, at,
           fmt::format("{} is not a number{}{}", at.Scalar(),
                       unit == ir::Unit::none ? "" : fmt::format(", as {} is", example_of(unit)),
                       ir::units_hint(at.Scalar(), unit)));
    }
    if (value < low || value > high) {
      fail(key, at, fmt::format("{} is outside {:g} to {:g}", at.Scalar(), low, high));
    }
    return value;
  }
  int64_t integer(const std::string& key, const YAML::Node& at, int64_t low, int64_t high) const {
    double value = number(key, at, static_cast<double>(low), static_cast<double>(high));
    if (value != std::floor(value)) fail(key, at, fmt::format("{} is not a whole number", at.Scalar()));
    return static_cast<int64_t>(value);
  }
  void list(const std::string& key, const YAML::Node& at) const {
    if (!at.IsSequence()) fail(key, at, fmt::format("{} where a list is expected", kind_of(at)));
  }
};

Fields::Fields(const YAML::Node& node, std::string file, std::string path)
    : state_(std::make_unique<State>()) {
  state_->node = node;
  state_->file = std::move(file);
  state_->path = std::move(path);
  std::string at = place(state_->file, node.Mark());
  if (!state_->path.empty()) at += ": " + state_->path;
  if (!node.IsMap()) throw Error::input(at, fmt::format("{} where a mapping is expected", kind_of(node)));
  std::set<std::string> seen;
  for (const auto& entry : node) {
    std::string key_at = place(state_->file, entry.first.Mark());
    if (!entry.first.IsScalar()) throw Error::input(key_at, "a key must be a name");
    if (!seen.insert(entry.first.Scalar()).second) {
      throw Error::input(key_at + ": " + state_->name(entry.first.Scalar()), "given twice");
    }
  }
}

Fields::~Fields() = default;

bool Fields::has(const char* key) { return state_->ask(key).IsDefined(); }

std::vector<std::string> Fields::names() const {
  std::vector<std::string> all;
  for (const auto& entry : state_->node) all.push_back(entry.first.Scalar());
  return all;
}

std::optional<std::string> Fields::like(const char* what, const std::vector<std::string>& known) {
  std::string name;
  if (!text("like", &name)) return {};
  if (std::find(known.begin(), known.end(), name) == known.end())
    fail("like", fmt::format("no {} of boxcar's is named \"{}\"{}; known are {}", what, name,
                             did_you_mean(name, known), fmt::join(known, ", ")));
  return name;
}

bool Fields::number(const char* key, double low, double high, double* to) {
  YAML::Node at = state_->ask(key);
  if (!at.IsDefined()) return false;
  *to = state_->number(key, at, low, high);
  return true;
}

bool Fields::integer(const char* key, int64_t low, int64_t high, int64_t* to) {
  YAML::Node at = state_->ask(key);
  if (!at.IsDefined()) return false;
  *to = state_->integer(key, at, low, high);
  return true;
}

bool Fields::integer(const char* key, int low, int high, int* to) {
  int64_t value = 0;
  if (!integer(key, static_cast<int64_t>(low), static_cast<int64_t>(high), &value)) return false;
  *to = static_cast<int>(value);
  return true;
}

bool Fields::text(const char* key, std::string* to) {
  YAML::Node at = state_->ask(key);
  if (!at.IsDefined()) return false;
  if (!at.IsScalar()) state_->fail(key, at, fmt::format("{} where a name is expected", kind_of(at)));
  *to = at.Scalar();
  return true;
}

bool Fields::integers(const char* key, int low, int high, std::vector<int>* to) {
  YAML::Node at = state_->ask(key);
  if (!at.IsDefined()) return false;
  state_->list(key, at);
  to->clear();
  for (const YAML::Node& item : at) to->push_back(static_cast<int>(state_->integer(key, item, low, high)));
  return true;
}

bool Fields::matrix(const char* key, int low, int high, std::vector<std::vector<int>>* to) {
  YAML::Node at = state_->ask(key);
  if (!at.IsDefined()) return false;
  state_->list(key, at);
  to->clear();
  for (const YAML::Node& row : at) {
    state_->list(key, row);
    to->emplace_back();
    for (const YAML::Node& item : row) {
      to->back().push_back(static_cast<int>(state_->integer(key, item, low, high)));
    }
  }
  return true;
}

bool Fields::rows(const char* key, size_t columns, double low, double high,
                  std::vector<std::vector<double>>* to) {
  YAML::Node at = state_->ask(key);
  if (!at.IsDefined()) return false;
  state_->list(key, at);
  to->clear();
  for (const YAML::Node& row : at) {
    state_->list(key, row);
    if (row.size() != columns)
      state_->fail(key, row, fmt::format("{} numbers, expected {}", row.size(), columns));
    to->emplace_back();
    for (const YAML::Node& item : row) to->back().push_back(state_->number(key, item, low, high));
  }
  return true;
}

bool Fields::points(const char* key, double low, double high, std::vector<double>* x,
                    std::vector<double>* y) {
  YAML::Node at = state_->ask(key);
  if (!at.IsDefined()) return false;
  state_->list(key, at);
  x->clear();
  y->clear();
  for (const YAML::Node& point : at) {
    if (!point.IsSequence() || point.size() != 2) state_->fail(key, point, "a point must be [x, y]");
    double px = state_->number(key, point[0], 1e-30, 1e30);
    if (!x->empty() && px <= x->back()) state_->fail(key, point, "x must ascend from point to point");
    x->push_back(px);
    y->push_back(state_->number(key, point[1], low, high));
  }
  return true;
}

bool Fields::numbers(const char* key, double low, double high,
                     std::vector<std::pair<std::string, double>>* to) {
  std::unique_ptr<Fields> fields = map(key);
  if (!fields) return false;
  for (const auto& entry : fields->state_->node) {
    std::string name = entry.first.Scalar();
    to->emplace_back(name, fields->state_->number(name, entry.second, low, high));
  }
  return true;
}

bool Fields::flag(const char* key, bool* to) {
  std::string word;
  if (!text(key, &word)) return false;
  if (word != "true" && word != "false") state_->fail(key, state_->ask(key), word + " is not true or false");
  *to = word == "true";
  return true;
}

bool Fields::texts(const char* key, std::map<std::string, std::string>* to) {
  std::unique_ptr<Fields> fields = map(key);
  if (!fields) return false;
  for (const auto& entry : fields->state_->node)
    fields->text(entry.first.Scalar().c_str(), &(*to)[entry.first.Scalar()]);
  return true;
}

std::unique_ptr<Fields> Fields::map(const char* key) {
  YAML::Node at = state_->ask(key);
  if (!at.IsDefined()) return nullptr;
  return std::make_unique<Fields>(at, state_->file, state_->name(key));
}

void Fields::require(const char* key) {
  if (!has(key)) {
    throw Error::input(
        place(state_->file, state_->node.Mark()) + (state_->path.empty() ? "" : ": " + state_->path),
        fmt::format("missing key {}", key));
  }
}

void Fields::done() const {
  for (const auto& entry : state_->node) {
    const std::string& key = entry.first.Scalar();
    if (std::find(state_->asked.begin(), state_->asked.end(), key) != state_->asked.end()) continue;
    throw Error::input(
        place(state_->file, entry.first.Mark()) + (state_->path.empty() ? "" : ": " + state_->path),
        fmt::format("unknown key {}{}", key, did_you_mean(key, state_->asked)));
  }
}

void Fields::fail(const char* key, const std::string& message) const {
  throw Error::input(where(key), message);
}

std::string Fields::where(const char* key) const {
  YAML::Node at = state_->find(key);
  return place(state_->file, at.IsDefined() ? at.Mark() : state_->node.Mark()) + ": " + state_->name(key);
}

std::unique_ptr<Fields> parse_fields(const std::string& text, const std::string& file,
                                     const std::string& path) {
  const YAML::Node root = load_yaml(text, file);
  if (root.IsNull() || !root.IsDefined()) throw Error::input(file, "the file is empty");
  return std::make_unique<Fields>(root, file, path);
}

}  // namespace boxcar::backends
