#include "cli/export_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <ostream>

#include "cli/arguments.h"
#include "cli/effects.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/quantities.h"
#include "planner/estimate/layout_labels.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

struct ExportArguments {
  JobArguments job;
  std::string to, output;
  bool strict = false;
};

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const exports::Framework& f : exports::frameworks()) names.push_back(f.name);
  return names;
}

const exports::Framework& framework_named(const std::string& name) {
  if (const exports::Framework* found = exports::find_framework(name)) return *found;
  throw Error::input("--to",
                     fmt::format("no framework is named \"{}\"{}; known are {}", name,
                                 did_you_mean(name, framework_names()), fmt::join(framework_names(), ", ")));
}

// Registers whose numbers of slots are not those that the job's plan has.
int other_slots(const ir::Plan& plan, const planner::ResolvedJob& job) {
  const ir::Plan expected = planner::compile(job);
  int others = 0;
  for (size_t p = 0; p < std::min(plan.programs.size(), expected.programs.size()); ++p) {
    const auto& ours = plan.programs[p].registers;
    const auto& theirs = expected.programs[p].registers;
    for (size_t r = 0; r < std::min(ours.size(), theirs.size()); ++r)
      others += ours[r].count != theirs[r].count;
  }
  return others;
}

void run(const ExportArguments& arguments, Extent extent) {
  const exports::Framework& framework = framework_named(arguments.to);
  const std::string file = arguments.job.file();
  check_apart({{"JOB.yaml", file}, {"--output", arguments.output}});
  if (!arguments.output.empty()) check_writable(arguments.output);
  const bool is_plan = !file.empty() && read_file(file).starts_with("plan ");
  const exports::Source source =
      is_plan ? source_of_plan(file, arguments.job.given("")) : source_of(arguments.job.given());
  const exports::Exported exported = exports::write(framework, source);
  if (extent == Extent::reading) return;
  for (const exports::Note& note : exported.notes)
    tell(fmt::format("cannot be said in {}: {}", framework.name, to_text(note)));
  if (arguments.strict && !exported.notes.empty())
    throw Error::cannot_run(
        "--strict",
        fmt::format("{} cannot be said in {} (without --strict the rest is written)",
                    counted(static_cast<int64_t>(exported.notes.size()), "thing"), framework.name));
  if (arguments.output.empty()) return print(exported.text);
  write_file(arguments.output, [&](std::ostream& out) { out << exported.text; });
}

}  // namespace

exports::Source source_of(const GivenKeys& given) {
  Resolved resolved = resolve(given);
  for (const std::string& text : without_effect(given, resolved.request.job)) tell(text);
  return {std::move(resolved.request), std::move(resolved.labels)};
}

exports::Source source_of_plan(const std::string& path, const GivenKeys& given) {
  const SavedPlan saved = load_plan(path, given);
  if (!saved.plan.labels.contains("model.family"))
    throw Error::input(path,
                       "says of no job that it is the plan of (export one that search -o or simulate "
                       "--save-plan wrote)");
  Resolved resolved = job_of(saved.plan, path);
  exports::Source source{std::move(resolved.request), std::move(resolved.labels)};
  source.found_layouts = search::layouts_of(saved.plan.labels).has_value();
  if (!source.found_layouts) source.other_slots = other_slots(saved.plan, resolved.job);
  return source;
}

void add_export_command(CLI::App& app, Extent extent) {
  CLI::App* command =
      app.add_subcommand("export", "write a job or a saved plan for another training framework");
  auto arguments = std::make_shared<ExportArguments>();
  arguments->job.add_to(*command);
  command->footer("A saved plan or JOB.yaml may be given first; flags override the job. See docs/export.md.");
  command
      ->add_option("--to", arguments->to,
                   "the framework: " + fmt::format("{}", fmt::join(framework_names(), ", ")))
      ->required()
      ->type_name("NAME");
  command->add_option("-o,--output", arguments->output, "write here instead of to stdout")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_flag("--strict", arguments->strict, "fail where anything cannot be said there");
  command->callback([arguments, extent] { run(*arguments, extent); });
}

}  // namespace boxcar::cli
