#include "cli/sweep/columns.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/keys.h"
#include "cli/sweep/points.h"
#include "ir/models/model.h"
#include "ir/read_number.h"

namespace boxcar::cli {
namespace {

ColumnType type_of(const Key& key) {
  Request request;
  if (!key.families.empty()) request.job.model = ir::models::default_model(key.families.front());
  const Field field = key.field(request);
  if (std::holds_alternative<int*>(field) || std::holds_alternative<int64_t*>(field))
    return ColumnType::integer;
  if (std::holds_alternative<double*>(field)) return ColumnType::real;
  return key.is_switch() ? ColumnType::truth : ColumnType::text;
}

std::vector<Column> make_columns() {
  using enum ColumnType;
  std::vector<Column> all{
      {"key", text, "identifies the resolved configuration; no two rows have the same"},
      {"point", integer, "number of the point in the sweep that ran it, from 0"},
      {"status", text, "simulated, does not fit, or refused (by the checks of a job, before a plan is made)"},
      {"searched", truth, "whether open keys were searched"},
      {"max_stack", text, "in a searched run: the framework that can run the found plan"},
  };
  for (const Key& key : keys()) {
    if (key.section == run_section) continue;
    if (key.path() == "model.family") all.push_back({"model", text, "the model as the sweep names it"});
    all.push_back(
        {key.path() == "model.family" ? "family" : sweep_name(key), type_of(key), key.help, key.path()});
  }
  std::vector<Column> results{
      {"fits", truth, "whether every device's memory is enough"},
      {"step_time_s", real, "simulated time of an optimizer step, in seconds", "", Better::less},
      {"step_time_low_s", real, "low end of the range in which nine of ten published steps lie", "",
       Better::less},
      {"step_time_high_s", real, "high end of that range", "", Better::less},
      {"samples_per_s", real, "sequences or images per second", "", Better::more},
      {"tokens_per_s", real, "tokens per second", "", Better::more},
      {"mfu", real, "model FLOPs utilisation, 0 to 1", "", Better::more},
      {"bubble_fraction", real, "idle share of the compute queue's time, mean over stages", "", Better::less},
      {"exposed_comm_s", real, "time in which kernels wait for communication, on the worst stage", "",
       Better::less},
      {"peak_memory_bytes", integer, "peak memory of the fullest device", "", Better::less},
      {"memory_limit_bytes", integer, "memory that a device has for a plan"},
      {"bound_by", text,
       "kernels, exposed_communication or waiting: the largest share of bound_stage's step"},
      {"bound_stage", text, "the stage whose kernels take longest"},
      {"dollars_per_step", real, "price of a step, by --price or price_per_gpu_hour of the cluster file", "",
       Better::less},
      {"why_not", text, "the reason why there is no step"},
      {"flags", text, "in a searched run: the keys that were found, as flags"},
      {"wall_s", real, "time that the program took for this run", "", Better::less},
      {"configuration", text, "the resolved value of every key, and what_if, as JSON"},
      {"result", text, "the document that `boxcar simulate --json` or `boxcar search --json` prints"},
  };
  for (Column& column : all)
    if (column.name == "gpus") column.better = Better::less;
  std::move(results.begin(), results.end(), std::back_inserter(all));
  return all;
}

}  // namespace

const std::vector<Column>& columns() {
  static const std::vector<Column> all = make_columns();
  return all;
}

const Column* column_named(std::string_view name) {
  for (const Column& column : columns())
    if (column.name == name) return &column;
  return nullptr;
}

std::string what_if_column(const std::string& constant) {
  std::string name = what_if_prefix + constant;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

nlohmann::json cell_of(const Column& column, const std::string& text) {
  if (column.type == ColumnType::truth) return text == "true";
  if (column.type == ColumnType::integer)
    if (const auto number = ir::read_number<int64_t>(text)) return *number;
  if (column.type == ColumnType::real)
    if (const auto number = ir::read_number<double>(text)) return *number;
  return text;
}

std::string to_text(const RunRow& row) {
  return nlohmann::json{{"key", row.key}, {"point", row.point}, {"cells", row.cells}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RunRow row_of(const std::string& text) {
  nlohmann::json doc = nlohmann::json::parse(text);
  return {doc.at("key"), doc.at("point"), std::move(doc.at("cells"))};
}

}  // namespace boxcar::cli
