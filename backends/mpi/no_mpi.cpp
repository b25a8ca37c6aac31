// In place of mpi_transport.cpp if MPI was not found.
#include "backends/mpi/mpi_transport.h"
#include "sbp/error.h"

namespace boxcar::backends {

bool has_mpi() { return false; }
bool mpi_has_begun() { return false; }

std::unique_ptr<Transport> make_mpi_transport(const MpiOptions&) {
  throw Error::cannot_run("mpi",
                          "this build has none; install libopenmpi-dev and openmpi-bin, then build again");
}

}  // namespace boxcar::backends
