// boxcar: simulate distributed training before paying for GPUs.
#include <csignal>
#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/program.h"

int main(int argc, char** argv) {
#ifdef __GLIBC__
  mallopt(M_MXFAST, 0);  // no bins of small pieces, which every free of a large one would walk over
#endif
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding the process's limit on a file's size is an error of its write
#endif
  return boxcar::cli::program_main(argc, argv);
}
