#include "experiments/search/op_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <string_view>

#include "sbp/error.h"

namespace boxcar::measured {
namespace {

// Calls `take` for every row, its fields by the names of the first row.
class Csv {
 public:
  explicit Csv(std::string path) : path_(std::move(path)), in_(path_) {
    if (!in_) throw Error::input(path_, "cannot be read");
    if (next()) names_ = fields_;
  }

  bool next() {
    std::string text;
    if (!std::getline(in_, text)) return false;
    ++line_;
    fields_.clear();
    size_t from = 0;
    for (size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', from)) {
      fields_.push_back(text.substr(from, comma - from));
      from = comma + 1;
    }
    fields_.push_back(text.substr(from));
    return true;
  }

  const std::string& text(std::string_view name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    const auto column = static_cast<size_t>(found - names_.begin());
    if (found == names_.end() || column >= fields_.size())
      throw Error::input(fmt::format("{}:{}", path_, line_), fmt::format("has no field {}", name));
    return fields_[column];
  }

  double number(std::string_view name) const {
    const std::string& field = text(name);
    double value = 0;
    const auto end = std::from_chars(field.data(), field.data() + field.size(), value);
    if (end.ec != std::errc() || end.ptr != field.data() + field.size())
      throw Error::input(fmt::format("{}:{}", path_, line_),
                         fmt::format("{} is '{}', no number", name, field));
    return value;
  }

  int whole(std::string_view name) const { return static_cast<int>(number(name)); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ifstream in_;
  int line_ = 0;
  std::vector<std::string> names_, fields_;
};

}  // namespace

OpTable OpTable::read(const std::string& folder, const std::string& model) {
  OpTable table;
  Csv csv(folder + "/aceso_v100_op_profile.csv");
  while (csv.next()) {
    if (csv.text("model") != model) continue;
    const std::string& name = csv.text("op");
    auto found = std::find(table.names_.begin(), table.names_.end(), name);
    if (found == table.names_.end()) found = table.names_.insert(found, name);
    const auto op = static_cast<int>(found - table.names_.begin());
    table.costs_[{op, csv.whole("micro_batch"), csv.whole("tp"), csv.whole("algo")}] = {
        csv.number("fwd_us") / 1e6,    csv.number("bwd_us") / 1e6,   csv.number("input_MB"),
        csv.number("output_MB"),       csv.number("weights_MB"),     csv.number("activations_MB"),
        csv.number("fwd_reserved_MB"), csv.number("bwd_reserved_MB")};
  }
  if (table.names_.empty()) throw Error::input(csv.path(), fmt::format("has no model {}", model));
  return table;
}

const OpCost* OpTable::find(int op, int samples, int tp, int split) const {
  const auto found = costs_.find({op, samples, tp, split});
  return found == costs_.end() ? nullptr : &found->second;
}

Links Links::read(const std::string& folder) {
  Links links;
  Csv csv(folder + "/aceso_v100_comm_profile.csv");
  while (csv.next()) {
    if (csv.text("collective") == "reduce_scatter")
      links.scatters_[csv.whole("n_gpus")][csv.number("data_size_MB")] = csv.number("time_ms") / 1e3;
    if (csv.text("collective") != "p2p") continue;
    auto& rates = csv.text("scope") == "inter-node" ? links.between_ : links.inside_;
    rates.push_back(csv.number("data_size_MB") / 1024 / (csv.number("time_ms") / 1e3));
  }
  if (links.inside_.empty() || links.between_.empty())
    throw Error::input(csv.path(), "has no p2p rows within a node, or none between nodes");
  if (links.scatters_[4].empty() || links.scatters_[8].empty())
    throw Error::input(csv.path(), "has no reduce_scatter rows of 4 GPUs, or none of 8");
  return links;
}

// At the rate of the second next smaller size, as their planner reads the table.
double Links::seconds(double megabytes, bool between_nodes) const {
  if (megabytes <= 0) return 0;
  const std::vector<double>& rates = between_nodes ? between_ : inside_;
  const int power = std::max(0, static_cast<int>(std::log2(megabytes)));
  const auto index = std::min(rates.size() - 1, static_cast<size_t>(std::max(0, power - 1)));
  return megabytes / 1e3 / rates[index];
}

// Between two sizes by a straight line, below the smallest constant, above the largest in proportion.
double Links::gather_seconds(double megabytes, int devices) const {
  const auto& scatters = scatters_.at(devices > 4 ? 8 : 4);
  const auto above = scatters.lower_bound(megabytes);
  if (above == scatters.begin()) return above->second;
  const auto& [size, seconds] = *std::prev(above);
  if (above == scatters.end()) return seconds * megabytes / size;
  return seconds + (above->second - seconds) * (megabytes - size) / (above->first - size);
}

}  // namespace boxcar::measured
