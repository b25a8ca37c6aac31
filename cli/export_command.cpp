#include "cli/export_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <ostream>
#include <utility>

#include "cli/arguments.h"
#include "cli/effects.h"
#include "cli/export/export.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/quantities.h"
#include "ir/plan_line.h"
#include "ir/plan_notation.h"
#include "planner/estimate/layout_labels.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sbp/suggest.h"
#include "sim/chakra/chakra.h"

namespace boxcar::cli {
namespace {

struct ExportArguments {
  JobArguments job;
  std::string to, output, ranks;
  bool strict = false, chakra = false;

  bool is_plan() const { return !job.file().empty() && read_file(job.file()).starts_with("plan "); }
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

// Registers whose numbers of slots differ from those of the job's plan.
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

// Reports what cannot be expressed, and refuses it if that was asked for.
void tell_notes(const ExportArguments& arguments, const std::string& format,
                const std::vector<exports::Note>& notes) {
  for (const exports::Note& note : notes) tell(fmt::format("{}: {}", begin_of(note, format), to_text(note)));
  const int64_t unsaid =
      std::count_if(notes.begin(), notes.end(), [](const auto& note) { return !note.left; });
  if (arguments.strict && unsaid > 0)
    throw Error::cannot_run("--strict",
                            fmt::format("{} cannot be said in {} (without --strict the rest is written)",
                                        counted(unsaid, "thing"), format));
}

// The saved plan, or the job's.
SavedPlan plan_of(const ExportArguments& arguments, Extent extent) {
  if (arguments.is_plan()) return load_plan(arguments.job.file(), arguments.job.given(""));
  const GivenKeys given = arguments.job.given();
  Resolved resolved = resolve(given);
  for (const std::string& text : without_effect(given, resolved.request.job)) tell(text);
  if (extent == Extent::reading) return {};
  return {planner::compile(resolved.job), resolved.request.job.cluster};
}

// The job with all answers about it; `saved` is its plan.
exports::Source source_of(const ExportArguments& arguments, const SavedPlan& saved) {
  const std::string file = arguments.job.file();
  if (arguments.is_plan() && !saved.plan.labels.contains("model.family"))
    throw Error::input(file,
                       "has no labels that say which job it is for (export one that search -o or simulate "
                       "--save-plan wrote)");
  Resolved resolved = arguments.is_plan() ? job_of(saved.plan, file) : resolve(arguments.job.given());
  exports::Source source{std::move(resolved.request), std::move(resolved.labels)};
  if (!arguments.is_plan()) return source;
  source.found_layouts = search::layouts_of(saved.plan.labels).has_value();
  if (!source.found_layouts) source.other_slots = other_slots(saved.plan, resolved.job);
  return source;
}

// The export is written anyway: elsewhere there may be more memory, or less in use.
void tell_misfit(const SavedPlan& saved) {
  if (const std::string why = why_not(saved); !why.empty())
    tell(fmt::format("on {}, the job {}", saved.cluster.name, why));
}

void export_job(const ExportArguments& arguments, Extent extent) {
  const exports::Framework& framework = framework_named(arguments.to);
  const std::string file = arguments.job.file();
  check_apart({{"JOB.yaml", file}, {"--output", arguments.output}});
  if (!arguments.output.empty()) check_writable(arguments.output);
  const SavedPlan saved = plan_of(arguments, extent);
  const exports::Exported exported = exports::write(framework, source_of(arguments, saved));
  if (extent == Extent::reading) return;
  tell_misfit(saved);
  tell_notes(arguments, framework.name, exported.notes);
  if (arguments.output.empty()) return print(exported.text);
  write_file(arguments.output, [&](std::ostream& out) { out << exported.text; });
}

std::vector<int> all_devices(const ir::Plan& plan) {
  std::vector<int> all(static_cast<size_t>(plan.devices));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// "0-7,16", ascending and each once; all if it is empty.
std::vector<int> ranks_of(const std::string& text, const ir::Plan& plan) {
  if (text.empty()) return all_devices(plan);
  try {
    ir::PlanLine line(text, 1);
    std::vector<int> ranks = ir::parse_device_list(line, plan.devices);
    line.expect_done();
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  } catch (const Error& e) {
    const std::string message = e.what();
    throw Error::input("--ranks", message.substr(message.find(": ") + 2) + " (ranks are as in 0-7,16)");
  }
}

void export_traces(const ExportArguments& arguments, Extent extent) {
  if (!arguments.to.empty()) throw Error::input("--to", "cannot be given with --chakra");
  if (arguments.output.empty()) throw Error::input("--output", "missing; it is the folder of the traces");
  const SavedPlan saved = plan_of(arguments, extent);
  if (extent == Extent::reading) return;
  const std::vector<int> ranks = ranks_of(arguments.ranks, saved.plan);
  planner::verify(saved.plan);
  tell_misfit(saved);
  std::vector<exports::Note> notes;
  for (chakra::Unsaid& unsaid : chakra::unsaid_in_chakra(saved.plan))
    notes.push_back({std::move(unsaid.part), std::move(unsaid.name), std::move(unsaid.why)});
  tell_notes(arguments, "chakra", notes);
  Progress progress;
  chakra::write_chakra(saved.plan, saved.cluster,
                       {.folder = arguments.output,
                        .devices = ranks,
                        .write_file = write_file,
                        .tell = [&](const std::string& what) { progress.part(what); }});
}

void run(const ExportArguments& arguments, Extent extent) {
  if (arguments.chakra) return export_traces(arguments, extent);
  if (arguments.to.empty())
    throw Error::input("--to", "missing; it is the framework to write for (or give --chakra, for traces)");
  if (!arguments.ranks.empty()) throw Error::input("--ranks", "has no effect without --chakra");
  export_job(arguments, extent);
}

}  // namespace

void add_export_command(CLI::App& app, Extent extent) {
  CLI::App* command =
      app.add_subcommand("export", "write a job or a saved plan for another framework or simulator");
  auto arguments = std::make_shared<ExportArguments>();
  arguments->job.add_to(*command);
  command->footer("A saved plan or JOB.yaml may be given first; flags override the job. See docs/export.md.");
  command
      ->add_option("--to", arguments->to,
                   "the framework: " + fmt::format("{}", fmt::join(framework_names(), ", ")))
      ->type_name("NAME")
      ->check(not_empty());
  command->add_flag("--chakra", arguments->chakra,
                    "instead of a framework's file: traces of a step for ASTRA-sim, one for each device");
  command
      ->add_option("--ranks", arguments->ranks, "with --chakra: the devices whose traces are written [all]")
      ->type_name("0-7,16,...")
      ->check(not_empty());
  command
      ->add_option("-o,--output", arguments->output,
                   "write here instead of to stdout; with --chakra, the folder of the traces")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_flag("--strict", arguments->strict, "fail where anything cannot be said there");
  command->callback([arguments, extent] { run(*arguments, extent); });
}

}  // namespace boxcar::cli
