#include "cli/profile_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <memory>
#include <thread>

#include "backends/cluster.h"
#include "cli/arguments.h"
#include "cli/cpu_profile.h"
#include "cli/output.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

struct ProfileArguments {
  std::string backend = "cpu", output;
};

// What the system calls its processor; "a processor" where it does not say.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "a processor";
}

void run(const ProfileArguments& arguments) {
  if (arguments.backend != "cpu")
    throw Error::input("--backend", fmt::format("got \"{}\", expected cpu{}", arguments.backend,
                                                did_you_mean(arguments.backend, {"cpu"})));
  if (arguments.output.empty()) throw Error::input("-o", "missing; name the device file to write");
  check_writable(arguments.output);
  Samples samples;
  {
    Progress progress;
    samples = measure_cpu([&](const std::string& what) { progress.step(what); });
  }
  std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  const std::string comment =
      fmt::format("# One core of {}, of {}, measured by `boxcar profile` on {:%Y-%m-%d}\n", processor(),
                  std::thread::hardware_concurrency(), date);
  write_file(arguments.output, [&](std::ostream& out) { out << comment << backends::to_yaml(fit(samples)); });
}

}  // namespace

void add_profile_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("profile", "measure this machine: a device for simulate's --device");
  auto arguments = std::make_shared<ProfileArguments>();
  command->allow_extras();
  command->add_option("--backend", arguments->backend, "what to measure [cpu]")->type_name("cpu");
  command->add_option("-o,--output", arguments->output, "the device file to write [needed]")
      ->type_name("FILE");
  command->footer("Takes about ten seconds; leave the machine alone meanwhile. See docs/local.md.");
  command->callback([command, arguments] {
    refuse_extras(*command);
    run(*arguments);
  });
}

}  // namespace boxcar::cli
