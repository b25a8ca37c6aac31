// The transport over MPI, for processes that mpirun has started.
//
//   if (started_processes() > 1) transport = make_mpi_transport();      // mpirun -n 4 --bind-to none boxcar
//   auto backend = cpu::make_cpu_backend(8, std::move(transport));
//   backend->transport()->start();
//   ...
//   backend->transport()->finish();
//
// A message is one of MPI's, its channel the tag; MPI is asked for MPI_THREAD_MULTIPLE and used from many
// threads. The progress thread looks for messages, less and less often while there are none, and tells the
// others every second that this process is alive, from before start() to the end of finish().
//
// When a process dies, mpirun sends SIGTERM to the others. A process with this transport then says on
// standard error what it waits for and exits with code 3:
//
//   process 3: ended by SIGTERM, which mpirun sends when another process dies or it is
//   interrupted; device 3: h0.attn.proj.all_reduce waits for device 1 of process 0
//
// unless another process says why the run ends, or the machine is so busy that SIGKILL comes first, which
// mpirun sends a second later (odls_base_sigkill_timeout). For this, make_mpi_transport() blocks SIGTERM in
// the thread that calls it, and so in those that it starts later.
#pragma once

#include <cstdlib>
#include <memory>

#include "backends/transport.h"

namespace boxcar::backends {

// Whether this build has MPI.
bool has_mpi();

// How many processes mpirun has started together with this one; 1 without mpirun.
inline int started_processes() {
  const char* count = std::getenv("OMPI_COMM_WORLD_SIZE");
  return count ? std::atoi(count) : 1;
}

// How many of those run on this machine.
inline int started_processes_here() {
  const char* count = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return count ? std::atoi(count) : started_processes();
}

// Whether make_mpi_transport() has begun MPI.
bool mpi_has_begun();

// Number of this process among those that mpirun started, from 0.
inline int started_process() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank ? std::atoi(rank) : 0;
}

struct MpiOptions {
  double silence = 15;  // seconds without a sign of life after which a process is given up
  double start = 60;    // seconds for all processes to begin MPI; then one says so and the run ends (exit 3)
};

// Once per process, before other threads. Throws Error (cannot run) if there is no MPI, or it does not allow
// several threads.
std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options = {});

}  // namespace boxcar::backends
