#include "cli/sweep/point_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "backends/machines/cluster.h"
#include "backends/machines/constant_unit.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/file_name.h"
#include "backends/machines/framework.h"
#include "backends/machines/named_constants.h"
#include "cli/effects.h"
#include "cli/job_labels.h"
#include "cli/output.h"
#include "cli/quantities.h"
#include "cli/report_text.h"
#include "cli/search_job.h"
#include "cli/search_report.h"
#include "cli/sweep/runs_format.h"
#include "cli/verdict.h"
#include "cli/what_if.h"
#include "planner/estimate/graphs.h"
#include "planner/estimate/layout_labels.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/explain/report.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using sweep::Column;
using sweep::RunRow;
using WallClock = std::chrono::steady_clock;

constexpr size_t kept_graphs = 8;                   // training graphs, some MB each
constexpr const char* to_be_searched = "searched";  // in place of an open key's value

// FNV-1a, twice from different beginnings.
std::string digest(const std::string& text) {
  std::array<uint64_t, 2> state{0xcbf29ce484222325, 0x9ae16a3b2f90404f};
  for (const char c : text)
    for (uint64_t& one : state) one = (one ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}{:016x}", state[0], state[1] ^ (state[0] >> 29));
}

// A job that is ready to run: with its changed cluster, as far as it is given if it is searched.
struct Prepared {
  Request request;                          // its job has the changed cluster
  std::optional<planner::ResolvedJob> job;  // to compile; none for a search
  std::map<std::string, std::string> labels;
  GivenKeys given = {};  // of a search, as the framework leaves them
  search::SearchOptions options = {};
};

void make_point_changes(const SweepPoint& point, backends::Cluster& cluster) {
  cluster.price_per_gpu_hour = point.price.value_or(cluster.price_per_gpu_hour);
  for (const std::string& text : point.changes) {
    try {
      change(cluster, text);
    } catch (const Error& error) {
      const std::string name = "what_if." + text.substr(0, text.find('='));
      throw Error(error.code(), name, std::string(error.what()).substr(error.where().size() + 2));
    }
  }
}

Prepared prepare_search(const SweepPoint& point, const std::string& max_stack) {
  OpenJob open = open_job(point.given, max_stack);
  Prepared ready{std::move(open.request), std::nullopt, {}, std::move(open.given), std::move(open.options)};
  tell_stack(point.given, max_stack);
  make_point_changes(point, ready.request.job.cluster);
  if (ready.request.job.global_batch == 0)
    throw Error::input("train.global_batch", "missing; a search needs it");
  ready.labels = labels_of(ready.request);
  for (const std::string& path : open_keys(point.given)) ready.labels[path] = to_be_searched;
  return ready;
}

Prepared prepare_job(const SweepPoint& point) {
  Resolved resolved = resolve(point.given);
  planner::Job job = resolved.job;
  make_point_changes(point, job.cluster);
  resolved.request.job.cluster = job.cluster;
  try {
    return {
        std::move(resolved.request), planner::resolve(std::move(job)), std::move(resolved.labels), {}, {}};
  } catch (const Error& error) {
    throw located(point.given, error);
  }
}

Prepared prepare(const SweepPoint& point, const PointWay& way) {
  return way.search ? prepare_search(point, way.max_stack) : prepare_job(point);
}

// The keys as given, for points that have no resolved configuration.
std::map<std::string, std::string> given_labels(const SweepPoint& point) {
  std::map<std::string, std::string> all;
  for (const auto& [path, value] : point.given) all[path] = value.text;
  return all;
}

// The text of a framework's own file, whose constants are in no other description.
std::string file_of(const std::string& name) { return backends::is_file_name(name) ? read_file(name) : name; }

std::string cluster_text(const Request& request) {
  const backends::Cluster& cluster = request.job.cluster;
  return backends::to_yaml(cluster, "") + backends::to_yaml(cluster.device) + file_of(request.framework);
}

std::string kind_of(const SweepPoint& point, const PointWay& way) {
  const std::string within = way.max_stack.empty() ? "" : "within " + file_of(way.max_stack) + " ";
  return (way.search ? "searched " + within : "simulated ") + json(point.changes).dump();
}

std::string key_of(const Prepared& ready, const SweepPoint& point, const PointWay& way) {
  return digest(kind_of(point, way) + json(ready.labels).dump() + cluster_text(ready.request));
}

std::string refused_key(const SweepPoint& point, const PointWay& way) {
  return digest("refused " + kind_of(point, way) + json(given_labels(point)).dump());
}

// The factor of "2x", otherwise the constant in its own unit.
json constant_cell(const std::string& name, const std::string& text, backends::Cluster* changed) {
  if (text.ends_with('x')) {
    double factor = 0;
    std::from_chars(text.data(), text.data() + text.size() - 1, factor);
    return factor;
  }
  if (changed)
    if (const auto found = backends::find_constants(*changed, name); found.size() == 1)
      return found[0].value();
  if (const auto number = backends::read_constant(name, text)) return *number;
  return text;
}

void add_configuration(const SweepPoint& point, const std::map<std::string, std::string>& labels,
                       backends::Cluster* changed, RunRow& row) {
  for (const Column& column : runs_format().columns())
    if (const auto found = labels.find(column.key);
        !column.key.empty() && found != labels.end() && found->second != to_be_searched)
      row.cells[column.name] = sweep::cell_of(column, found->second);
    else if (const auto given = point.given.find(column.key);  // no label: its default, or sets other keys
             !column.key.empty() && found == labels.end() && given != point.given.end())
      row.cells[column.name] = sweep::cell_of(column, given->second.text);
  if (const auto model = point.given.find("model.family"); model != point.given.end())
    row.cells["model"] = model->second.text;
  json configuration = labels;
  for (const std::string& text : point.changes) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    configuration["what_if." + name] = value;
    row.cells[sweep::what_if_column(name)] = constant_cell(name, value, changed);
  }
  row.cells["configuration"] = configuration.dump();
}

// Removes from a document what differs from run to run.
void drop_own_times(nlohmann::ordered_json& doc) {
  if (doc.is_object()) {
    for (const char* key : {"wall_s", "peak_rss_bytes"}) doc.erase(key);
    for (auto& [key, value] : doc.items()) drop_own_times(value);
  } else if (doc.is_array()) {
    for (nlohmann::ordered_json& value : doc) drop_own_times(value);
  }
}

std::string stable(const std::string& document) {
  auto doc = nlohmann::ordered_json::parse(document);
  drop_own_times(doc);
  return doc.dump();
}

void add_memory_cells(const explain::Report& report, RunRow& row) {
  int64_t peak = report.node_peak_bytes;
  for (const explain::StageReport& stage : report.stages) peak = std::max(peak, stage.peak_bytes);
  row.cells["peak_memory_bytes"] = peak;
  row.cells["memory_limit_bytes"] = report.memory_limit_bytes;
  row.cells["fits"] = report.fits;
}

void add_step(const explain::Report& report, const planner::Job& job, RunRow& row) {
  json& cells = row.cells;
  cells["status"] = "simulated";
  cells["step_time_s"] = report.step_seconds;
  const auto [least, most] = campaign::step_range(report.step_seconds, report.error.error.share);
  cells["step_time_low_s"] = least, cells["step_time_high_s"] = most;
  cells["samples_per_s"] = report.samples_per_second;
  if (report.tokens_per_second > 0) cells["tokens_per_s"] = report.tokens_per_second;
  cells["mfu"] = report.mfu;
  cells["bubble_fraction"] = report.bubble_fraction;
  cells["exposed_comm_s"] = report.exposed_comm_seconds;
  const explain::Binding b = explain::binding(report);
  cells["bound_by"] = b.kernels >= b.communication && b.kernels >= b.waiting ? "kernels"
                      : b.communication >= b.waiting                         ? "exposed_communication"
                                                                             : "waiting";
  cells["bound_stage"] = b.stage;
  if (job.cluster.price_per_gpu_hour > 0)
    cells["dollars_per_step"] = search::price_of(job, report.step_seconds);
}

void add_no_fit(const std::string& why, RunRow& row) {
  row.cells["status"] = "does not fit";
  row.cells["fits"] = false;
  row.cells["why_not"] = why;
}

}  // namespace

struct PointRunner::State {
  PointWay way;
  search::Graphs graphs{kept_graphs};
  // The last plan that was compiled, of the job with these keys:
  std::string key;
  ir::Plan plan;
  std::vector<planner::MemoryUse> memory;
  bool verified = false;
  int compiled = 0;

  void compile(const Prepared& ready);
  void simulate(const SweepPoint& point, Prepared& ready, RunRow& row);
  static void find(const SweepPoint& point, Prepared& ready, RunRow& row);
};

// Throws TooLarge, and then keeps no plan.
void PointRunner::State::compile(const Prepared& ready) {
  const backends::Cluster& cluster = ready.request.job.cluster;
  const std::string wanted =
      fmt::format("{} {} {}", json(ready.labels).dump(), cluster.devices(), cluster.node.gpus);
  if (wanted != key) {
    key.clear();
    plan = planner::compile(*graphs.deduced(*ready.job), *ready.job);
    memory = planner::memory_use(plan);
    verified = false;
    key = wanted;
    ++compiled;
  }
  plan.labels = ready.labels;
  plan.facts["memory_limit_bytes"] = static_cast<double>(cluster.device->memory_bytes);
}

void PointRunner::State::simulate(const SweepPoint& point, Prepared& ready, RunRow& row) {
  const backends::Cluster& cluster = ready.request.job.cluster;
  try {
    compile(ready);
  } catch (const planner::TooLarge& error) {
    add_no_fit(error.what(), row);
    row.cells["peak_memory_bytes"] = static_cast<int64_t>(std::min(error.device_bytes, 9e18));
    row.cells["memory_limit_bytes"] = cluster.device->memory_bytes;
    row.cells["result"] = stable(to_json(ready.labels, *ready.job, error));
    return;
  }
  explain::Report report = explain::memory_report(plan, cluster, memory);
  if (report.fits) {
    if (!verified) planner::verify(plan);
    verified = true;
    report = explain::report(plan, cluster, memory, sim::simulate(plan, cluster));
  }
  report.changes = point.changes;
  add_memory_cells(report, row);
  if (report.fits)
    add_step(report, *ready.job, row);
  else
    add_no_fit(why_not_text(report), row);
  row.cells["result"] = stable(to_json(report));
}

void PointRunner::State::find(const SweepPoint& point, Prepared& ready, RunRow& row) {
  ready.options.described = as_described(ready.request);
  ready.options.threads = 1;
  SearchReport found;
  try {
    found.outcome = search::search(ready.request.job, ready.options, simulating_oracle());
  } catch (const Error& error) {
    throw located(ready.given, error);
  }
  found.memory_limit_bytes = ready.request.job.cluster.device->memory_bytes;
  row.cells["memory_limit_bytes"] = found.memory_limit_bytes;
  if (found.outcome.best.empty()) {
    const std::string why = fmt::format("does not fit: none of {}", counted(found.outcome.points, "plan"));
    add_no_fit(why, row);
    if (const search::Candidate& least = found.outcome.smallest; least.peak_bytes > 0)
      row.cells["peak_memory_bytes"] = least.peak_bytes;
    row.cells["result"] = stable(to_json(found, why));
    return;
  }
  const search::Candidate& best = found.outcome.best.front();
  ready.request.job = best.job;
  ready.labels = labels_of(ready.request);
  ir::Plan plan = best.plan ? *best.plan : search::plan_of(best);
  plan.labels = ready.labels;
  if (best.layouts) search::add_labels(*best.layouts, plan.labels);
  found.best = explain::report(plan, best.job.cluster, planner::memory_use(plan),
                               std::any_cast<const sim::Result&>(best.record));
  found.best.changes = point.changes;
  add_configuration(point, ready.labels, &ready.request.job.cluster, row);
  add_memory_cells(found.best, row);
  add_step(found.best, best.job, row);
  row.cells["flags"] = flags_of(best.job);
  row.cells["result"] = stable(to_json(found));
}

PointRunner::PointRunner(const Sweep& sweep) : state_(std::make_unique<State>()) {
  state_->way = {sweep.search, sweep.max_stack};
}
PointRunner::~PointRunner() = default;
int PointRunner::compiled() const { return state_->compiled; }

Identity PointRunner::identity(const SweepPoint& point) {
  try {
    return {key_of(prepare(point, state_->way), point, state_->way), ""};
  } catch (const Error& error) {
    if (error.code() == Exit::fault) throw;
    return {refused_key(point, state_->way), error.what()};
  }
}

RunRow PointRunner::run(const SweepPoint& point) {
  const WallClock::time_point begin = WallClock::now();
  RunRow row{refused_key(point, state_->way), point.number, json::object()};
  row.cells["searched"] = state_->way.search;
  if (!state_->way.max_stack.empty()) row.cells["max_stack"] = state_->way.max_stack;
  bool prepared = false;
  try {
    Prepared ready = prepare(point, state_->way);
    prepared = true;
    row.key = key_of(ready, point, state_->way);
    add_configuration(point, ready.labels, &ready.request.job.cluster, row);
    state_->way.search ? State::find(point, ready, row) : state_->simulate(point, ready, row);
  } catch (const Error& error) {
    if (error.code() == Exit::fault) throw;
    if (!prepared) add_configuration(point, given_labels(point), nullptr, row);
    row.cells["status"] = "refused";
    row.cells["why_not"] = error.what();
  }
  row.cells["wall_s"] = std::chrono::duration<double>(WallClock::now() - begin).count();
  return row;
}

}  // namespace boxcar::cli
