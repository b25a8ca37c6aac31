// boxcar: simulate distributed training before paying for GPUs. Exit codes: 0 done, 1 the job cannot run, 2
// the input is wrong, 3 a fault while running.
#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>

#include "backends/mpi/mpi_transport.h"
#include "cli/as_error.h"
#include "cli/calibrate_command.h"
#include "cli/explain_command.h"
#include "cli/list_command.h"
#include "cli/profile_command.h"
#include "cli/sbp_command.h"
#include "cli/search_command.h"
#include "cli/simulate_command.h"
#include "cli/train_command.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace {

using namespace boxcar;

// Input that a message quotes may be anything: what would steer a terminal is shown as its number.
std::string printable(const std::string& message) {
  std::string text;
  for (const char c : message) {
    if ((c >= 0 && c < ' ' && c != '\n') || c == 0x7f)
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      text += c;
  }
  return text;
}

// Processes that have begun MPI have agreed who speaks. What is wrong before that is so in all: the first one
// says it, and mpirun ends the others while they wait.
int fail(const std::string& message, Exit code) {
  std::string whose;
  if (backends::started_process() > 0 && !backends::mpi_has_begun()) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    whose = fmt::format("process {}: ", backends::started_process());
  }
  std::fputs(("boxcar: " + whose + printable(message) + "\n").c_str(), stderr);
  return static_cast<int>(code);
}

// A first word that is no command, before CLI11 sees it, to name the nearest.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) throw Error::input("", "which command? `boxcar --help` lists them");
  std::vector<std::string> names{"-h", "--help", "--version"};
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
  throw Error::input(
      argv[1], fmt::format("no such command{}; `boxcar --help` lists them", did_you_mean(argv[1], names)));
}

// "sbp rules "
std::string given_commands(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : app.get_subcommands())
    text += command->get_name() + " " + given_commands(*command);
  return text;
}

int run(int argc, char** argv) {
  CLI::App app("boxcar: plan, simulate and run distributed deep learning", "boxcar");
  app.set_version_flag("--version", "boxcar 0.1.0");
  app.require_subcommand(1);
  int exit_code = 0;
  cli::add_simulate_command(app, exit_code);
  cli::add_search_command(app, exit_code);
  cli::add_explain_command(app);
  cli::add_train_command(app);
  cli::add_profile_command(app);
  cli::add_calibrate_command(app);
  cli::add_sbp_command(app);
  cli::add_list_commands(app);
  check_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& e) {  // "op is required"
    const std::string what = e.what();
    return fail(fmt::format("{}: missing; `boxcar {}--help` says more",
                            what.substr(0, what.find(" is required")), given_commands(app)),
                Exit::bad_input);
  } catch (const CLI::ArgumentMismatch& e) {  // "--tp: 1 required 1..10000 missing"
    const std::string what = e.what();
    const std::string option = what.substr(0, what.find(':'));
    if (what.ends_with(" missing")) return fail(option + ": needs a value", Exit::bad_input);
    return fail(what.find("At Most") == std::string::npos ? what : option + ": given twice", Exit::bad_input);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return fail(e.what(), Exit::bad_input);
  }
  if (!std::cout.flush()) throw Error::fault("standard output", "cannot be written");
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
#ifdef __GLIBC__
  mallopt(M_MXFAST, 0);  // of many small pieces, else every large one that is freed walks over all
#endif
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    const boxcar::Error error = boxcar::cli::as_error(e);
    return fail(error.what(), error.code());
  }
}
