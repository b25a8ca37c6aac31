#include "cli/profile_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "backends/cluster.h"
#include "backends/cuda/cuda_backend.h"
#include "cli/arguments.h"
#include "cli/cpu_samples.h"
#include "cli/device_fit.h"
#include "cli/gpu_samples.h"
#include "cli/output.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

constexpr double most_memory = 32e9, least_memory = 1e5;

struct ProfileArguments {
  std::string backend = "cpu", output;
  bool fast = false;
  std::optional<double> memory;
};

// What the system calls its processor; "a processor" where it does not say.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "a processor";
}

// Processor seconds that the system has been busy and has been idle since it began, of all processors
// together.
struct Spent {
  double busy = 0, idle = 0;
};
Spent spent() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  Spent result;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
  file >> cpu >> user >> nice >> system >> idle >> waiting >> interrupts >> soft >> stolen;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (file) result = {(user + nice + system + interrupts + soft + stolen) / ticks, (idle + waiting) / ticks};
  return result;
}

// How many processors other programs keep busy while this one sleeps; 0 where the system does not say.
double busy_processors() {
  const Spent before = spent();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Spent after = spent();
  const double busy = after.busy - before.busy, all = busy + after.idle - before.idle;
  return all > 0 ? busy / all * std::thread::hardware_concurrency() : 0;
}

// Says so where other programs keep processors busy; the same for the file, or nothing.
std::string warn_of_others() {
  const double busy = busy_processors();
  if (busy < 0.25) return "";
  const std::string beside = fmt::format("other programs kept {:.1f} of the processors busy", busy);
  std::fprintf(stderr, "boxcar: %s when this began: what is measured may be too slow\n", beside.c_str());
  return ", while " + beside;
}

Samples measure_cuda(bool fast, double memory) {
  const int gpus = backends::cuda::count_gpus();
  const MakeBackend make = [fast](int devices) {
    return backends::cuda::make_cuda_backend(devices, {.fast = fast});
  };
  const int64_t free = make(1)->device(0).facts().free_bytes;
  Progress progress;
  return measure_gpus(make, gpus, gpu_sweep(free, static_cast<int64_t>(memory)),
                      [&](const std::string& what) { progress.step(what); });
}

Samples measure_processor() {
  Progress progress;
  return measure_cpu([&](const std::string& what) { progress.step(what); });
}

void run(const ProfileArguments& arguments, Extent extent) {
  const bool gpu = arguments.backend == "cuda";
  if (!gpu && arguments.backend != "cpu")
    throw Error::input("--backend", fmt::format("got \"{}\", expected one of cpu, cuda{}", arguments.backend,
                                                did_you_mean(arguments.backend, {"cpu", "cuda"})));
  if (arguments.fast && !gpu) throw Error::input("--fast", "needs backend cuda");
  if (arguments.memory && !gpu) throw Error::input("--memory", "needs backend cuda");
  if (arguments.memory && !(*arguments.memory >= least_memory && *arguments.memory <= most_memory))
    throw Error::input("--memory", fmt::format("got {:g}, expected 1e5 to 32e9 bytes", *arguments.memory));
  if (arguments.output.empty()) throw Error::input("-o", "missing; name the device file to write");
  check_writable(arguments.output);
  if (extent == Extent::reading) return;
  const std::string beside = gpu ? "" : warn_of_others();
  const Samples samples =
      gpu ? measure_cuda(arguments.fast, arguments.memory.value_or(most_memory)) : measure_processor();
  std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  const std::string what =
      gpu ? samples.name
          : fmt::format("One core of {}, of {}", processor(), std::thread::hardware_concurrency());
  const std::string comment =
      fmt::format("# {}, measured by `boxcar profile` on {:%Y-%m-%d}{}\n", what, date, beside);
  write_file(arguments.output, [&](std::ostream& out) { out << comment << backends::to_yaml(fit(samples)); });
}

}  // namespace

void add_profile_command(CLI::App& app, Extent extent) {
  CLI::App* command = app.add_subcommand("profile", "measure this machine: a device for simulate's --device");
  auto arguments = std::make_shared<ProfileArguments>();
  command->allow_extras();
  command->add_option("--backend", arguments->backend, "what to measure [cpu]")->type_name("cpu|cuda");
  command->add_option("-o,--output", arguments->output, "the device file to write [needed]")
      ->type_name("FILE");
  command->add_flag("--fast", arguments->fast, "of backend cuda: the kernels of `train --fast`");
  command
      ->add_option(
          "--memory", arguments->memory,
          "of backend cuda: bytes that it takes at most of the GPU; larger kernels are left out [32e9]")
      ->type_name("BYTES");
  command->footer(
      "Takes about half a minute, of a GPU up to five; leave the machine alone meanwhile. See docs/local.md, "
      "docs/gpu.md.");
  command->callback([command, arguments, extent] {
    refuse_extras(*command);
    run(*arguments, extent);
  });
}

}  // namespace boxcar::cli
