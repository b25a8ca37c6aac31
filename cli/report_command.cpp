#include "cli/report_command.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/quantities.h"
#include "cli/report_document.h"
#include "cli/report_page.h"
#include "planner/estimate/layout_labels.h"
#include "planner/laid_out.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

struct ReportArguments {
  std::string plan, output, tokens;
  std::optional<double> price;
  bool no_sensitivity = false;
};

// As compiled; nothing where the plan was not compiled from a job.
std::optional<planner::LaidOut> lay_out_again(const SavedPlan& saved, const std::string& path) {
  if (!saved.plan.labels.contains("model.family")) return std::nullopt;
  const planner::ResolvedJob job = job_of(saved.plan, path).job;
  const auto layouts = search::layouts_of(saved.plan.labels);
  search::FoundLayouts found;
  planner::Choose choose;
  if (layouts) choose = search::chooser(job, *layouts, &found);
  return planner::lay_out(job, choose);
}

void write_report(const ReportArguments& arguments, Extent extent) {
  check_page_library();
  check_apart({{"PLAN", arguments.plan}, {"-o", arguments.output}});
  check_writable(arguments.output);
  const double tokens = arguments.tokens.empty() ? 0 : read_count("--tokens", arguments.tokens);
  if (arguments.price && tokens == 0) throw Error::input("--price", "has no effect without --tokens");
  const SavedPlan saved = load_plan(arguments.plan, {});
  if (extent == Extent::reading) {
    if (saved.plan.labels.contains("model.family")) job_of(saved.plan, arguments.plan);
    return;
  }
  check_fits(saved, arguments.plan);
  Progress progress;
  progress.step("laying out");
  const std::optional<planner::LaidOut> laid = lay_out_again(saved, arguments.plan);
  ReportRequest request;
  request.name = std::filesystem::path(arguments.plan).filename().string();
  request.sensitivity = !arguments.no_sensitivity;
  request.tokens = tokens;
  request.price = arguments.price;
  request.tell = [&](const std::string& what) { progress.part(what); };
  const nlohmann::ordered_json document = report_document(saved, laid ? &*laid : nullptr, request);
  const std::string page = report_page(request.name, document);
  write_file(arguments.output, [&](std::ostream& out) { out << page; });
}

}  // namespace

void add_report_command(CLI::App& app, Extent extent) {
  CLI::App* command = app.add_subcommand("report", "a saved plan as a page for a browser, in one file");
  auto arguments = std::make_shared<ReportArguments>();
  command->add_option("plan", arguments->plan, "a plan that search or simulate saved")
      ->required()
      ->type_name("PLAN");
  command->add_option("-o,--output", arguments->output, "the page, HTML")
      ->required()
      ->type_name("FILE")
      ->check(not_empty());
  command->add_flag("--no-sensitivity", arguments->no_sensitivity,
                    "leave out the steps with other constants of the cluster, each a simulation");
  command
      ->add_option("--tokens", arguments->tokens,
                   "tokens of the whole run: the page begins with its days and GPU hours too")
      ->type_name("15T|300B|4M")
      ->check(not_empty());
  command
      ->add_option("--price", arguments->price,
                   "dollars per GPU and hour [price_per_gpu_hour of the cluster file]")
      ->type_name("2.50")
      ->check(number(0, 1e6));
  command->allow_extras();
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    write_report(*arguments, extent);
  });
}

}  // namespace boxcar::cli
