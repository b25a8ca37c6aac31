// N devices of this machine's processor, all in this process or spread over several.
//
//   auto backend = make_cpu_backend(4);                                  // 4 devices here
//   auto backend = make_cpu_backend(4, make_mpi_transport());            // under mpirun -n 2: 2 of 4 here
//   auto queue = backend->device(0).queue(ir::QueueKind::compute);
//   auto dp = backend->communicator("dp.0", {{0, 1}}, 0, *queue);
//
// Communicators wait on the calling thread and do not use their queue. Devices, communicators and abort() may
// be used from any thread; all communicators end before the backend does.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace boxcar::backends::cpu {

// `transport` must not have been started; collectives listen to its Channel::control. Throws Error (bad
// input) for fewer devices than one or than processes.
std::unique_ptr<Backend> make_cpu_backend(int devices, std::unique_ptr<Transport>&& transport = nullptr);

}  // namespace boxcar::backends::cpu
