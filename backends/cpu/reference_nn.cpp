#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {

void add_nn_kernels(KernelTable&) {}

}  // namespace boxcar::backends::cpu
