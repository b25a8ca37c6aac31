#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {

void add_update_kernels(KernelTable&) {}

}  // namespace boxcar::backends::cpu
