// boxcar: simulate distributed training before paying for GPUs.
#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/program.h"

int main(int argc, char** argv) {
#ifdef __GLIBC__
  mallopt(M_MXFAST, 0);  // of many small pieces, else every large one that is freed walks over all
#endif
  return boxcar::cli::program_main(argc, argv);
}
