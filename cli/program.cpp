#include "cli/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/mpi/mpi_transport.h"
#include "cli/arguments.h"
#include "cli/calibrate_command.h"
#include "cli/campaign_command.h"
#include "cli/compare_trace_command.h"
#include "cli/completions.h"
#include "cli/diff_command.h"
#include "cli/explain_command.h"
#include "cli/export_command.h"
#include "cli/import_command.h"
#include "cli/list_command.h"
#include "cli/profile_command.h"
#include "cli/report_command.h"
#include "cli/sbp_command.h"
#include "cli/search_command.h"
#include "cli/simulate_command.h"
#include "cli/sweep_command.h"
#include "cli/table_command.h"
#include "cli/tokenize_command.h"
#include "cli/train_command.h"
#include "sbp/as_error.h"
#include "sbp/error.h"
#include "sbp/suggest.h"
#include "sim/sweep/ranks.h"

namespace boxcar::cli {
namespace {

// Refuses a first word that is no command, before CLI11 sees it, to name the nearest.
void check_command(const CLI::App& app, int argc, const char* const* argv) {
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

// Input that a message quotes may be anything: control characters are shown as numbers.
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

// Processes that have begun MPI have agreed which one speaks. Errors before that are the same in all: the
// first one prints it, and mpirun ends the others while they wait.
int fail(const Error& error) {
  std::string whose;
  if (const int rank = sweep::started_together().rank; rank > 0 && !backends::mpi_has_begun()) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    whose = fmt::format("process {}: ", rank);
  }
  std::fputs(("boxcar: " + whose + printable(error.what()) + "\n").c_str(), stderr);
  return static_cast<int>(error.code());
}

}  // namespace

const char* program_version() { return BOXCAR_VERSION; }

int run_program(int argc, const char* const* argv, Extent extent) {
  CLI::App app("boxcar: plan, simulate and run distributed deep learning", "boxcar");
  app.set_version_flag("--version", std::string("boxcar ") + program_version());
  app.require_subcommand(1);
  int exit_code = 0;
  add_simulate_command(app, exit_code, extent);
  add_search_command(app, exit_code, extent);
  add_campaign_command(app, exit_code, extent);
  add_sweep_command(app, extent);
  add_table_command(app);
  add_explain_command(app, extent);
  add_diff_command(app, extent);
  add_compare_trace_command(app, extent);
  add_report_command(app, extent);
  add_export_command(app, extent);
  add_import_command(app, extent);
  add_tokenize_command(app, extent);
  add_train_command(app, extent);
  add_profile_command(app, extent);
  add_calibrate_command(app, extent);
  add_sbp_command(app);
  add_list_commands(app);
  add_completion_commands(app);
  app.footer("Pages docs/... are in the source folder, or beside an installed program in share/doc/boxcar.");
  check_command(app, argc, argv);
  try {
    std::vector<std::string> words = with_constants_named(app, {argv + 1, argv + argc});
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(std::move(words));
  } catch (const CLI::RequiredError& e) {  // "op is required"
    const std::string what = e.what();
    throw Error::input(what.substr(0, what.find(" is required")),
                       fmt::format("missing; `boxcar {}--help` says more", given_commands(app)));
  } catch (const CLI::ArgumentMismatch& e) {  // "--tp: 1 required 1..10000 missing"
    const std::string what = e.what();
    const std::string option = what.substr(0, what.find(':'));
    if (what.ends_with(" missing")) throw Error::input(option, "needs a value");
    if (what.find("At Most") != std::string::npos) throw Error::input(option, "given twice");
    throw Error::input("", what);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw Error::input("", e.what());
    app.exit(e);  // prints --help or --version
  }
  if (!std::cout.flush()) throw Error::fault("standard output", "cannot be written");
  return exit_code;
}

int program_main(int argc, const char* const* argv) {
  try {
    return run_program(argc, argv);
  } catch (const std::exception& e) {
    return fail(as_error(e));
  }
}

}  // namespace boxcar::cli
