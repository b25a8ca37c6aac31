#include "cli/sweep/points.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "backends/machines/yaml.h"
#include "cli/flag_synonyms.h"
#include "cli/search_limits.h"
#include "cli/what_if.h"
#include "ir/models/model.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

constexpr double most_values = 100'000;  // of one range
constexpr const char* what_if_section = "what_if";
constexpr const char* search_key = "search";
constexpr const char* max_stack_key = "max_stack";
constexpr const char* price_key = "price";
constexpr double most_price = 1e6;  // as of a cluster file

std::string underscored(std::string flag) {
  flag.erase(0, 2);
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag;
}

std::vector<std::string> names_at_top() {
  std::vector<std::string> names = sections();
  for (const Key& key : keys())
    if (key.section != run_section) names.push_back(underscored(key.flag));
  names.emplace_back(what_if_section);
  names.emplace_back(search_key);
  names.emplace_back(max_stack_key);
  names.emplace_back(price_key);
  return names;
}

// " (did you mean tp?)": the key that other frameworks call so, else the nearest one.
std::string suggestion(const std::string& name) {
  const Key* meant = key_meant(name);
  return meant ? fmt::format(" (did you mean {}?)", sweep_name(*meant)) : did_you_mean(name, names_at_top());
}

template <class T>
bool holds(const Key& key) {
  Request request;
  if (!key.families.empty()) request.job.model = ir::models::default_model(key.families.front());
  return std::holds_alternative<T*>(key.field(request));
}

bool is_number(const Key& key) { return holds<int>(key) || holds<int64_t>(key) || holds<double>(key); }

// A number and the unit behind it: "8", "4M-tokens", "1.5x", "100GB/s".
struct Bound {
  double number = 0;
  std::string unit;
};

std::optional<Bound> read_bound(std::string_view text) {
  Bound bound;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), bound.number);
  if (error != std::errc() || !std::isfinite(bound.number)) return std::nullopt;
  bound.unit = std::string(rest, text.data() + text.size());
  return bound;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

struct SweepRange {
  Bound first, last;
  double step = 1;
  bool times = false;  // each is `step` times the one before
};

std::optional<SweepRange> read_range(std::string_view text) {
  const size_t dots = text.find("..");
  const std::string_view behind = trimmed(text.substr(dots + 2));
  const size_t space = std::min(behind.find(' '), behind.size());
  const std::optional<Bound> first = read_bound(trimmed(text.substr(0, dots))),
                             last = read_bound(behind.substr(0, space));
  if (!first || !last) return std::nullopt;
  SweepRange range{*first, *last};
  const std::string_view step = trimmed(behind.substr(space));
  if (step.empty()) return range;
  range.times = step.front() == 'x';
  const std::optional<Bound> by = read_bound(step.substr(1));
  if ((!range.times && step.front() != '+') || !by || !by->unit.empty()) return std::nullopt;
  range.step = by->number;
  return range;
}

std::string number_of(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{}", static_cast<int64_t>(value))
                                                              : fmt::format("{:.12g}", value);
}

// The number of values of a range, and the values.
double values_in(const SweepRange& r) {
  const double slack = 1e-9;  // so that 0..1 +0.1 ends at 1
  return std::floor((r.times ? std::log(r.last.number / r.first.number) / std::log(r.step)
                             : (r.last.number - r.first.number) / r.step) +
                    slack) +
         1;
}
double value_in(const SweepRange& r, double i) {
  return r.times ? r.first.number * std::pow(r.step, i) : r.first.number + r.step * i;
}

void check_value(const Key& key, const Given& value) {
  const std::string path = key.path();
  if (path == "model.family") {
    GivenKeys one{{path, value}};
    expand(one);
    return;
  }
  if (path == "train.global_batch" && value.text.ends_with("-tokens")) return;  // counted by a point's model
  Request request;
  if (!key.families.empty()) request.job.model = ir::models::default_model(key.families.front());
  set(request, path, value);
  try {
    if (path == "cluster.preset") backends::load_cluster(value.text);
    if (path == "cluster.device") backends::load_device(value.text);
    if (path == "train.stack") backends::load_framework(value.text);
  } catch (const Error& error) {
    const std::string what = error.what(), place = error.where() + ": ";
    const bool by_name =
        error.where() == "cluster" || error.where() == "device" || error.where() == "framework";
    throw Error(error.code(), value.where, by_name ? what.substr(place.size()) : what);
  }
}

// Collects axes from the file, then from flags.
class SweepReader {
 public:
  explicit SweepReader(std::string path) : path_(std::move(path)) {}

  Sweep read(const YAML::Node& root, const GivenKeys& flags) {
    if (!root.IsMap()) throw Error::input(path_, "expected keys and their values, as in tp: [1, 2, 4]");
    for (const auto& entry : root) read_top(entry.first, entry.second);
    for (const auto& [path, value] : flags) take_flag(key_at(path), value);
    check_max_stack();
    std::stable_partition(sweep_.axes.begin(), sweep_.axes.end(),
                          [](const SweepAxis& a) { return !a.constant; });
    check_count();
    check_constants();
    return std::move(sweep_);
  }

 private:
  std::string at(const YAML::Node& node, const std::string& name) const {
    return fmt::format("{}: {}", backends::place(path_, node.Mark()), name);
  }

  std::string name_of(const YAML::Node& node) const {
    if (node.IsScalar()) return node.Scalar();
    throw Error::input(backends::place(path_, node.Mark()), "expected the name of a key");
  }

  void read_top(const YAML::Node& name_node, const YAML::Node& node) {
    const std::string name = name_of(name_node);
    const std::vector<std::string> known = sections();
    const bool section = std::find(known.begin(), known.end(), name) != known.end();
    if (name == what_if_section) return read_constants(node);
    if (name == search_key) return read_search(node);
    if (name == max_stack_key) return read_max_stack(node);
    if (name == price_key) return read_price(node);
    if (section && node.IsMap()) return read_section(name, node);
    const Key* key = key_called(name);
    if (section && !key)
      throw Error::input(at(node, name), fmt::format("expected keys and values, as in {}: {{...}}", name));
    if (!key)
      throw Error::input(backends::place(path_, name_node.Mark()),
                         fmt::format("unknown key \"{}\"{}; a key has the name of its flag, and docs/jobs.md "
                                     "lists them; what_if, search, max_stack and price are known too",
                                     name, suggestion(name)));
    read_key(*key, node);
  }

  void read_section(const std::string& section, const YAML::Node& node) {
    for (const auto& entry : node) {
      const std::string name = name_of(entry.first);
      const Key* key = find_key(section, name);
      if (!key)
        throw Error::input(backends::place(path_, entry.first.Mark()),
                           fmt::format("unknown key \"{}\" under {}{}; known are {}", name, section,
                                       did_you_mean_key(section, name), fmt::join(key_names(section), ", ")));
      read_key(*key, entry.second);
    }
  }

  void read_key(const Key& key, const YAML::Node& node) {
    SweepAxis axis{key.path(), false, values_of(node, key.path(), &key)};
    if (key.section != run_section) {
      check_key_values(key, axis.values);
      return add(std::move(axis));
    }
    // A job file may have keys of training, on which no simulation depends.
    if (axis.values.size() > 1)
      throw Error::input(axis.values.front().where, "has no effect on a sweep, which trains nothing");
  }

  void read_constants(const YAML::Node& node) {
    if (!node.IsMap())
      throw Error::input(at(node, what_if_section),
                         "expected names and values, as in what_if: {bandwidth.network: [1x, 2x]}");
    for (const auto& entry : node) {
      const std::string name = name_of(entry.first);
      add({name, true, values_of(entry.second, fmt::format("what_if.{}", name), nullptr)});
    }
  }

  void read_search(const YAML::Node& node) {
    const std::string where = at(node, search_key);
    if (given_search_) throw Error::input(where, "given twice");
    given_search_ = true;
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    if (text != "true" && text != "false") throw Error::input(where, "expected true or false");
    sweep_.search = text == "true";
  }

  void read_max_stack(const YAML::Node& node) {
    const std::string where = at(node, max_stack_key);
    if (!sweep_.max_stack.empty()) throw Error::input(where, "given twice");
    if (!node.IsScalar() || node.Scalar().empty())
      throw Error::input(where, "expected the name of one framework");
    sweep_.max_stack = node.Scalar();
    max_stack_where_ = where;
  }

  void read_price(const YAML::Node& node) {
    const std::string where = at(node, price_key), text = node.IsScalar() ? node.Scalar() : "";
    if (sweep_.price) throw Error::input(where, "given twice");
    const std::optional<Bound> price = read_bound(text);
    if (!price || !price->unit.empty() || price->number < 0 || price->number > most_price)
      throw Error::input(
          where,
          fmt::format("expected one number of dollars per GPU and hour, 0 to {:g}, as 2.50", most_price));
    sweep_.price = price->number;
  }

  // Otherwise points would report it one by one.
  void check_max_stack() const {
    if (sweep_.max_stack.empty()) return;
    if (!sweep_.search) throw Error::input(max_stack_where_, "has no effect without search: true");
    try {
      GivenKeys nothing;
      restrict_to(sweep_.max_stack, nothing);
    } catch (const Error& error) {
      throw Error(error.code(), max_stack_where_, std::string(error.what()).substr(error.where().size() + 2));
    }
  }

  void add(SweepAxis axis) {
    for (const SweepAxis& other : sweep_.axes)
      if (other.name == axis.name && other.constant == axis.constant)
        throw Error::input(axis.values.front().where, "given twice");
    sweep_.axes.push_back(std::move(axis));
  }

  // `key`: null for a constant of the cluster.
  std::vector<Given> values_of(const YAML::Node& node, const std::string& name, const Key* key) const {
    std::vector<Given> all;
    if (node.IsNull()) throw Error::input(at(node, name), "has no value; leave the key out for its default");
    if (!node.IsSequence()) {
      add_values(node, name, key, all);
    } else {
      for (const YAML::Node& item : node) add_item(item, name, key, all);
      if (all.empty()) throw Error::input(at(node, name), "has an empty list of values");
    }
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = 0; j < i && all.size() < 1000; ++j)
        if (all[i].text == all[j].text)
          throw Error::input(all[i].where, fmt::format("{} is given twice", all[i].text));
    return all;
  }

  void add_values(const YAML::Node& node, const std::string& name, const Key* key,
                  std::vector<Given>& all) const {
    const std::string where = at(node, name);
    if (!node.IsScalar()) throw Error::input(where, "expected a value, a range, or a list of values");
    if (key && !is_number(*key)) return all.push_back({node.Scalar(), where});
    for (std::string& text : range_values(node.Scalar(), where)) all.push_back({std::move(text), where});
  }

  void add_item(const YAML::Node& item, const std::string& name, const Key* key,
                std::vector<Given>& all) const {
    const std::string where = at(item, name);
    if (item.IsSequence()) {  // a value that is a list itself
      std::vector<std::string> parts;
      for (const YAML::Node& part : item) {
        if (!part.IsScalar()) throw Error::input(where, "expected plain values in the inner list");
        parts.push_back(part.Scalar());
      }
      return all.push_back({fmt::format("[{}]", fmt::join(parts, ",")), where});
    }
    if (item.IsScalar() && key && (key->name == "stage_layers" || key->name == "stage_order") &&
        read_bound(item.Scalar()) && item.Scalar().find_first_not_of("0123456789") == std::string::npos)
      throw Error::input(where,
                         fmt::format("a list in a sweep is a list of values to try; one value of {} is "
                                     "[[7, 8, 8, 7]] or \"7,8,8,7\"",
                                     key->name));
    add_values(item, name, key, all);
  }

  void check_key_values(const Key& key, const std::vector<Given>& values) const {
    for (const Given& value : values) check_value(key, value);
  }

  void take_flag(const Key& key, const Given& value) {
    SweepAxis axis{key.path(), false, {}};
    if (!is_number(key)) {
      axis.values.push_back(value);
    } else {
      std::string_view rest = value.text;
      if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
      for (bool more = true; more;) {
        const size_t comma = rest.find(',');
        more = comma != std::string_view::npos;
        for (std::string& text : range_values(std::string(trimmed(rest.substr(0, comma))), value.where))
          axis.values.push_back({std::move(text), value.where});
        if (more) rest.remove_prefix(comma + 1);
      }
    }
    check_key_values(key, axis.values);
    std::erase_if(sweep_.axes, [&](const SweepAxis& a) { return !a.constant && a.name == axis.name; });
    add(std::move(axis));
  }

  void check_count() const {
    double points = 1;
    for (const SweepAxis& axis : sweep_.axes) points *= static_cast<double>(axis.values.size());
    if (points > static_cast<double>(most_points))
      throw Error::input(
          path_, fmt::format("has {:.4g} points, more than {} (use fewer values, or several files)", points,
                             most_points));
  }

  // A constant's value is wrong if no cluster of the sweep takes it; if one does, rows of others say why.
  void check_constants() const {
    std::vector<backends::Cluster> clusters;
    const auto named = [&](const char* path) {
      return std::find_if(sweep_.axes.begin(), sweep_.axes.end(),
                          [&](const SweepAxis& a) { return !a.constant && a.name == path; });
    };
    if (const auto found = named("cluster.preset"); found != sweep_.axes.end())
      for (const Given& value : found->values) clusters.push_back(backends::load_cluster(value.text));
    if (const auto found = named("cluster.device"); found != sweep_.axes.end() && !clusters.empty()) {
      std::vector<backends::Cluster> with_devices;
      for (const backends::Cluster& cluster : clusters)
        for (const Given& value : found->values)
          backends::put_device(with_devices.emplace_back(cluster), backends::load_device(value.text));
      clusters = std::move(with_devices);
    }
    for (const SweepAxis& axis : sweep_.axes)
      for (const Given& value : axis.values)
        if (axis.constant) check_constant(axis.name, value, clusters);
  }

  static void check_constant(const std::string& name, const Given& value,
                             const std::vector<backends::Cluster>& clusters) {
    std::optional<Error> refused;
    for (backends::Cluster cluster : clusters) {
      try {
        return change(cluster, name + "=" + value.text);
      } catch (const Error& error) {
        refused = error;
      }
    }
    if (!refused) return;
    const std::string what = refused->what();
    throw Error(refused->code(), value.where, what.substr(refused->where().size() + 2));
  }

  std::string path_;
  Sweep sweep_;
  bool given_search_ = false;
  std::string max_stack_where_;
};

}  // namespace

std::string sweep_name(const Key& key) { return underscored(key.flag); }

std::vector<std::string> range_values(const std::string& text, const std::string& where) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos || text.empty() || text.front() < '0' || text.front() > '9') return {text};
  const auto refuse_range = [&](const std::string& why) {
    throw Error::input(where, fmt::format("got \"{}\", {}", text, why));
  };
  const std::optional<SweepRange> range = read_range(text);
  if (!range) refuse_range("expected a range such as 1..4, 8..64 x2 or 0..12 +4");
  if (range->first.unit != range->last.unit) refuse_range("whose ends have different units");
  if (range->last.number < range->first.number) refuse_range("which ends before it begins");
  if (range->times ? range->step <= 1 || range->first.number <= 0 : range->step <= 0)
    refuse_range("which never ends: its step must be above +0, or above x1 from a number above 0");
  const double count = values_in(*range);
  if (count > most_values) refuse_range(fmt::format("which has more than {} values", most_values));
  std::vector<std::string> values;
  for (double i = 0; i < count; ++i) values.push_back(number_of(value_in(*range, i)) + range->first.unit);
  return values;
}

int64_t Sweep::count() const {
  int64_t points = 1;
  for (const SweepAxis& axis : axes) points *= static_cast<int64_t>(axis.values.size());
  return points;
}

SweepPoint Sweep::at(int64_t number) const {
  SweepPoint point{number, {}, {}, price};
  for (size_t i = axes.size(); i-- > 0;) {
    const SweepAxis& axis = axes[i];
    const auto values = static_cast<int64_t>(axis.values.size());
    const std::string& text = axis.values[static_cast<size_t>(number % values)].text;
    number /= values;
    if (axis.constant)
      point.changes.insert(point.changes.begin(), axis.name + "=" + text);
    else
      point.given[axis.name] = {text, axis.name};
  }
  return point;
}

int64_t Sweep::group_of(int64_t number) const {
  for (const SweepAxis& axis : axes)
    if (axis.constant) number /= static_cast<int64_t>(axis.values.size());
  return number;
}

Sweep parse_sweep(const std::string& text, const std::string& path, const GivenKeys& flags) {
  const YAML::Node root = backends::load_yaml(text, path);
  if (root.IsNull() || !root.IsDefined())
    throw Error::input(path, "is empty; it needs a model and a cluster");
  return SweepReader(path).read(root, flags);
}

}  // namespace boxcar::cli
