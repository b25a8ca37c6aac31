// boxcar: simulate distributed training before paying for GPUs. Exit codes: 0 done, 1 the job cannot run, 2
// the input is wrong, 3 a fault while running.
#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "backends/mpi/mpi_transport.h"
#include "cli/as_error.h"
#include "cli/program.h"
#include "cli/sweep/ranks.h"

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

// Processes that have begun MPI have agreed who speaks. Errors before that are the same in all: the first one
// says it, and mpirun ends the others while they wait.
int fail(const Error& error) {
  std::string whose;
  if (const int rank = cli::started_together().rank; rank > 0 && !backends::mpi_has_begun()) {
    std::this_thread::sleep_for(std::chrono::seconds(5));
    whose = fmt::format("process {}: ", rank);
  }
  std::fputs(("boxcar: " + whose + printable(error.what()) + "\n").c_str(), stderr);
  return static_cast<int>(error.code());
}

}  // namespace

int main(int argc, char** argv) {
#ifdef __GLIBC__
  mallopt(M_MXFAST, 0);  // of many small pieces, else every large one that is freed walks over all
#endif
  try {
    return cli::run_program(argc, argv);
  } catch (const std::exception& e) {
    return fail(cli::as_error(e));
  }
}
