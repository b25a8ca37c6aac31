#include "cli/report_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/campaign_conditions.h"
#include "cli/output.h"
#include "cli/page_server.h"
#include "cli/plan_file.h"
#include "cli/report_document.h"
#include "cli/report_page.h"
#include "cli/report_runs.h"
#include "planner/estimate/layout_labels.h"
#include "planner/laid_out.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

struct ReportArguments {
  std::string file, output, where;
  CampaignFlags run;
  bool no_sensitivity = false, serve = false;
  int port = 0;  // 0: a free one
};

// As compiled; nothing if the plan was not compiled from a job.
std::optional<planner::LaidOut> laid_out_as_saved(const SavedPlan& saved, const std::string& path) {
  if (!saved.plan.labels.contains("model.family")) return std::nullopt;
  const planner::ResolvedJob job = job_of(saved.plan, path).job;
  const auto layouts = search::layouts_of(saved.plan.labels);
  search::FoundLayouts found;
  planner::Choose choose;
  if (layouts) choose = search::chooser(job, *layouts, &found);
  return planner::lay_out(job, choose);
}

void check_report(const ReportArguments& arguments, bool of_runs) {
  check_page_library();
  if (arguments.output.empty() && !arguments.serve)
    throw Error::input("--output", "missing; give a file, or --serve to see the page at once");
  std::vector<std::string> of_plans_alone = arguments.run.given();
  if (arguments.no_sensitivity) of_plans_alone.emplace_back("--no-sensitivity");
  if (of_runs && !of_plans_alone.empty())
    throw Error::input(of_plans_alone.front(), "has no effect on a file of runs");
  if (!of_runs && !arguments.where.empty())
    throw Error::input("--where",
                       fmt::format("chooses rows of a file of runs, and {} is none", arguments.file));
  if (arguments.port > 0 && !arguments.serve) throw Error::input("--port", "has no effect without --serve");
  if (arguments.serve) check_page_server();
  if (arguments.output.empty()) return;
  check_apart({{of_runs ? "RUNS" : "PLAN", arguments.file}, {"-o", arguments.output}});
  check_writable(arguments.output);
}

// Nothing if `reading` ends after the plan is read.
std::optional<nlohmann::ordered_json> plan_document(const ReportArguments& arguments, const std::string& name,
                                                    Extent extent) {
  if (const std::vector<std::string> given = arguments.run.given(); !given.empty()) {
    if (!arguments.run.has_amount())
      throw Error::input(given.front(), "has no effect without --tokens or --samples");
    arguments.run.conditions();  // checked before anything is simulated
  }
  const SavedPlan saved = load_plan(arguments.file, {});
  if (extent == Extent::reading) {
    if (saved.plan.labels.contains("model.family")) job_of(saved.plan, arguments.file);
    return std::nullopt;
  }
  check_fits(saved, arguments.file);
  Progress progress;
  progress.step("laying out");
  const std::optional<planner::LaidOut> laid = laid_out_as_saved(saved, arguments.file);
  ReportRequest request;
  request.name = name;
  request.run = arguments.run;
  request.sensitivity = !arguments.no_sensitivity;
  request.tell = [&](const std::string& what) { progress.part(what); };
  return report_document(saved, laid ? &*laid : nullptr, request);
}

void run_report(const ReportArguments& arguments, Extent extent) {
  const bool of_runs = is_runs_file(arguments.file);
  check_report(arguments, of_runs);
  const std::string name = std::filesystem::path(arguments.file).filename().string();
  const auto document =
      of_runs ? runs_document(arguments.file, arguments.where) : plan_document(arguments, name, extent);
  if (!document || extent == Extent::reading) return;
  const std::string model = document->value("model", "");
  const std::string page = report_page(model.empty() ? name : model + ": " + name, *document,
                                       of_runs ? runs_page_parts() : page_parts());
  if (!arguments.output.empty()) write_file(arguments.output, [&](std::ostream& out) { out << page; });
  if (arguments.serve) serve_page(page, arguments.port);
}

}  // namespace

void add_report_command(CLI::App& app, Extent extent) {
  CLI::App* command =
      app.add_subcommand("report", "a saved plan or a file of runs as a page for a browser, in one file");
  auto arguments = std::make_shared<ReportArguments>();
  command->add_option("file", arguments->file, "a plan that search or simulate saved, or runs of a sweep")
      ->required()
      ->type_name("PLAN|RUNS");
  command->add_option("-o,--output", arguments->output, "the page, HTML")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_flag("--no-sensitivity", arguments->no_sensitivity,
                    "leave out the steps with other constants of the cluster, each a simulation");
  arguments->run.add_to(*command, "not asked: with it the page begins with days and GPU hours too");
  command
      ->add_option("--where", arguments->where,
                   "of a file of runs, the rows for which this holds, an expression of SQL on columns [all]")
      ->type_name("\"gpus = 128\"")
      ->check(not_empty());
  command->add_flag("--serve", arguments->serve, "serve the page on 127.0.0.1 until Ctrl-C, and open it");
  command->add_option("--port", arguments->port, "where --serve serves it [a free one]")
      ->type_name("8080")
      ->check(whole_number(1, 65535));
  command->allow_extras();
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    run_report(*arguments, extent);
  });
}

}  // namespace boxcar::cli
