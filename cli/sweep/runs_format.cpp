#include "cli/sweep/runs_format.h"

#include <iterator>
#include <utility>
#include <vector>

#include "cli/keys.h"
#include "cli/program.h"
#include "cli/sweep/points.h"
#include "ir/models/model.h"

namespace boxcar::cli {
namespace {

using sweep::Better;
using sweep::Column;
using sweep::ColumnType;

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
      {"status", text, "simulated, does not fit, or refused (by the checks of a job, before a plan is made)"},
      {"searched", truth, "whether open keys were searched"},
      {"max_stack", text, "in a searched run: the framework that can run the found plan"},
  };
  for (const Key& key : keys()) {
    if (key.section == run_section) continue;
    const bool is_family = key.path() == "model.family";
    if (is_family)
      all.push_back(
          {.name = "model", .type = text, .meaning = "the model as the sweep names it", .asked = true});
    all.push_back({.name = is_family ? "family" : sweep_name(key),
                   .type = type_of(key),
                   .meaning = key.help,
                   .key = key.path(),
                   .asked = !is_family});
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

const sweep::RunsFormat& runs_format() {
  static const sweep::RunsFormat format(
      {"boxcar", program_version()}, make_columns(),
      {"flags", "fits", "step_time_s", "tokens_per_s", "mfu", "peak_memory_bytes", "bound_by", "why_not"});
  return format;
}

sweep::RunsTable read_rows(const std::string& path, const sweep::RunsQuery& query) {
  try {
    return sweep::read_runs(path, runs_format(), query);
  } catch (const sweep::QueryError& error) {
    throw Error(error.code(), "--" + error.where(),
                std::string(error.what()).substr(error.where().size() + 2));
  }
}

}  // namespace boxcar::cli
