// A run of several processes of which number 1 goes wrong as the argument says; run by mpirun for
// faults_test.cpp. Each process has one device, and all meet in a barrier.
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/cpu/cpu_backend.h"
#include "backends/mpi/mpi_transport.h"
#include "sbp/error.h"

using namespace boxcar;

namespace {

void run(backends::Backend& backend, const std::string& fault) {
  const int devices = backend.devices(), me = backend.transport()->process();
  backend.transport()->start();
  std::vector<int> group;
  for (int d = 0; d < devices; ++d) group.push_back(d);
  const auto queue = backend.device(me).queue(ir::QueueKind::network);
  const auto all = backend.communicator("all", group, me, *queue);
  all->barrier();
  if (me == 1) {
    if (fault == "dies") {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // by then the others wait for it
      raise(SIGKILL);
    }
    if (fault == "stops") raise(SIGSTOP);
    if (fault == "fails") throw Error::fault("device 1", "out of luck");
    if (fault == "leaves") std::exit(0);
  }
  const std::string name = fmt::format("device {}: h0.barrier", me);
  const backends::Waiting::Act act(name);
  all->barrier();
  backend.transport()->finish();
}

}  // namespace

int main(int, char** argv) {
  const int processes = backends::started_processes();
  const auto backend = backends::cpu::make_cpu_backend(
      processes, backends::make_mpi_transport({.silence = std::atof(argv[2])}));
  const int me = backend->transport()->process();
  try {
    run(*backend, argv[1]);
  } catch (const Error& error) {
    backend->abort(error.what());
    const Error agreed = backend->transport()->agree(error);
    fmt::print(stderr, "boxcar: {}\n", agreed.what());
    return static_cast<int>(agreed.code());
  }
  fmt::print(stderr, "process {}: done\n", me);
  return 0;
}
