#include "cli/diff_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/comparison.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/report_text.h"
#include "ir/units.h"
#include "planner/estimate/layout_labels.h"
#include "planner/verify.h"
#include "sbp/error.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;

struct DiffArguments {
  std::string a, b;
  bool json = false;
};

struct Side {
  std::string path;
  GivenKeys keys;
  std::optional<search::LayoutRequest> layouts;
  std::map<std::string, std::string> layout_labels;
  explain::Report report;
};

Side read_side(const std::string& path, bool simulate) {
  const SavedPlan saved = load_plan(path, {});
  if (!saved.plan.labels.contains("model.family"))
    throw Error::input(path, "has no labels that say which job it is for");
  Side side{path, keys_of(saved.plan, path), search::layouts_of(saved.plan.labels), {}, {}};
  for (const auto& [label, value] : saved.plan.labels)
    if (label.starts_with("search.layouts.")) side.layout_labels[label] = value;
  if (!simulate) return side;
  check_fits(saved, path);
  side.report = explain::report(saved.plan, saved.cluster, planner::memory_use(saved.plan),
                                sim::simulate(saved.plan, saved.cluster));
  return side;
}

// Each difference, with plan A changed only by it.
std::vector<Difference> costed(const Side& a, const Side& b) {
  std::vector<Difference> all = differences_of(a.keys, b.keys);
  for (Difference& one : all) {
    GivenKeys others = one.b;
    if (const auto same = b.keys.find("parallel.recompute_layers");
        same != b.keys.end() && a.keys.contains(same->first) &&
        a.keys.at(same->first).text == same->second.text)
      others.insert(*same);  // both plans have these layers, and other stages would drop them
    GivenKeys keys = with_flags(a.keys, others);
    for (const auto& [path, value] : one.a)
      if (!one.b.contains(path)) keys.erase(path);  // B has its default
    one.alone = vary(keys, a.layouts);
  }
  if (a.layout_labels != b.layout_labels) {
    Difference layouts;
    layouts.layouts = true;
    layouts.alone = vary(a.keys, b.layouts);
    all.push_back(std::move(layouts));
  }
  return all;
}

// "--zero 1 in place of --zero 2", "without --recompute full"
std::string name_of(const Difference& d) {
  if (d.layouts) return "layouts of ops as found for the other";
  if (d.b.empty()) return "without " + flags_text(d.a);
  return flags_text(d.b) + (d.a.empty() ? "" : fmt::format(" in place of {}", flags_text(d.a)));
}

std::string peak_text(const explain::Report& r) {
  const explain::StageReport& fullest = explain::fullest(r);
  return fmt::format("{} on {}", ir::format_bytes(static_cast<double>(fullest.peak_bytes)), fullest.name);
}

std::string sides_text(const Side& a, const Side& b) {
  const explain::Binding one = binding(a.report), other = binding(b.report);
  std::string text = fmt::format("  {:<22} {:<30} {}\n", "", a.path, b.path);
  const auto row = [&](const char* name, const std::string& left, const std::string& right) {
    text += fmt::format("  {:<22} {:<30} {}\n", name, left, right);
  };
  const auto share = [&](double part, const std::string& stage) {
    return fmt::format("{:.1f} % of the step on {}", 100 * part, stage);
  };
  row("step", ir::format_seconds(a.report.step_seconds), placed_text(a.report, {"", b.report}));
  const bool tokens = a.report.tokens_per_second > 0 && b.report.tokens_per_second > 0;
  const auto speed = [&](const explain::Report& r) {
    return fmt::format("{:.4g}", tokens ? r.tokens_per_second : r.samples_per_second);
  };
  row(tokens ? "tokens per second" : "samples per second", speed(a.report), speed(b.report));
  row("memory", peak_text(a.report), peak_text(b.report));
  row("kernels", share(one.kernels, one.stage), share(other.kernels, other.stage));
  row("exposed communication", share(one.communication, one.stage), share(other.communication, other.stage));
  row("waiting", share(one.waiting, one.stage), share(other.waiting, other.stage));
  std::map<std::string, std::pair<double, double>> moved;
  for (const auto& [name, bytes] : a.report.comm_bytes) moved[name].first = bytes;
  for (const auto& [name, bytes] : b.report.comm_bytes) moved[name].second = bytes;
  for (const auto& [name, bytes] : moved)
    row(name.c_str(), ir::format_bytes(bytes.first), ir::format_bytes(bytes.second));
  return text;
}

void run(const DiffArguments& arguments, Extent extent) {
  const bool work = extent != Extent::reading;
  const Side a = read_side(arguments.a, work), b = read_side(arguments.b, work);
  if (!work) return;
  const std::vector<Difference> all = costed(a, b);
  if (arguments.json) {
    ordered_json doc{{"schema_version", 1}}, rows = ordered_json::array();
    for (const Difference& one : all) {
      ordered_json row{{"a", one.layouts ? "layouts" : flags_text(one.a)},
                       {"b", one.layouts ? "layouts" : flags_text(one.b)}};
      row.update(placed_json(a.report, one.alone));
      rows.push_back(std::move(row));
    }
    doc["differences"] = rows;
    doc["a"] = ordered_json::parse(to_json(a.report));
    doc["b"] = ordered_json::parse(to_json(b.report));
    return print(doc.dump(2) + "\n");
  }
  std::string text = "plans\n" + sides_text(a, b);
  text += all.empty() ? "\nthe plans have the same keys\n"
                      : fmt::format("\ndifferences, each alone in {}\n", arguments.a);
  for (const Difference& one : all)
    text += fmt::format("  {}\n    {}\n", name_of(one), placed_text(a.report, one.alone));
  print(text);
}

}  // namespace

void add_diff_command(CLI::App& app, Extent extent) {
  CLI::App* command =
      app.add_subcommand("diff", "say what two saved plans do differently and what each difference costs");
  auto arguments = std::make_shared<DiffArguments>();
  command->add_option("A", arguments->a, "a plan that search or simulate saved")
      ->required()
      ->type_name("PLAN");
  command->add_option("B", arguments->b, "another")->required()->type_name("PLAN");
  command->add_flag("--json", arguments->json, "print one JSON document instead of text");
  command->allow_extras();
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    run(*arguments, extent);
  });
}

}  // namespace boxcar::cli
