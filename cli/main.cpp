// boxcar: simulate distributed training before paying for GPUs.
#include <csignal>
#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/program.h"

int main(int argc, char** argv) {
#ifdef __GLIBC__
  mallopt(M_MXFAST, 0);  // of many small pieces, else every large one that is freed walks over all
#endif
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // a file that outgrows the process's limit is an error of its write
#endif
  return boxcar::cli::program_main(argc, argv);
}
