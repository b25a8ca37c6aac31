#include "cli/compare_trace_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/machines/device_profile.h"
#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/plan_file.h"
#include "cli/quantities.h"
#include "ir/units.h"
#include "sbp/error.h"
#include "sim/explain/device_trace.h"
#include "sim/explain/step_profile.h"
#include "sim/simulate.h"

namespace boxcar::cli {
namespace {

using explain::StepProfile;
using explain::WorkClass;
using nlohmann::ordered_json;

struct CompareTraceArguments {
  std::string trace, plan, device, stage, output;
  bool json = false;
};

// A row of the comparison, s of one step.
struct TraceRow {
  std::string name;
  double measured = 0, simulated = 0;
  double measured_count = 0, simulated_count = 0;  // spans
  double difference() const { return simulated - measured; }
};

struct Simulated {
  std::string stage;
  StepProfile profile;
};

// On the devices of `stage`; empty: those that are busy longest.
Simulated simulated_profile(const SavedPlan& saved, const std::string& stage) {
  sim::Options options;
  options.timeline = true;
  options.timeline_acts = INT64_MAX;
  const sim::Result result = sim::simulate(saved.plan, saved.cluster, options);
  std::vector<std::string> names;
  size_t chosen = 0;
  for (size_t c = 0; c < result.classes.size(); ++c) {
    const std::string& name = saved.plan.programs.at(static_cast<size_t>(result.classes[c].program)).name;
    names.push_back(name);
    if (stage.empty() ? result.classes[c].busy > result.classes[chosen].busy : name == stage) chosen = c;
  }
  if (!stage.empty() && names[chosen] != stage)
    throw Error::input("--stage",
                       fmt::format("the plan has no stage {}; it has {}", stage, fmt::join(names, ", ")));
  return {names[chosen], explain::profile_of(saved.plan, result, chosen)};
}

std::vector<TraceRow> rows_of(const StepProfile& measured, const StepProfile& simulated) {
  std::vector<TraceRow> rows;
  for (size_t i = 0; i < explain::work_classes; ++i)
    if (measured.count[i] > 0 || simulated.count[i] > 0)
      rows.push_back({explain::to_text(static_cast<WorkClass>(i)), measured.seconds[i], simulated.seconds[i],
                      measured.count[i], simulated.count[i]});
  rows.push_back({"exposed communication", measured.exposed, simulated.exposed});
  rows.push_back({"idle", measured.idle, simulated.idle});
  rows.push_back({"step", measured.step, simulated.step});
  return rows;
}

std::string table_of(const std::vector<TraceRow>& rows) {
  std::string text = fmt::format("  {:<22}{:>12}{:>12}{:>12}{:>9}   {}\n", "ms of a step", "measured",
                                 "simulated", "difference", "", "acts measured, simulated");
  for (const TraceRow& row : rows) {
    const double difference = std::round(1e6 * row.difference()) / 1e3 + 0.0;  // no -0.000
    const std::string share = row.measured > 1e-7 ? signed_percent_text(row.difference() / row.measured) : "";
    const std::string counts = row.measured_count > 0 || row.simulated_count > 0
                                   ? fmt::format("   {:.0f}, {:.0f}", row.measured_count, row.simulated_count)
                                   : "";
    text += fmt::format("  {:<22}{:>12.3f}{:>12.3f}{:>+12.3f}{:>9}{}\n", row.name, 1e3 * row.measured,
                        1e3 * row.simulated, difference, share, counts);
  }
  return text;
}

// The class or gap that changes the step the most: "other kernels take 1.2 ms less than measured".
std::string verdict_of(const std::vector<TraceRow>& rows) {
  const TraceRow& step = rows.back();
  const auto parts = rows.begin() + static_cast<std::ptrdiff_t>(rows.size()) - 1;
  const TraceRow& largest = *std::max_element(rows.begin(), parts, [](const TraceRow& a, const TraceRow& b) {
    return std::abs(a.difference()) < std::abs(b.difference());
  });
  const double off = 100 * std::abs(step.difference()) / step.measured;
  if (off < 0.05) return "the simulated step is as long as the measured one\n";
  return fmt::format(
      "the simulated step is {:.1f} % {} than the measured one; the largest difference is {}, {} {}\n", off,
      step.difference() > 0 ? "longer" : "shorter", largest.name,
      ir::format_seconds(std::abs(largest.difference())), largest.difference() > 0 ? "more" : "less");
}

std::vector<std::string> few(const std::vector<std::string>& names) {
  constexpr size_t most = 3;
  std::vector<std::string> some(names.begin(),
                                names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
  if (names.size() > most) some.push_back(fmt::format("and {} more", names.size() - most));
  return some;
}

void scale(backends::Curve& curve, double factor) {
  if (curve.x.empty()) curve = {{1}, {1}};
  for (double& y : curve.y) y = std::clamp(y * factor, 1e-6, 1.5);
}

// The device with the measured speeds of its kernels: each class by one factor.
backends::DeviceProfile calibrated(const std::string& name, const StepProfile& measured,
                                   const StepProfile& simulated, std::vector<std::string>& said) {
  backends::DeviceProfile device = backends::load_device(name);
  device.name += "-measured";
  const auto factor = [&](WorkClass work) {
    const auto i = static_cast<size_t>(work);
    const double of =
        measured.seconds[i] > 0 && simulated.seconds[i] > 0 ? simulated.seconds[i] / measured.seconds[i] : 1;
    if (of != 1) said.push_back(fmt::format("{} x {:.3f}", explain::to_text(work), of));
    return of;
  };
  scale(device.matmul_efficiency, factor(WorkClass::products));
  const double attention = factor(WorkClass::attention);
  const auto scale_kernel = [&](backends::AttentionKernel& kernel) {
    for (backends::Curve* curve :
         {&kernel.forward, &kernel.backward, &kernel.causal_forward, &kernel.causal_backward})
      scale(*curve, attention);
  };
  scale_kernel(device.attention);
  for (auto& [name_of_kernel, kernel] : device.attention_kernels) scale_kernel(kernel);
  scale(device.memory_efficiency, factor(WorkClass::kernels));
  return device;
}

std::string device_of(const SavedPlan& saved) {
  const auto label = saved.plan.labels.find("cluster.device");
  return label != saved.plan.labels.end() && !label->second.empty() ? label->second
                                                                    : saved.cluster.device->name;
}

ordered_json json_of(const TraceRow& row) {
  return {{"name", row.name},
          {"measured_s", row.measured},
          {"simulated_s", row.simulated},
          {"measured_acts", row.measured_count},
          {"simulated_acts", row.simulated_count}};
}

void run(const CompareTraceArguments& arguments, Extent extent) {
  const SavedPlan saved = load_plan(arguments.plan, {});
  const explain::DeviceTrace trace =
      explain::read_trace(read_file(arguments.trace), arguments.trace, arguments.device, saved.plan);
  if (!arguments.output.empty()) check_writable(arguments.output);
  if (extent == Extent::reading) return;
  const StepProfile measured = explain::profile_of(trace.spans, trace.begin, trace.end, trace.steps);
  const Simulated simulated = simulated_profile(saved, arguments.stage);
  const std::vector<TraceRow> rows = rows_of(measured, simulated.profile);

  std::vector<std::string> factors;
  std::vector<TraceRow> after;
  if (!arguments.output.empty()) {
    const backends::DeviceProfile device = calibrated(device_of(saved), measured, simulated.profile, factors);
    write_file(arguments.output, [&](std::ostream& out) {
      out << fmt::format("# By boxcar compare-trace: {}\n",
                         factors.empty() ? "as it was" : fmt::format("{}", fmt::join(factors, ", ")))
          << backends::to_yaml(device);
    });
    const SavedPlan again = load_plan(arguments.plan, {{"cluster.device", {arguments.output, "--output"}}});
    after = rows_of(measured, simulated_profile(again, simulated.stage).profile);
  }
  if (arguments.json) {
    ordered_json doc{{"schema_version", 1},
                     {"trace", trace.is_boxcar ? "boxcar" : "pytorch"},
                     {"device", trace.device},
                     {"steps", trace.steps},
                     {"stage", simulated.stage}};
    for (const TraceRow& row : rows) doc["rows"].push_back(json_of(row));
    doc["unknown_kernels"] = trace.unknown;
    if (!arguments.output.empty()) {
      doc["factors"] = factors;
      for (const TraceRow& row : after) doc["calibrated"].push_back(json_of(row));
    }
    return print(doc.dump(2) + "\n");
  }
  std::string text = fmt::format("trace  {}: {}, device {}, {} step{}\nplan   {}: {}\n\n", arguments.trace,
                                 trace.is_boxcar ? "Boxcar's" : "PyTorch's", trace.device, trace.steps,
                                 trace.steps == 1 ? "" : "s", arguments.plan, simulated.stage);
  text += verdict_of(rows) + "\n" + table_of(rows);
  if (!trace.unknown.empty())
    text += fmt::format("\nkernels of unknown names, counted as others: {}\n",
                        fmt::join(few(trace.unknown), ", "));
  if (!arguments.output.empty())
    text += fmt::format("\nwith {} as the device ({})\n{}", arguments.output,
                        factors.empty() ? "as it was" : fmt::format("{}", fmt::join(factors, ", ")),
                        table_of(after));
  print(text);
}

}  // namespace

void add_compare_trace_command(CLI::App& app, Extent extent) {
  CLI::App* command =
      app.add_subcommand("compare-trace", "compare the trace of a real step with the simulated one");
  auto arguments = std::make_shared<CompareTraceArguments>();
  command->add_option("TRACE", arguments->trace, "of PyTorch's profiler, or what --trace wrote")
      ->required()
      ->type_name("JSON");
  command->add_option("PLAN", arguments->plan, "the plan of that step, as search or simulate saved it")
      ->required()
      ->type_name("PLAN");
  command
      ->add_option("--trace-device", arguments->device,
                   "of several devices in the trace; the busiest otherwise")
      ->type_name("NAME")
      ->check(not_empty());
  command->add_option("--stage", arguments->stage, "of the plan, to compare with; the busiest otherwise")
      ->type_name("NAME")
      ->check(not_empty());
  command
      ->add_option("-o,--output", arguments->output,
                   "write the device with the measured speeds of its kernels")
      ->type_name("YAML")
      ->check(not_empty());
  command->add_flag("--json", arguments->json, "print one JSON document instead of text");
  command->allow_extras();
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    run(*arguments, extent);
  });
}

}  // namespace boxcar::cli
