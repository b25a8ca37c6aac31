#include "cli/profile_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>

#include "actors/profile/host.h"
#include "backends/machines/device_profile.h"
#include "cli/arguments.h"
#include "cli/backend_rows.h"
#include "cli/output.h"
#include "cli/samples_file.h"
#include "sbp/error.h"
#include "sim/fit/device_fit.h"

namespace boxcar::cli {
namespace {

constexpr double most_memory = 32e9, least_memory = 1e5;

struct ProfileArguments {
  std::string backend = "cpu", output, samples, from;
  bool fast = false;
  bool backend_given = false;
  std::optional<double> memory;
};

// Warns if other programs keep processors busy; returns the same text for the file, or nothing.
std::string warn_of_others() {
  const double busy = profile::busy_processors();
  if (busy < 0.25) return "";
  const std::string beside = fmt::format("other programs kept {:.1f} of the processors busy", busy);
  std::fprintf(stderr, "boxcar: %s when this began: what is measured may be too slow\n", beside.c_str());
  return ", while " + beside;
}

// The file of a device that is fitted to samples; `from`: their origin. Throws Error (bad input) there if
// they are too few, or too odd, for a readable device.
std::string device_text(const measure::Samples& samples, const std::string& from) {
  try {
    const backends::DeviceProfile device = fit::fit_device(samples);
    std::string text = backends::to_yaml(device);
    if (backends::parse_device(text, from) == device) return text;
  } catch (const Error&) {
  }
  throw Error::input(from, "has too few kernels to fit a device, or times or names that cannot be right");
}

void refit(const ProfileArguments& arguments, Extent extent) {
  if (arguments.backend_given || arguments.fast || arguments.memory || !arguments.samples.empty())
    throw Error::input("--from", "measures nothing; leave out --backend, --fast, --memory and --samples");
  const measure::Samples samples = read_samples(arguments.from);
  if (extent == Extent::reading) return;
  const std::string text = device_text(samples, arguments.from);
  write_file(arguments.output, [&](std::ostream& out) {
    out << fmt::format("# {}, by `boxcar profile --from`\n", samples.name) << text;
  });
}

void run(const ProfileArguments& arguments, Extent extent) {
  if (arguments.output.empty()) throw Error::input("-o", "missing; name the device file to write");
  check_apart({{"--from", arguments.from}, {"-o", arguments.output}, {"--samples", arguments.samples}});
  if (!arguments.from.empty()) {
    check_writable(arguments.output);
    return refit(arguments, extent);
  }
  const BackendRow& backend = backend_row(arguments.backend);
  const bool gpu = backend.gpus;
  const std::string needs_gpus = "needs backend " + gpu_backend_names();
  if (arguments.fast && !gpu) throw Error::input("--fast", needs_gpus);
  if (arguments.memory && !gpu) throw Error::input("--memory", needs_gpus);
  if (arguments.memory && !(*arguments.memory >= least_memory && *arguments.memory <= most_memory))
    throw Error::input("--memory", fmt::format("got {:g}, expected 1e5 to 32e9 bytes", *arguments.memory));
  check_writable(arguments.output);
  if (!arguments.samples.empty()) check_writable(arguments.samples);
  if (extent == Extent::reading) return;
  const std::string beside = gpu ? "" : warn_of_others();
  const measure::Samples samples =
      backend.measure({.fast = arguments.fast, .memory = arguments.memory.value_or(most_memory)});
  std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  const std::string what =
      gpu ? samples.name
          : fmt::format("One core of {}, of {}", profile::processor(), std::thread::hardware_concurrency());
  const std::string comment =
      fmt::format("# {}, measured by `boxcar profile` on {:%Y-%m-%d}{}\n", what, date, beside);
  if (!arguments.samples.empty())
    write_file(arguments.samples, [&](std::ostream& out) { out << samples_text(samples); });
  write_file(arguments.output,
             [&](std::ostream& out) { out << comment << backends::to_yaml(fit::fit_device(samples)); });
}

}  // namespace

void add_profile_command(CLI::App& app, Extent extent) {
  CLI::App* command = app.add_subcommand("profile", "measure this machine: a device for simulate's --device");
  auto arguments = std::make_shared<ProfileArguments>();
  command->allow_extras();
  command->add_option("--backend", arguments->backend, "what to measure [cpu]")
      ->type_name(fmt::format("{}", fmt::join(backend_names(), "|")));
  command->add_option("-o,--output", arguments->output, "the device file to write [needed]")
      ->type_name("FILE");
  command
      ->add_option("--samples", arguments->samples, "also write what was measured, before the fit, as JSON")
      ->type_name("FILE");
  command->add_option("--from", arguments->from, "fit to a file that --samples wrote; measure nothing")
      ->type_name("FILE");
  const std::string of_gpus = fmt::format("of backend {}: ", gpu_backend_names());
  command->add_flag("--fast", arguments->fast, of_gpus + "the kernels of `train --fast`");
  command
      ->add_option("--memory", arguments->memory,
                   of_gpus + "bytes that it takes at most of the GPU; larger kernels are left out [32e9]")
      ->type_name("BYTES");
  command->footer(
      "Takes about half a minute, of a GPU up to five; leave the machine alone meanwhile. See docs/local.md, "
      "docs/gpu.md.");
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    arguments->backend_given = command->count("--backend") > 0;
    run(*arguments, extent);
  });
}

}  // namespace boxcar::cli
