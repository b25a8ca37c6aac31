#include "cli/calibrate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/timings.h"
#include "ir/units.h"
#include "sbp/error.h"
#include "sim/fit/calibrate.h"

namespace boxcar::cli {
namespace {

struct CalibrateArguments {
  std::vector<std::string> files;
  std::string cluster, device, output;
};

// The device of "my.yaml", in the same folder: "my.device.yaml".
std::string device_file(const std::string& output) {
  const std::filesystem::path path(output);
  return (path.parent_path() / path.stem()).string() + ".device" + path.extension().string();
}

std::string value_text(const fit::FittedConstant& c, double value) {
  if (c.is_factor) return fmt::format("x {:.3g}", value);
  if (c.name.find("bandwidth") != std::string::npos) return ir::format_bytes(value) + "/s";
  return fmt::format("{:.3g}", value);
}

std::string table(const fit::Calibration& done) {
  std::string text =
      fmt::format("{:<42} {:>14} {:>14}  {}\n", "fitted", "described", "fitted", "error without it");
  for (const fit::FittedConstant& c : done.constants)
    if (c.why_not.empty())
      text += fmt::format("  {:<40} {:>14} {:>14} {:>15.1f} %{}\n", c.name, value_text(c, c.described),
                          value_text(c, c.fitted), 100 * c.error_without, c.at_bound ? "  at its bound" : "");
  text += "\nleft as described\n";
  for (const fit::FittedConstant& c : done.constants)
    if (!c.why_not.empty())
      text += fmt::format("  {:<40} {:>14}  {}\n", c.name, value_text(c, c.described), c.why_not);
  text += fmt::format("\n{:<42} {:>14} {:>14}\n", "mean absolute error", "as described", "as fitted");
  for (const fit::FittedGroup& g : done.groups)
    text += fmt::format("  {:<40} {:>12.1f} % {:>12.1f} %\n", fmt::format("{} ({} rows)", g.name, g.rows),
                        100 * g.before, 100 * g.after);
  return text;
}

// The head of the file, which names its origin.
std::string origin(const CalibrateArguments& arguments, const fit::Calibration& done) {
  std::string text = fmt::format("# {} fitted by `boxcar calibrate` to {}\n", arguments.cluster,
                                 fmt::join(arguments.files, ", "));
  for (const fit::FittedConstant& c : done.constants)
    if (c.why_not.empty())
      text += fmt::format("# {}: {}, described {}\n", c.name, value_text(c, c.fitted),
                          value_text(c, c.described));
  return text;
}

bool is_preset(const backends::DeviceProfile& device) {
  const std::vector<std::string> names = backends::device_presets();
  return std::find(names.begin(), names.end(), device.name) != names.end() &&
         backends::load_device(device.name) == device;
}

void run(const CalibrateArguments& arguments, Extent extent) {
  if (arguments.files.empty())
    throw Error::input(
        "", "calibrate needs measurements: the output of nccl-tests, or a CSV of jobs with a column step_s");
  if (arguments.cluster.empty()) throw Error::input("--cluster", "missing; name the cluster to start from");
  if (arguments.output.empty()) throw Error::input("-o", "missing; name the cluster file to write");
  if (!arguments.output.ends_with(".yaml") && !arguments.output.ends_with(".yml"))
    throw Error::input("-o", fmt::format("got \"{}\", expected a name that ends in .yaml", arguments.output));
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string& file : arguments.files) files.emplace_back(file, file);
  files.emplace_back("-o", arguments.output);
  check_apart(files);
  check_writable(arguments.output);
  Measurements measured;
  for (const std::string& file : arguments.files) read_measurements(file, measured);
  if (extent == Extent::reading) return;

  const backends::Cluster described = load_cluster(arguments.cluster, arguments.device, 0);
  fit::Calibration done;
  {
    Progress progress;
    done = fit::calibrate(described, measured_on(arguments.cluster, arguments.device, measured),
                          [&](const std::string& what) { progress.step(what); });
  }
  const std::string head = origin(arguments, done);
  std::string device = done.cluster.device->name;
  std::string written = arguments.output;
  if (!is_preset(done.cluster.device)) {
    const std::string path = device_file(arguments.output);
    device = std::filesystem::path(path).filename().string();
    write_file(path, [&](std::ostream& out) { out << head << backends::to_yaml(done.cluster.device); });
    written += " and " + path;
  }
  write_file(arguments.output,
             [&](std::ostream& out) { out << head << backends::to_yaml(done.cluster, device); });
  print(table(done) + "\nwritten: " + written + "\n");
}

}  // namespace

void add_calibrate_command(CLI::App& app, Extent extent) {
  CLI::App* command = app.add_subcommand("calibrate", "fit a cluster's constants to measurements made on it");
  auto arguments = std::make_shared<CalibrateArguments>();
  command
      ->add_option("files", arguments->files,
                   "what nccl-tests printed, or CSVs of jobs with a column step_s [needed]")
      ->type_name("FILE");
  command->allow_extras();
  command
      ->add_option("--cluster", arguments->cluster, "the cluster to start from, a preset or a file [needed]")
      ->type_name("NAME");
  command->add_option("--device", arguments->device, "other devices in its nodes [the cluster's own]")
      ->type_name("NAME");
  command->add_option("-o,--output", arguments->output, "the cluster file to write [needed]")
      ->type_name("FILE.yaml");
  command->footer("See docs/calibrate.md.");
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    run(*arguments, extent);
  });
}

}  // namespace boxcar::cli
