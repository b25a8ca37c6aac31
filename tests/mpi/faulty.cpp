// A run of several processes whose process 1 fails as the second argument says; mpirun runs it for
// faults_test.cpp. Each process has one device, and all meet in a barrier of the CPU backend or of groups by
// NCCL's interface, as the first argument says.
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/cpu/cpu_backend.h"
#include "backends/mpi/mpi_transport.h"
#include "backends/nccl_backend.h"
#include "sbp/error.h"

using namespace boxcar;

namespace {

// Time limits of NCCL's acts.
constexpr double patience = 20, impatience = 3;

void run(backends::Backend& backend, const std::string& fault) {
  const int devices = backend.devices(), me = backend.transport()->process();
  backend.transport()->start();
  std::vector<int> group;
  for (int d = 0; d < devices; ++d) group.push_back(d);
  const auto queue = backend.device(me).queue(ir::QueueKind::network);
  const auto all = backend.communicator("all", group, me, *queue);
  const auto others = backend.communicator("others", group, me, *queue);
  auto* const nccl = dynamic_cast<tests::NcclBackend*>(&backend);
  const auto finish = [&] {
    queue->finish();
    if (nccl) nccl->groups().check();
  };
  all->barrier();
  others->barrier();
  finish();
  const std::string name = fmt::format("device {}: h0.barrier", me);
  const backends::Waiting::Act act(name);
  if (me == 1) {
    // With NCCL the fault comes during the collective, which is launched before its stream gets there.
    const auto in_the_middle = [&](const std::function<void()>& what) {
      nccl ? dynamic_cast<support::LateQueue&>(*queue).put(what) : what();
    };
    if (fault == "dies")
      in_the_middle([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));  // by then the others wait for it
        raise(SIGKILL);
      });
    if (fault == "stops") in_the_middle([] { raise(SIGSTOP); });
    if (fault == "fails") throw Error::fault("device 1", "out of luck");
    if (fault == "leaves") std::exit(0);
    if (fault == "gathers") {
      const std::vector<int64_t> counts(group.size(), 1);
      std::vector<float> in(1), out(group.size());
      all->all_gather(in.data(), out.data(), counts, ir::DType::float32);
      finish();
    }
    if (fault == "reorders") others->barrier();
  }
  all->barrier();
  if (fault == "reorders" && me != 1) others->barrier();
  finish();
  backend.transport()->finish();
}

}  // namespace

int main(int, char** argv) {
  const int processes = backends::started_processes();
  const std::string kind = argv[1], fault = argv[2];
  auto transport = backends::make_mpi_transport({.silence = std::atof(argv[3])});
  std::unique_ptr<backends::Backend> backend;
  if (kind == "nccl")
    backend = std::make_unique<tests::NcclBackend>(processes, std::move(transport),
                                                   fault == "reorders" ? impatience : patience);
  else
    backend = backends::cpu::make_cpu_backend(processes, std::move(transport));
  const int me = backend->transport()->process();
  try {
    run(*backend, fault);
  } catch (const Error& error) {
    backend->abort(error.what());
    const Error agreed = backend->transport()->agree(error);
    fmt::print(stderr, "boxcar: {}\n", agreed.what());
    return static_cast<int>(agreed.code());
  }
  fmt::print(stderr, "process {}: done\n", me);
  return 0;
}
